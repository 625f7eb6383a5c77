//! The wall clock of the machine is set by an hour, in both directions, while everything runs.

use super::{Standalone, plain};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn job(folder: &Path, name: &str, kind: &str) -> String {
    let path = folder.join(format!("{name}.yaml"));
    let text = format!(
        "name: {name}\npool: /default\nkind: {kind}\ninstances: 2\nresources: {{cpus: 0.1, memory: 32MiB}}\ncommand: sleep 1000\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The epochs of all leaders, with who leads.
fn leaders(standalone: &Standalone) -> Vec<String> {
    let address = standalone.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let lines = answer.lines();
    let told = lines.filter(|l| l.starts_with("echelon_epoch{") || l.starts_with("echelon_leading{"));
    told.map(str::to_owned).collect()
}

fn until_told(log: &Path, times: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(log).unwrap();
        if text.matches("the clock of this machine was set").count() >= times {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "the process does not see its clock: {text}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_wall_clock_that_is_set_ends_no_leadership_and_no_run() {
    let folder = super::work();
    let [data, offset, log] = ["data", "offset", "log"].map(|name| folder.path().join(name));
    fs::create_dir(&data).unwrap();
    fs::write(&offset, "0").unwrap();
    let mut command = plain();
    command.env("ECHELON_CLOCK_OFFSET_FILE", &offset);
    let to_log = Stdio::from(File::create(&log).unwrap());
    let standalone = Standalone::start_by(command, &data, (&["--virtual"], to_log));
    standalone.printed(&["job", "run", &job(folder.path(), "web", "service")]);
    let tasks = standalone.running("web", 2);
    let before = leaders(&standalone);
    assert_eq!(before.len(), 6, "three roles: {before:?}");
    for (times, seconds) in [(1, "3600"), (2, "-3600")] {
        fs::write(&offset, seconds).unwrap();
        until_told(&log, times);
        // All loops have turned since: a job that comes now is run.
        let name = format!("after-{times}");
        standalone.printed(&["job", "run", &job(folder.path(), &name, "service")]);
        standalone.running(&name, 2);
        assert_eq!(leaders(&standalone), before, "the clock was set to {seconds}");
        assert_eq!(standalone.running("web", 2), tasks);
    }
}
