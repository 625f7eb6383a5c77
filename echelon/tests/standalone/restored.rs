//! An older copy of the storage file is put back beside tasks that went on, as docs/operations.md says it:
//! nothing is doubled, the cluster says that it is frozen, and after `echelon storage resume` each instance
//! runs once.

use super::{Standalone, plain};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The tasks of a job that have a process, with how many each.
fn tasks_with_processes(job: &str) -> Vec<String> {
    let wanted = format!("ECHELON_TASK_ID={job}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|b| *b == 0);
        let task = variables.find_map(|v| {
            String::from_utf8(v.to_vec())
                .ok()
                .filter(|v| v.starts_with(&wanted))
        });
        // A shell and what it runs are one.
        if let Some(task) = task.filter(|t| !found.contains(t)) {
            found.push(task);
        }
    }
    found.sort();
    found
}

fn kill(task: &str) {
    let wanted = format!("ECHELON_TASK_ID={}", task.trim_matches('"'));
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|b| *b == 0).any(|v| v == wanted.as_bytes()) {
            let pid = entry.file_name().into_string().unwrap();
            let _ = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        }
    }
}

fn storage(verb: &[&str], data: &Path) -> Output {
    let url = format!("file:{}", data.join("storage").display());
    let done = plain()
        .args(["storage"])
        .args(verb)
        .args(["--storage", &url])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{verb:?}: {told}");
    done
}

/// The file and the card that belongs to it.
fn copy_storage(from: &Path, to: &Path) {
    for name in ["storage", "storage.card"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// A job file of this cluster's.
fn job_file(folder: &Path, name: &str, instances: u32) -> String {
    let file = folder.join(format!("{name}.yaml"));
    let text = format!(
        "name: {name}\npool: /default\nkind: service\ninstances: {instances}\nclusters: {{only: [east]}}\ncommand: sleep 1000\nresources: {{cpus: 0.1, memory: 32MiB}}\n"
    );
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The value of a metric of the shard of `east`.
fn metric(standalone: &Standalone, name: &str) -> Option<String> {
    let (_, at) = standalone.address.split_once("://").unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    let asked = format!("GET /metrics HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    let mut lines = told.lines().filter(|l| l.starts_with(&format!("{name}{{")));
    let line = lines.find(|l| l.contains("east"))?;
    Some(line.rsplit_once(' ')?.1.to_owned())
}

/// What a command says, on either output.
fn said(standalone: &Standalone, args: &[&str]) -> String {
    let output = standalone.echelon(args);
    let all = [output.stdout, output.stderr].map(|t| String::from_utf8(t).unwrap());
    all.concat()
}

/// Waits until a command says this.
fn until_said(standalone: &Standalone, args: &[&str], words: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = said(standalone, args);
        if text.contains(words) {
            return;
        }
        assert!(Instant::now() < deadline, "{args:?}: no `{words}` in {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until a list of clusters says this of one.
fn until_listed(standalone: &Standalone, word: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let listed = standalone.echelon(&["cluster", "list"]);
        let text = [listed.stdout, listed.stderr]
            .map(|t| String::from_utf8(t).unwrap())
            .concat();
        if text.contains(word) {
            return text;
        }
        assert!(Instant::now() < deadline, "no `{word}` in {text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_restored_file_freezes_and_resumes_with_each_instance_once() {
    let folder = super::work();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut first = Standalone::start(&data);
    first.printed(&["job", "run", &job_file(folder.path(), "web", 2)]);
    let before = first.running("web", 2);
    let got: serde_json::Value =
        serde_json::from_str(&first.printed(&["job", "get", "web", "-o", "json"])).unwrap();
    let job = got["name"]
        .as_str()
        .unwrap()
        .trim_start_matches("jobs/")
        .to_owned();
    assert_eq!(first.interrupt(), Some(0));
    let backup = folder.path().join("backup");
    fs::create_dir(&backup).unwrap();
    copy_storage(&data, &backup);

    // After the backup a run ends and is followed by the next.
    let mut second = Standalone::start(&data);
    kill(&before[0]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let after = loop {
        let running = second.running("web", 2);
        if running[0] != before[0] {
            break running;
        }
        assert!(Instant::now() < deadline, "{running:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let alive = tasks_with_processes(&job);
    assert_eq!(alive.len(), 2, "{alive:?}");
    assert_eq!(second.interrupt(), Some(0));
    copy_storage(&backup, &data);

    let mut frozen = Standalone::start(&data);
    let told = until_listed(&frozen, "frozen, run `echelon storage resume`: task ");
    assert!(told.contains(after[0].trim_matches('"')), "{told}");
    assert_eq!(metric(&frozen, "echelon_frozen").as_deref(), Some("1"));
    until_said(&frozen, &["status"], "echelon storage resume");
    until_said(&frozen, &["job", "list"], "echelon storage resume");
    // New work comes, and nothing of it begins on a frozen cluster; what ran runs on, once.
    frozen.printed(&["job", "run", &job_file(folder.path(), "late", 1)]);
    until_said(
        &frozen,
        &["job", "explain", "late"],
        "its shard is frozen, run `echelon storage resume`",
    );
    let listed = frozen.instances("late");
    assert!(listed.iter().all(|i| i["state"] == "pending"), "{listed:?}");
    assert_eq!(tasks_with_processes(&job), alive);
    assert_eq!(frozen.interrupt(), Some(0));

    let shown = storage(&["resume"], &data);
    let told = String::from_utf8(shown.stderr).unwrap();
    assert!(told.contains("Nothing was changed; say --yes to do it"), "{told}");
    let done = storage(&["resume", "--yes", "-o", "json"], &data);
    let steps: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(steps.as_array().map(Vec::len), Some(3), "{steps}");

    let mut resumed = Standalone::start(&data);
    until_listed(&resumed, "healthy");
    assert_eq!(metric(&resumed, "echelon_frozen").as_deref(), Some("0"));
    resumed.running("late", 1);
    let deadline = Instant::now() + Duration::from_secs(60);
    while resumed.running("web", 2) != after {
        assert!(Instant::now() < deadline, "{:?}", resumed.instances("web"));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(tasks_with_processes(&job), alive, "each instance once");
    resumed.printed(&["job", "stop", "late", "--wait"]);
    resumed.printed(&["job", "stop", "web", "--wait"]);
    assert_eq!(tasks_with_processes(&job), Vec::<String>::new());
    assert_eq!(resumed.interrupt(), Some(0));
}
