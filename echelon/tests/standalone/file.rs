//! The storage file of a whole federation: damaged, missing, another one, and on a disk without room.

use super::{Standalone, plain};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn job(folder: &Path, name: &str, more: &str) -> String {
    let path = folder.join(format!("{name}.yaml"));
    let text = format!(
        "name: {name}\npool: /default\nkind: service\ninstances: 1\ncommand: sleep 1000\n\
         resources: {{cpus: 0.01, memory: 1MiB}}\n{more}"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// What a start says that is refused.
fn refused(data: &Path) -> String {
    let command = plain()
        .env("RUST_BACKTRACE", "1")
        .args(["standalone", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(data)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&command.stderr).into_owned();
    assert_eq!(command.status.code(), Some(1), "{stderr}");
    let told = stderr.lines().filter(|line| line.starts_with("echelon: "));
    assert_eq!(told.count(), 1, "{stderr}");
    for bad in ["panic", "backtrace", "stack"] {
        assert!(!stderr.contains(bad), "{stderr}");
    }
    stderr
}

fn accept(data: &Path) -> Output {
    let url = format!("file:{}", data.canonicalize().unwrap().join("storage").display());
    plain()
        .args(["storage", "accept", "--storage", &url])
        .output()
        .unwrap()
}

#[test]
fn a_damaged_file_is_told_in_one_sentence_and_the_good_one_goes_on() {
    let folder = super::work();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut first = Standalone::start(&data);
    first.printed(&["job", "run", &job(folder.path(), "web", "")]);
    let tasks = first.running("web", 1);
    assert_eq!(first.interrupt(), Some(0));
    let file = data.join("storage");
    let good = fs::read(&file).unwrap();
    let zeros = [&good[..4096], &vec![0; good.len() - 4096]].concat();
    for bad in [&good[..good.len() / 2], &zeros, &good[4096..]] {
        fs::write(&file, bad).unwrap();
        let told = refused(&data);
        assert!(told.contains(&file.display().to_string()), "{told}");
        assert!(told.contains("put the last backup in its place"), "{told}");
        let accepted = accept(&data);
        assert_eq!(accepted.status.code(), Some(1), "damage is not accepted");
        assert_eq!(fs::read(&file).unwrap().len(), bad.len());
    }
    fs::write(&file, &good).unwrap();
    let again = Standalone::start(&data);
    assert_eq!(again.running("web", 1), tasks, "it runs on");
    again.printed(&["job", "stop", "web", "--wait"]);
}

#[test]
fn a_missing_file_is_no_new_storage_until_it_is_accepted() {
    let folder = super::work();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut first = Standalone::start(&data);
    first.printed(&["job", "run", &job(folder.path(), "web", "")]);
    let tasks = first.running("web", 1);
    assert_eq!(first.interrupt(), Some(0));
    let (file, card) = (data.join("storage"), data.join("storage.card"));
    let (good, said) = (fs::read(&file).unwrap(), fs::read(&card).unwrap());

    fs::remove_file(&file).unwrap();
    let told = refused(&data);
    assert!(told.contains("is missing or empty"), "{told}");
    assert!(told.contains("`echelon storage accept`"), "{told}");
    assert!(!file.exists(), "nothing is made in its place");

    // Without the card as well: what the simulated masters know tells it.
    fs::remove_file(&card).unwrap();
    for _ in 0..2 {
        let told = refused(&data);
        assert!(told.contains("run 1 tasks that it does not know"), "{told}");
        assert!(told.contains("`echelon storage accept --storage file:"), "{told}");
    }

    fs::write(&file, &good).unwrap();
    fs::write(&card, &said).unwrap();
    let mut again = Standalone::start(&data);
    assert_eq!(again.running("web", 1), tasks, "it runs on");
    again.printed(&["job", "stop", "web", "--wait"]);
    assert_eq!(again.interrupt(), Some(0));

    fs::remove_file(&file).unwrap();
    let accepted = accept(&data);
    let told = String::from_utf8_lossy(&accepted.stderr);
    assert_eq!(accepted.status.code(), Some(0), "{told}");
    let fresh = Standalone::start(&data);
    assert_eq!(fresh.printed(&["job", "list", "-o", "name"]), "");
}

/// Status code and body of what a GET answers.
fn get(standalone: &Standalone, path: &str) -> (String, String) {
    let address = standalone.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap();
    (code.to_owned(), body.to_owned())
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How large files may be that a process writes: a disk that gets full at a known point.
fn limit(standalone: &Standalone, bytes: &str) {
    let set = Command::new("prlimit")
        .args(["--pid", &standalone.child.id().to_string()])
        .arg(format!("--fsize={bytes}:unlimited"))
        .status();
    assert!(set.expect("prlimit of util-linux sets the limit").success());
}

#[test]
fn a_full_disk_refuses_changes_and_goes_on_when_there_is_room() {
    let folder = super::work();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut standalone = Standalone::start_with(&data, &["--virtual"]);
    standalone.printed(&["job", "run", &job(folder.path(), "first", "")]);
    let tasks = standalone.running("first", 1);
    let length = fs::metadata(data.join("storage")).unwrap().len();
    limit(&standalone, &length.to_string());

    let padding = format!("env: {{PADDING: {}}}\n", "x".repeat(100_000));
    let mut acknowledged = vec!["first".to_owned()];
    let told = (0..300).find_map(|n| {
        let name = format!("n{n}");
        let output = standalone.echelon(&[
            "--timeout",
            "4s",
            "job",
            "run",
            &job(folder.path(), &name, &padding),
        ]);
        if output.status.success() {
            acknowledged.push(name);
            return None;
        }
        assert_eq!(output.status.code(), Some(5));
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    });
    let told = told.expect("the file stays below its limit");
    assert!(told.contains("storage is full"), "{told}");
    until("it says that it is not ready", || {
        let (code, body) = get(&standalone, "/readyz");
        code == "503" && body.contains("storage is full, make room for it")
    });
    assert_eq!(standalone.running("first", 1), tasks, "reads are answered");

    limit(&standalone, "unlimited");
    until("it takes changes again", || {
        let file = job(folder.path(), "later", "");
        standalone.echelon(&["job", "run", &file]).status.success()
    });
    acknowledged.push("later".to_owned());
    until("it says that it is ready", || {
        get(&standalone, "/readyz").0 == "200"
    });
    assert_eq!(standalone.running("first", 1), tasks);
    standalone.running("later", 1);

    standalone.child.kill().unwrap();
    standalone.child.wait().unwrap();
    let again = Standalone::start_with(&data, &["--virtual"]);
    let listed = again.printed(&["job", "list", "-o", "name", "--limit", "1000"]);
    let names: Vec<&str> = listed.lines().collect();
    for name in &acknowledged {
        assert!(
            names.contains(&name.as_str()),
            "{name} was acknowledged: {names:?}"
        );
    }
}

#[test]
fn a_simulated_master_without_room_says_so_and_is_started_again() {
    let folder = super::work();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let standalone = Standalone::start(&data);
    standalone.printed(&["job", "run", &job(folder.path(), "web", "")]);
    let tasks = standalone.running("web", 1);
    let short = folder.path().join("short.yaml");
    let text = "name: short\npool: /default\nkind: batch\ninstances: 1\ncommand: sleep 5\n\
                resources: {cpus: 0.01, memory: 1MiB}\n";
    fs::write(&short, text).unwrap();
    standalone.printed(&["job", "run", &short.display().to_string()]);
    standalone.running("short", 1);

    // Its end cannot be noted by the master that runs it: neither the journal nor the storage takes a byte.
    limit(&standalone, "1");
    until("it says that a simulated master has ended", || {
        let (code, body) = get(&standalone, "/readyz");
        code == "503" && body.contains("the simulated master")
    });
    limit(&standalone, "unlimited");
    until("it says that it is ready", || {
        get(&standalone, "/readyz").0 == "200"
    });
    until("what ended meanwhile is known", || {
        let output = standalone.echelon(&["job", "get", "short"]);
        String::from_utf8_lossy(&output.stdout).contains("succeeded")
    });
    assert_eq!(standalone.running("web", 1), tasks, "it runs on");
    standalone.printed(&["job", "stop", "web", "--wait"]);
}
