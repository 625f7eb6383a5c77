//! `docs/states.md` is the tables of states in `core/model`, to the letter.

use crate::tree;
use echelon_core_model::{job, rollout, run};
use std::fmt::Display;

const PAGE: &str = "docs/states.md";

const HEAD: &str = "\
# States

Made from the tables in `core/model` (`run.rs`, `job.rs`, `rollout.rs`), by which the program goes; a test holds both equal
(`INSTA_UPDATE=always cargo test -p echelon-tests --test architecture` writes this page anew), and tests visit each row: of runs in
`core/jobs/tests/jobs/states.rs`, of jobs and rollouts in `core/resource-manager/src/tests/states.rs`.

";

fn table<S: Display>(title: &str, what: &str, rows: &[(S, S, &str)]) -> String {
    let mut out = format!("## {title}\n\n{what}\n\n| from | to | when |\n| --- | --- | --- |\n");
    let rows = rows.iter();
    out.extend(rows.map(|(from, to, when)| format!("| {from} | {to} | {when} |\n")));
    out.push('\n');
    out
}

fn page() -> String {
    let runs = "An instance is shown in the state of its latest run; as pending before the first one and between two of them. Every change \
                has a time, a reason, and the host.";
    let jobs = "A job is looked at when something of it changes, and at most once a second for its row: what lies between two looks is \
                not seen.";
    let rollouts = "A rollout begins as running, or as rolling-back. What is over stays so: the next wish is another rollout.";
    let tables = [
        table("Runs and instances", runs, run::TRANSITIONS),
        table("Jobs", jobs, job::TRANSITIONS),
        table("Rollouts", rollouts, rollout::TRANSITIONS),
    ];
    let text = HEAD.to_owned() + &tables.concat();
    text.trim_end().to_owned() + "\n"
}

#[test]
fn the_page_of_states_is_their_tables() {
    let (tree, page) = (tree(), page());
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        std::fs::write(tree.root.join(PAGE), &page).unwrap();
    }
    assert!(
        tree.text(PAGE).is_ok_and(|there| there == page),
        "{PAGE} should be:\n{page}"
    );
}
