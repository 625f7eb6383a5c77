//! The level of a storage and the build of a program, as commands and roles show them.
#![cfg(test)]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const META: redb::TableDefinition<'static, &'static str, u32> = redb::TableDefinition::new("meta");

fn echelon(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_echelon"));
    for name in ["ECHELON_CONFIG", "ECHELON_STORAGE", "ECHELON_MEMBERSHIP"] {
        command.env_remove(name);
    }
    command.args(args).output().unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn set_level(file: &Path, level: u32) {
    let raw = redb::Database::open(file).unwrap();
    let transaction = raw.begin_write().unwrap();
    transaction
        .open_table(META)
        .unwrap()
        .insert("schema", level)
        .unwrap();
    transaction.commit().unwrap();
}

#[test]
fn a_storage_of_another_level_is_refused_by_every_role() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("storage");
    let url = format!("file:{}", file.display());

    let missing = echelon(&["storage", "status", "--storage", &url, "-o", "json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(json(&missing)["level"], 0);
    assert!(!file.exists(), "a question makes no storage");

    let made = echelon(&["storage", "migrate", "--storage", &url]);
    assert_eq!(made.status.code(), Some(0));
    let current = echelon(&["storage", "status", "--storage", &url, "-o", "json"]);
    assert_eq!(current.status.code(), Some(0));
    assert_eq!(json(&current)["usable"], true);
    let known = json(&current)["known_level"].as_u64().unwrap();

    for (level, said) in [(99, "a newer build made it"), (2, "an older build made it")] {
        set_level(&file, level);
        let status = echelon(&["storage", "status", "--storage", &url, "-o", "json"]);
        assert_eq!(status.status.code(), Some(1));
        assert_eq!(json(&status)["level"], level);
        assert_eq!(json(&status)["usable"], false);
        let doctor = echelon(&["doctor", "--storage", &url, "-o", "json"]);
        assert_eq!(doctor.status.code(), Some(1));
        assert_eq!(json(&doctor)[1]["check"], "storage-level");
        assert_eq!(json(&doctor)[1]["verdict"], "failed");

        let admin = [
            "--listen",
            "127.0.0.1:0",
            "--membership",
            "zookeeper://127.0.0.1:1/x",
        ];
        let shard = ["--cluster", "c", "--mesos", "127.0.0.1:1"];
        let roles: [(&str, &[&str]); 3] = [("gateway", &[]), ("resource-manager", &[]), ("shard", &shard)];
        for (role, more) in roles {
            let args = [&[role, "--storage", &url], &admin[..], more].concat();
            refused(&echelon(&args), (u64::from(level), known), said);
        }
        let data = folder.path().display().to_string();
        let standalone = ["standalone", "--listen", "127.0.0.1:0", "--data-dir", &data];
        refused(&echelon(&standalone), (u64::from(level), known), said);
    }
}

#[track_caller]
fn refused(output: &Output, levels: (u64, u64), said: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let (found, known) = levels;
    let sentence = format!("is of level {found}, this build works on level {known}: ");
    assert!(stderr.contains(&sentence) && stderr.contains(said), "{stderr}");
}

#[test]
fn doctor_warns_with_exit_code_0() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}/storage", folder.path().display());
    assert_eq!(echelon(&["doctor", "--storage", &url]).status.code(), Some(1));
    assert_eq!(
        echelon(&["storage", "migrate", "--storage", &url]).status.code(),
        Some(0)
    );
    let output = echelon(&["doctor", "--storage", &url]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let warning = text
        .lines()
        .find(|line| line.trim_start().starts_with("storage-copies"));
    assert!(warning.is_some_and(|line| line.contains("warning")), "{text}");
}

/// What an acknowledged change may be lost by is told at the start of a role, not only by `doctor`.
#[test]
fn a_role_tells_at_its_start_what_of_its_storage_is_not_durable() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}/storage", folder.path().display());
    let made = echelon(&["storage", "migrate", "--storage", &url]);
    assert_eq!(made.status.code(), Some(0));
    let log = folder.path().join("log");
    let out = std::fs::File::create(&log).unwrap();
    let mut role = Command::new(env!("CARGO_BIN_EXE_echelon"))
        .args(["gateway", "--listen", "127.0.0.1:0", "--storage", &url])
        .args(["--membership", "zookeeper://127.0.0.1:1/x"])
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let told = loop {
        let text = std::fs::read_to_string(&log).unwrap();
        if text.contains("an acknowledged change may be lost") || Instant::now() > deadline {
            break text;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    role.kill().unwrap();
    role.wait().unwrap();
    assert!(
        told.contains("an acknowledged change may be lost") && told.contains("echelon doctor"),
        "{told}"
    );
}

/// The build is named: twelve digits of its commit in a clone, else `unknown`.
#[test]
fn a_build_names_its_commit() {
    for args in [["version"], ["--version"]] {
        let output = echelon(&args);
        let text = String::from_utf8(output.stdout).unwrap();
        let commit = text
            .trim()
            .strip_prefix(concat!("echelon ", env!("CARGO_PKG_VERSION"), " (commit "))
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap_or_else(|| panic!("{text}"));
        let digits = commit.len() >= 12 && commit.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(commit == "unknown" || digits, "{text}");
    }
}
