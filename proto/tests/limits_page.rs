//! The tables of requests in `docs/limits.md` are the limits of the code, to the letter.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use echelon_core_model::limits as l;
use echelon_core_model::spec::MAX_SPEC_BYTES;
use echelon_proto::convert::bounds::MOST_ENTRIES;
use std::fmt::Write;

fn kib(bytes: usize) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

fn table(head: &str, rows: &[(String, String)]) -> String {
    let mut out = format!("| {head} | limit |\n| --- | --- |\n");
    for (what, limit) in rows {
        writeln!(out, "| {what} | {limit} |").unwrap();
    }
    out
}

fn sizes() -> String {
    let row = |what: &str, limit: String| (what.to_owned(), limit);
    table(
        "of a request",
        &[
            row("bytes", kib(l::REQUEST_BYTES)),
            row("bytes of `ApplyPools`", kib(l::TREE_REQUEST_BYTES)),
            row("bytes of a job's spec as it is stored", kib(MAX_SPEC_BYTES)),
            row(
                "a variable, with its name and what its references stand for",
                kib(l::VARIABLE_BYTES),
            ),
            row(
                "its parts in memory, without their text",
                format!(
                    "{} and {} times its size",
                    kib(l::PARTS_BYTES),
                    l::PARTS_BYTES_PER_BYTE
                ),
            ),
            row("wrong fields that an error names", l::VIOLATIONS.to_string()),
        ],
    )
}

fn entries() -> String {
    let users = |name: &str| {
        let echoed = [
            "Job.",
            "GroupStatus.",
            "JobOrigin.",
            "JobRestart.",
            "ScheduleStatus.",
            "Withdrawn.",
            "JobSpec.withdrawn",
            "Cluster.health",
            "Cluster.other_roles",
            "Cluster.quota_limits",
        ];
        !echoed.iter().any(|e| name.starts_with(e))
    };
    let rows: Vec<(String, String)> = MOST_ENTRIES
        .iter()
        .filter(|(name, most)| users(name) && *most < 1 << 20)
        .map(|(name, most)| (format!("`{name}`"), most.to_string()))
        .collect();
    table("list or map", &rows)
}

#[test]
fn the_page_of_limits_has_the_requests_of_the_code() {
    let page = include_str!("../../docs/limits.md");
    for table in [sizes(), entries()] {
        assert!(
            page.contains(&format!("-->\n{table}<!-- end")),
            "docs/limits.md lacks:\n{table}"
        );
    }
}
