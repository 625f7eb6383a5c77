//! A gang whose members find each other by their environment and sum over sockets, undisturbed and with one of them killed.

use super::{Standalone, example};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const SUMS: &str = "the sums are [10, 20, 30, 40]";

/// What an instance of the gang has printed; a run that ends while it is asked about is no failure.
fn log(standalone: &Standalone, instance: usize) -> String {
    let output = standalone.echelon(&["job", "logs", "allreduce", &instance.to_string()]);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The example with some of its text replaced.
fn changed(folder: &Path, by: &[(&str, &str)]) -> String {
    let mut text = std::fs::read_to_string(example("allreduce")).unwrap();
    for (from, to) in by {
        assert!(text.contains(from), "{from} is not in the example");
        text = text.replace(from, to);
    }
    let file = folder.join("allreduce.yaml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The number of each member's latest run.
fn runs(standalone: &Standalone) -> Vec<u32> {
    let listed = standalone.instances("allreduce");
    let task = |i: &serde_json::Value| i["run"]["task_id"].as_str().unwrap_or_default().to_owned();
    listed
        .iter()
        .filter_map(|i| task(i).rsplit_once('.')?.1.parse().ok())
        .collect()
}

#[test]
fn a_gang_sums_over_sockets_that_its_members_find_in_their_environment() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    let file = changed(folder.path(), &[("limit: 3", "limit: 9")]);
    standalone.printed(&["job", "run", &file, "--wait"]);
    for instance in 0..4 {
        let log = log(&standalone, instance);
        assert!(log.contains(&format!("member {instance} of 4")), "{log}");
        assert_eq!(log.matches(SUMS).count(), 3, "{log}");
    }
    let runs = runs(&standalone);
    assert!(runs.iter().all(|r| *r == runs[0]), "{runs:?}");
    let got = standalone.printed(&["job", "get", "allreduce"]);
    assert!(got.contains("when a member fails: all are tried again"), "{got}");
}

#[test]
fn a_gang_is_tried_again_as_a_whole_when_a_member_is_killed() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    let longer = (r#"STEPS: "3", PAUSE: "0.05""#, r#"STEPS: "60", PAUSE: "0.2""#);
    let file = changed(folder.path(), &[longer, ("limit: 3", "limit: 9")]);
    standalone.printed(&["job", "run", &file]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let begun = loop {
        let log = log(&standalone, 2);
        if log.contains("step 1") {
            break log;
        }
        assert!(Instant::now() < deadline, "{log}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let pid = begun.split_once("process ").unwrap().1.lines().next().unwrap();
    let before = runs(&standalone);
    let killed = Command::new("kill").args(["-9", pid]).status().unwrap();
    assert!(killed.success(), "process {pid} was gone already");
    standalone.printed(&["job", "watch", "allreduce"]);
    let after = runs(&standalone);
    assert!(
        after.iter().all(|r| *r == after[0] && *r > before[2]),
        "{before:?}, then {after:?}"
    );
    for instance in 0..4 {
        let log = log(&standalone, instance);
        assert_eq!(log.matches(SUMS).count(), 60, "{log}");
    }
}
