//! Every command that a page, a help text or a message names exists, with the flags that are named with it.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders whose files are read.
const FOLDERS: [&str; 12] = [
    "docs",
    "deploy",
    "examples",
    "cli",
    "core",
    "gateway",
    "shard",
    "resource-manager",
    "io",
    "echelon/src",
    "clients",
    "proto",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_text = |e: &std::ffi::OsStr| {
            ["md", "rs", "proto", "toml", "yaml", "yml", "json"]
                .iter()
                .any(|t| e == *t)
        };
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(is_text) {
            found.push(path);
        }
    }
}

/// What follows `echelon ` where that begins a span of code or a line of a shell.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let starts = line.match_indices("echelon ").filter(|(at, _)| {
            let before = line.get(..*at).unwrap_or_default().trim_end_matches("$ ");
            let trimmed = before.trim_end();
            before.ends_with('`') || trimmed.is_empty() || trimmed.ends_with("&&") || trimmed.ends_with(';')
        });
        for (at, word) in starts {
            let rest = line.get(at + word.len()..).unwrap_or_default();
            let end = rest.find(['`', '#', ';', '|', '&', '\\']).unwrap_or(rest.len());
            found.push(rest.get(..end).unwrap_or_default().trim().to_owned());
        }
    }
    found
}

/// Commands of spans such as `job get|list`.
fn alternatives(text: &str) -> Vec<(String, String)> {
    let spans = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let mut found = Vec::new();
    for span in spans {
        let Some((noun, verbs)) = span.split_once(' ') else {
            continue;
        };
        let is_list = verbs.contains('|')
            && verbs
                .chars()
                .all(|c| c.is_ascii_lowercase() || c == '|' || c == '-');
        if is_list && noun.chars().all(|c| c.is_ascii_lowercase() || c == '-') {
            found.extend(verbs.split('|').map(|verb| (noun.to_owned(), verb.to_owned())));
        }
    }
    found
}

/// A command's help, or nothing where there is no such command.
struct Helps(BTreeMap<String, Option<String>>);

impl Helps {
    fn of(&mut self, path: &str) -> Option<String> {
        let known = self.0.entry(path.to_owned()).or_insert_with(|| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_echelon"));
            command.args(path.split_whitespace());
            if path == "help" {
                // It is help itself.
                let done = command.output().unwrap();
                return done
                    .status
                    .success()
                    .then(|| String::from_utf8(done.stdout).unwrap());
            }
            let done = command.arg("--help").output().unwrap();
            let text = String::from_utf8(done.stdout).unwrap();
            // A word too many is an argument, and clap shows the help of what comes before it.
            let named = path.split_whitespace().last().unwrap_or_default();
            let usage = text
                .lines()
                .find(|line| line.starts_with("Usage:"))
                .unwrap_or_default();
            let is_its_own = usage.split_whitespace().any(|word| word == named);
            (done.status.success() && is_its_own).then_some(text)
        });
        known.clone()
    }
}

/// What is wrong with a command as it is written.
fn wrong(helps: &mut Helps, written: &str) -> Option<String> {
    let mut words = written.split_whitespace();
    let is_word = |w: &&str| {
        w.chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let first = words.clone().next().filter(is_word)?;
    if first.starts_with('-') {
        return None;
    }
    let Some(mut help) = helps.of(first) else {
        return Some(format!("`echelon {first}` does not exist"));
    };
    if first == "help" {
        return None;
    }
    words.next();
    if let Some(second) = words.clone().next().filter(|w| is_word(w) && !w.starts_with('-'))
        && help.contains("\nCommands:\n")
    {
        let path = format!("{first} {second}");
        // `echelon control kills on|off` and the like: the first of the words.
        match helps.of(&path) {
            Some(found) => help = found,
            None => return Some(format!("`echelon {path}` does not exist")),
        }
    }
    let flags = words.filter(|w| w.starts_with("--") && w.len() > 2);
    let flag = |w: &str| {
        let end = w
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .unwrap_or(w.len());
        w.get(..end).unwrap_or_default().to_owned()
    };
    let missing = flags.map(flag).find(|f| !help.contains(f.as_str()));
    missing.map(|f| format!("`echelon {written}`: there is no {f}"))
}

#[test]
fn every_command_that_is_named_exists() {
    let root = root();
    let mut all = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    FOLDERS.iter().for_each(|f| files(&root.join(f), &mut all));
    let mut helps = Helps(BTreeMap::new());
    let mut seen = BTreeSet::new();
    let mut bad = Vec::new();
    for file in all {
        let text = std::fs::read_to_string(&file).unwrap();
        for written in commands(&text) {
            bad.extend(wrong(&mut helps, &written).map(|why| format!("{}: {why}", file.display())));
            seen.insert(written);
        }
        for (noun, verb) in alternatives(&text) {
            let path = format!("{noun} {verb}");
            if helps.of(&noun).is_some() && helps.of(&path).is_none() {
                bad.push(format!("{}: `{path}` does not exist", file.display()));
            }
        }
    }
    assert!(seen.len() > 80, "few commands are found: {seen:?}");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_found() {
    let mut helps = Helps(BTreeMap::new());
    assert_eq!(
        commands("say `echelon job fly --wait` now, echelon is a word"),
        ["job fly --wait"]
    );
    for (written, is_wrong) in [
        ("job fly", true),
        ("fly", true),
        ("job get --fly", true),
        ("job get hello", false),
        ("help", false),
        ("job run FILE --wait", false),
        ("cluster leave", true),
        ("NOUN VERB --help", false),
    ] {
        assert_eq!(wrong(&mut helps, written).is_some(), is_wrong, "{written}");
    }
}

/// The reader goes after nothing: the program ends quietly, with the status of SIGPIPE.
#[test]
fn output_without_a_reader_ends_the_program_quietly() {
    for args in [&["job", "schema"][..], &["completion", "bash"], &["version"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = Command::new(env!("CARGO_BIN_EXE_echelon"))
            .args(args)
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stderr), "", "{args:?}");
        assert_eq!(done.status.code(), Some(141), "{args:?}");
    }
}

#[test]
fn addresses_of_other_protocols_are_refused_before_anything_is_sent() {
    for address in [
        "https://127.0.0.1:1",
        "ftp://127.0.0.1:1",
        "http://127.0.0.1:1,https://127.0.0.1:1",
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_echelon"))
            .args(["--address", address, "job", "list"])
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(told.contains("only http:// is supported"), "{told}");
        assert_eq!(done.status.code(), Some(2));
    }
}

/// A gateway that is killed when a request has arrived, as often as one comes. Gives its address.
fn killed_with_each_request() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The client may go first.
            let _ = until_a_request(&mut stream.unwrap());
        }
    });
    format!("http://{address}")
}

/// Reads HTTP/2 until the headers of a request.
fn until_a_request(stream: &mut TcpStream) -> std::io::Result<()> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const HEADERS: u8 = 1;
    stream.write_all(&SETTINGS)?;
    stream.read_exact(&mut [0; 24])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, ..] = head;
        if kind == HEADERS {
            return Ok(());
        }
        let length = u32::from_be_bytes([0, a, b, c]);
        std::io::copy(&mut stream.take(length.into()), &mut std::io::sink())?;
    }
}

#[test]
fn a_change_without_an_answer_ends_as_unknown_and_is_not_repeated() {
    let address = killed_with_each_request();
    let told = |args: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_echelon"))
            .args(["--timeout", "2s", "--address", &address])
            .args(args)
            .output()
            .unwrap();
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    let (code, text) = told(&["job", "restart", "web"]);
    assert!(
        text.contains("whether it did what was asked is unknown"),
        "{text}"
    );
    assert_eq!(code, Some(5));
    let (code, text) = told(&["job", "get", "web"]);
    assert_eq!(code, Some(5), "{text}");
}
