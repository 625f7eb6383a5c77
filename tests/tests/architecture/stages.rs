//! Which stage of the resource manager's cycle may use which.

use crate::{none, tree};

/// The stages in the order in which they decide. One uses those before it, and none behind it.
const STAGES: &[&str] = &[
    "facts",
    "assignment",
    "demand",
    "division",
    "admission",
    "preemption",
    // What all of them keep. Those that follow read it whole.
    "picture",
    "returns",
    "progress",
    "cycle",
];

const SOURCES: &str = "core/resource-manager/src/";

/// The module below the crate's root in which a file is.
fn module(path: &str) -> Option<&str> {
    let below = path.strip_prefix(SOURCES)?;
    below.split(['/', '.']).next()
}

#[test]
fn a_stage_uses_none_that_decides_after_it() {
    let tree = tree();
    let files = tree.rust_files().unwrap();
    let place = |path: &str| {
        let module = module(path)?;
        STAGES.iter().position(|stage| *stage == module)
    };
    let of_stages: Vec<_> = files
        .iter()
        .filter_map(|file| Some((file, place(&file.path)?)))
        .collect();
    for (i, stage) in STAGES.iter().enumerate() {
        assert!(of_stages.iter().any(|(_, at)| *at == i), "no file of {stage}");
    }
    let faults = of_stages.iter().flat_map(|(file, at)| {
        let later = STAGES.iter().skip(at + 1);
        let used = later.filter(|stage| file.text.contains(&format!("crate::{stage}::")));
        used.map(|stage| format!("{} uses {stage}", file.path))
    });
    none("stages that use one that decides after them", faults.collect());
}
