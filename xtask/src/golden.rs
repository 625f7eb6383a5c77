//! Accepts what the tests print now as their goldens, those written inside source files included.

use std::path::Path;

use anyhow::{Result, bail};
use echelon_tests::cache;

use crate::phases::command;

/// Version of cargo-insta, which alone can rewrite a golden that stands inside a source file.
const CARGO_INSTA: &str = "1.49.0";

/// Runs all tests that need no server and takes over every golden that differs.
///
/// # Errors
/// A test fails for another reason than its golden.
pub fn accept() -> Result<()> {
    let tool = cache::entry(&format!("cargo-insta-{CARGO_INSTA}"), fetch)?.join("bin/cargo-insta");
    let status = command(&tool.to_string_lossy())
        .args(["insta", "test", "--accept", "--workspace"])
        .status()?;
    if !status.success() {
        bail!("tests fail for other reasons than their goldens: see above");
    }
    println!("now read `git diff`: a golden is reviewed as code");
    Ok(())
}

fn fetch(folder: &Path) -> Result<()> {
    println!("building cargo-insta {CARGO_INSTA}, once");
    let root = folder.to_string_lossy();
    let arguments = [
        "install",
        "--quiet",
        "--locked",
        "--root",
        &*root,
        "--version",
        CARGO_INSTA,
        "cargo-insta",
    ];
    cache::fetch_with("cargo", arguments)
}
