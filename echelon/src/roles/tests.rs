//! Every file of `deploy/` is understood by the program that it is for.

use super::*;
use crate::storage::Storage;
use clap::{Parser, Subcommand};
use echelon_io_process::config;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

pub(super) fn deploy(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(folder)
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(deploy(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: Understood,
}

#[derive(Subcommand)]
enum Understood {
    #[command(flatten)]
    Role(Box<Role>),
    #[command(flatten)]
    Client(Box<echelon_cli::Command>),
    #[command(subcommand)]
    Storage(Storage),
}

pub(super) fn understood(command: &str) {
    let words = std::iter::once("echelon").chain(command.split_whitespace());
    if let Err(error) = Program::try_parse_from(words) {
        panic!("{command}: {error}");
    }
}

#[test]
fn every_sample_configuration_is_that_of_its_role() {
    fn check<O: DeserializeOwned>(path: &Path) {
        if let Err(error) = config::load::<O>(path) {
            panic!("{error}");
        }
    }
    for path in files("config") {
        match path.file_stem().unwrap().to_str().unwrap() {
            "gateway" => check::<GatewayOptions>(&path),
            "resource-manager" => check::<ResourceManagerOptions>(&path),
            "shard" => check::<ShardOptions>(&path),
            "mesos-sim" => check::<MesosSimOptions>(&path),
            "standalone" => check::<StandaloneOptions>(&path),
            other => panic!("no role is called {other}"),
        }
    }
    assert_eq!(files("config").len(), 5);
}

#[test]
fn every_unit_starts_what_there_is() {
    let units = files("systemd");
    assert_eq!(units.len(), 4);
    for unit in units {
        let text = std::fs::read_to_string(&unit).unwrap();
        let start = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/echelon "));
        understood(start.unwrap_or_else(|| panic!("{} starts something else", unit.display())));
        let known = Path::new(
            text.split_once("--config /etc/echelon/")
                .unwrap()
                .1
                .split('\n')
                .next()
                .unwrap(),
        )
        .file_stem()
        .unwrap()
        .to_string_lossy()
        .replace("-%i", "");
        assert!(deploy("config").join(format!("{known}.toml")).exists(), "{known}");
    }
}

#[test]
fn flags_win_over_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shard.toml");
    std::fs::write(
        &file,
        "cluster = \"a\"\nmesos = \"m:1\"\n[process]\nlisten = \"127.0.0.1:9\"\n",
    )
    .unwrap();
    let command = format!("shard --config {} --cluster b", file.display());
    let words = std::iter::once("echelon").chain(command.split_whitespace());
    let Understood::Role(role) = Program::try_parse_from(words).unwrap().command else {
        panic!("no role");
    };
    let Role::Shard(flags) = *role else {
        panic!("another role");
    };
    let mut options = flags.resolve().unwrap();
    assert_eq!(options.process().listen.port(), 9);
    let told = format!("{options:?}");
    assert!(
        told.contains("cluster: Some(\"b\")") && told.contains("mesos: Some(\"m:1\")"),
        "{told}"
    );
}

#[test]
fn a_wrong_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shard.toml");
    std::fs::write(&file, "cluster = \"a\"\nmesoss = \"m:1\"\n").unwrap();
    let error = config::load::<ShardOptions>(&file).unwrap_err().to_string();
    assert!(
        error.contains("shard.toml:2") && error.contains("did you mean `mesos`"),
        "{error}"
    );
}
