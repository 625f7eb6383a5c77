//! Names the commit that the program is built from, so that builds can be told apart: the variable `ECHELON_COMMIT` where it
//! is given (an archive without git), else what git says of this folder, else `unknown`.

use std::path::Path;
use std::process::Command;

/// Digits of a commit: twelve tell all commits of a large project apart.
const DIGITS: &str = "--short=12";

fn main() {
    println!("cargo:rerun-if-env-changed=ECHELON_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var("ECHELON_COMMIT").ok().filter(|c| is_commit(c));
    let commit = given
        .or_else(commit_of_git)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=ECHELON_COMMIT={commit}");
}

fn commit_of_git() -> Option<String> {
    // An archive unpacked below a foreign repository is not of that repository's commit.
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()?
        .canonicalize()
        .ok()?;
    if Path::new(&root).canonicalize().ok()? != ours {
        return None;
    }
    // Every commit and checkout adds a line to the log of HEAD.
    for name in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&file).exists() {
            println!("cargo:rerun-if-changed={file}");
        }
    }
    git(&["rev-parse", DIGITS, "HEAD"]).filter(|c| is_commit(c))
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}
