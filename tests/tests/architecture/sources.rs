//! Rules about manifests and source files.

use crate::{none, tree};

/// First attribute of every root file in core/ and sim/; `forbid` so that no file below can allow it again.
const PURITY: &str = "#![forbid(unsafe_code, clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]";

#[test]
fn every_package_inherits_the_lints() {
    let tree = tree();
    let inherits = |manifest: &toml::Table| {
        let lints = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        lints.and_then(toml::Value::as_bool) == Some(true)
    };
    let faults = tree
        .packages
        .iter()
        .filter(|package| !inherits(&package.manifest));
    none(
        "packages without `[lints] workspace = true`",
        faults.map(|package| package.folder.clone()).collect(),
    );
}

#[test]
fn every_pure_package_forbids_what_is_impure() {
    let tree = tree();
    let pure = tree
        .packages
        .iter()
        .filter(|package| package.folder.starts_with("core/") || package.folder.starts_with("sim/"));
    let roots = pure.flat_map(|package| &package.roots);
    // rustfmt may have broken the line
    let packed = |text: &str| text.split_whitespace().collect::<String>().replace(",)", ")");
    let faults = roots.filter(|root| !packed(&tree.text(root).unwrap()).contains(&packed(PURITY)));
    none(
        &format!("root files without\n  {PURITY}"),
        faults.cloned().collect(),
    );
}

#[test]
fn the_simulation_has_the_laws_of_the_cores() {
    let tree = tree();
    let link = std::fs::read_link(tree.root.join("sim/clippy.toml")).unwrap();
    assert_eq!(link.to_str(), Some("../core/clippy.toml"));
    let (root, core) = (
        tree.text("clippy.toml").unwrap(),
        tree.text("core/clippy.toml").unwrap(),
    );
    let core: toml::Table = core.parse().unwrap();
    let missing = root
        .parse::<toml::Table>()
        .unwrap()
        .into_iter()
        .filter(|(key, value)| core.get(key) != Some(value));
    none(
        "rules of clippy.toml that core/clippy.toml does not repeat",
        missing.map(|(key, _)| key).collect(),
    );
}

#[test]
fn a_lint_is_switched_off_with_a_reason() {
    let files = tree().rust_files().unwrap();
    let faults = files.iter().flat_map(|file| {
        file.unreasoned
            .iter()
            .map(|found| format!("{}:{}", file.path, found.line))
    });
    none("lints switched off without `reason = \"..\"`", faults.collect());
}

#[test]
fn no_test_is_ignored_and_no_end_is_open() {
    let files = tree().rust_files().unwrap();
    // split, so that this file does not find itself
    let words = [
        concat!("#[ign", "ore"),
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("TO", "DO:"),
    ];
    let faults = files.iter().flat_map(|file| {
        let found = words.iter().filter(|word| file.text.contains(*word));
        found.map(|word| format!("{word} in {}", file.path))
    });
    none("ignored tests and open ends", faults.collect());
}

/// What is in git stays there for ever: text that people read, and of a size that they can.
#[test]
fn git_holds_text_of_moderate_size() {
    const MOST_BYTES: usize = 256 << 10;
    let tree = tree();
    let listed = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached"])
        .current_dir(&tree.root)
        .output()
        .unwrap();
    assert!(
        listed.status.success(),
        "{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<&str> = listed.split_terminator('\0').collect();
    assert!(names.contains(&"README.md"), "{} files", names.len());
    let faults = names
        .iter()
        .filter_map(|name| match std::fs::read(tree.root.join(name)) {
            Ok(bytes) if bytes.len() > MOST_BYTES => Some(format!("{name}: {} bytes", bytes.len())),
            Ok(bytes) if std::str::from_utf8(&bytes).is_err() => Some(format!("{name}: no text")),
            Ok(_) => None,
            // It was deleted, and that is not committed yet.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(format!("{name}: {error}")),
        });
    none("files in git that are no text, or too large", faults.collect());
}
