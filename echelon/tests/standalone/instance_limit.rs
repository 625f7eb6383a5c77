//! A pool takes in as many instances as it may have, however many ask for more at the same moment.

use super::Standalone;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// A job of the largest size, of which no host can hold an instance.
fn job(folder: &Path, name: &str) -> String {
    let file = folder.join(format!("{name}.yaml"));
    let group = "{instances: 10000000, command: 'true', resources: {cpus: 50, memory: 64MiB}}";
    let text = format!("name: {name}\nkind: batch\ngroups: {{main: {group}}}\n");
    std::fs::write(&file, text).unwrap();
    file.display().to_string()
}

#[test]
fn a_pool_is_full_at_its_limit_of_instances_whoever_asks_at_once() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    // Until a resource manager leads, nothing is checked.
    standalone.printed(&["job", "run", &super::example("hello"), "--wait"]);
    let files: Vec<String> = (0..14).map(|n| job(folder.path(), &format!("j{n}"))).collect();
    let answers: Vec<Output> = std::thread::scope(|threads| {
        let submit = |file: &str| standalone.echelon(&["job", "run", file]);
        let submits: Vec<_> = files
            .iter()
            .map(|file| threads.spawn(move || submit(file)))
            .collect();
        submits.into_iter().map(|submit| submit.join().unwrap()).collect()
    });
    let (taken, refused): (Vec<usize>, Vec<usize>) =
        (0..files.len()).partition(|n| answers[*n].status.success());
    assert_eq!(taken.len(), 10);
    for n in &refused {
        let said = String::from_utf8_lossy(&answers[*n].stderr);
        let wanted = format!(
            "job `j{n}` cannot have 10000000 instances: the other jobs of pool /default have 100000000 instances, \
             and all of them together may have 100000000"
        );
        assert!(said.contains(&wanted), "{said}");
    }
    let listed = standalone.printed(&["job", "list"]);
    assert!(
        refused.iter().all(|n| !listed.contains(&format!("j{n} "))),
        "{listed}"
    );

    standalone.printed(&["job", "stop", &format!("j{}", taken[0]), "--wait"]);
    // The leader counts a job that has ended until it has looked at it again.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !standalone
        .echelon(&["job", "run", &files[refused[0]]])
        .status
        .success()
    {
        assert!(Instant::now() < deadline, "a job that was stopped still counts");
        std::thread::sleep(Duration::from_millis(100));
    }
    let again = standalone.echelon(&["job", "run", &files[refused[1]]]);
    assert!(!again.status.success());
}
