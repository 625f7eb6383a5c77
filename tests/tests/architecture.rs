//! The rules of the source tree that no compiler knows: which room may depend on which, what core/ may use, what documents
//! say of the sources. Each rule is data here, so ARCHITECTURE.md and this file are changed together.
#![cfg(test)]

mod architecture {
    mod arrows;
    mod meanings;
    mod outside;
    mod prose;
    mod sources;
    mod stages;
    mod states;
}

use echelon_tests::tree::Tree;

fn tree() -> Tree {
    Tree::read().unwrap()
}

/// Fails with all of `faults`, one a line, under the rule that they break.
#[track_caller]
fn none(rule: &str, faults: Vec<String>) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
