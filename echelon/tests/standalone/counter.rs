//! A stateful counter that survives its own kill, an update and Echelon's restart, without losing a count.

use super::{Standalone, example};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Processes of a task: they find its id in their environment.
fn processes_of(task: &str) -> Vec<String> {
    let wanted = format!("ECHELON_TASK_ID={task}");
    let is_of = |pid: &str| {
        let environment = std::fs::read(Path::new("/proc").join(pid).join("environ")).unwrap_or_default();
        let mut variables = environment.split(|b| *b == 0);
        variables.any(|v| v == wanted.as_bytes())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let names = all.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.bytes().all(|b| b.is_ascii_digit()) && is_of(name))
        .collect()
}

/// Kills the processes of a task without a word to anybody.
fn kill(task: &str) {
    let all = processes_of(task.trim_matches('"'));
    assert!(!all.is_empty(), "{task} has no process");
    let done = Command::new("kill").arg("-KILL").args(all).status().unwrap();
    assert!(done.success());
}

/// The task that runs, once its latest run has said this.
fn counted(standalone: &Standalone, n: u32) -> String {
    let wanted = format!("start number {n}\n");
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        // A run that ends while it is asked about is no failure: the next one is asked.
        let log = standalone.echelon(&["job", "logs", "counter", "0"]).stdout;
        let log = String::from_utf8(log).unwrap();
        if log == wanted {
            return standalone.running("counter", 1).remove(0);
        }
        assert!(Instant::now() < deadline, "no `{wanted}` but `{log}`");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_counter_survives_its_kill_an_update_and_a_restart_of_echelon_without_losing_a_count() {
    let folder = super::work();
    let mut first = Standalone::start(folder.path());
    first.printed(&["job", "run", &example("counter")]);
    let task = counted(&first, 1);
    kill(&task);
    assert_ne!(counted(&first, 2), task);

    let text = std::fs::read_to_string(example("counter")).unwrap();
    let file = folder.path().join("counter.yaml");
    std::fs::write(&file, format!("{text}\nenv: {{VERSION: two}}\n")).unwrap();
    first.printed(&["job", "update", &file.display().to_string(), "--wait"]);
    let task = counted(&first, 3);

    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let again = Standalone::start(folder.path());
    assert_eq!(counted(&again, 3), task, "it runs on, and counts nothing twice");
    kill(&task);
    counted(&again, 4);
    let rollout = again.printed(&["rollout", "get", "counter"]);
    assert!(rollout.contains("state:     done"), "{rollout}");
    let restarted = again.printed(&["job", "restart", "counter", "--instances", "0", "--wait"]);
    assert!(restarted.contains("restart:   of main/0: done"), "{restarted}");
    counted(&again, 5);
    again.printed(&["job", "stop", "counter", "--wait"]);
}
