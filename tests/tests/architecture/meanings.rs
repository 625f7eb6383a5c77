//! `docs/mesos-reasons.md` is the table of `core/hosts/src/meaning.rs`, to the letter.

use crate::tree;
use echelon_core_hosts::meaning::{Meaning, REASONS, STATES};
use echelon_core_model::platform::{EndSource, platform_cause};

const PAGE: &str = "docs/mesos-reasons.md";

const HEAD: &str = "\
# What Mesos says, in our words

Made from `core/hosts/src/meaning.rs`; a test holds both equal (`INSTA_UPDATE=always cargo test -p echelon-tests --test architecture`
writes this page anew). Where a state and a reason come together, the reason's code stands if it has one. What Mesos says in words
of its own is shown behind it, or the sentence of the last column where Mesos says nothing.

";

const PLATFORM: &str = "\
## What counts as a fault of the platform

A run that ends like this counts against `platform_retry` of its group, and not against `retry`. A dropped task (`TASK_DROPPED`) counts
against it with any reason, but for `INVALID_OFFERS`, `MASTER_DISCONNECTED`, and reasons that say that the job, a kill or an operator
was the cause. What an operator or we ended never counts.

| Mesos' reason, after `REASON_` | reported by | what is at fault |
| --- | --- | --- |
";

/// The row of a reason by which the platform ends runs; `None`: it does not.
fn platform_row(m: &Meaning) -> Option<String> {
    let cause = |source| platform_cause(source, m.word, "");
    let sources = [
        (EndSource::Executor, "executor"),
        (EndSource::Agent, "agent"),
        (EndSource::Master, "master"),
    ];
    let found = sources.into_iter().find_map(|(source, _)| cause(source))?;
    let words = sources.into_iter().filter(|(source, _)| cause(*source).is_some());
    let words: Vec<&str> = words.map(|(_, word)| word).collect();
    Some(format!("| `{}` | {} | {found} |\n", m.word, words.join(", ")))
}

fn row(m: &Meaning) -> String {
    let code = m
        .code
        .map_or("(the state's)".to_owned(), |c| format!("`{}`", c.word()));
    let shown = m.code.map_or("", |c| c.sentence());
    format!("| `{}` | {code} | {shown} | {} |\n", m.word, m.sentence)
}

fn page() -> String {
    let mut out = HEAD.to_owned();
    for (title, word, all) in [
        (
            "States",
            "state",
            STATES.iter().map(|(_, m)| m).collect::<Vec<_>>(),
        ),
        ("Reasons", "reason, after `REASON_`", REASONS.iter().collect()),
    ] {
        out.push_str(&format!(
            "## {title}\n\n| Mesos' {word} | our code | as shown | what it means and what to do |\n| --- | --- | --- | --- |\n"
        ));
        out.extend(all.into_iter().map(row));
        out.push('\n');
    }
    out.push_str(PLATFORM);
    out.extend(REASONS.iter().filter_map(platform_row));
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[test]
fn the_page_of_mesos_words_is_their_table() {
    let (tree, page) = (tree(), page());
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        std::fs::write(tree.root.join(PAGE), &page).unwrap();
    }
    assert!(
        tree.text(PAGE).is_ok_and(|there| there == page),
        "{PAGE} should be:\n{page}"
    );
}
