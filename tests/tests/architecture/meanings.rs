//! `docs/mesos-reasons.md` is the table of `core/hosts/src/meaning.rs`, to the letter.

use crate::tree;
use echelon_core_hosts::meaning::{Meaning, REASONS, STATES};

const PAGE: &str = "docs/mesos-reasons.md";

const HEAD: &str = "\
# What Mesos says, in our words

Made from `core/hosts/src/meaning.rs`; a test holds both equal (`INSTA_UPDATE=always cargo test -p echelon-tests --test architecture`
writes this page anew). Where a state and a reason come together, the reason's code stands if it has one. What Mesos says in words
of its own is shown behind it, or the sentence of the last column where Mesos says nothing.

";

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
