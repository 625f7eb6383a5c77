//! The table of connections in `docs/limits.md` is the limits of the code, to the letter.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use echelon_io_process::listener as port;
use std::fmt::Write;
use std::time::Duration;

fn seconds(of: Duration) -> String {
    format!("{} s", of.as_secs())
}

fn table(head: &str, rows: &[(String, String)]) -> String {
    let mut out = format!("| {head} | limit |\n| --- | --- |\n");
    for (what, limit) in rows {
        writeln!(out, "| {what} | {limit} |").unwrap();
    }
    out
}

fn connections() -> String {
    let row = |what: &str, limit: String| (what.to_owned(), limit);
    table(
        "of a connection",
        &[
            row(
                "connections of a port: the smaller of",
                format!(
                    "{}, and descriptors less {}",
                    port::CONNECTIONS,
                    port::KEPT_DESCRIPTORS
                ),
            ),
            row(
                "head of a request, from its first byte to its last",
                seconds(port::HEAD_TIME),
            ),
            row("between two bytes of a body", seconds(port::BODY_TIME)),
            row("a whole body", seconds(port::WHOLE_BODY_TIME)),
            row(
                "without a request, or without a byte of an answer taken",
                seconds(port::IDLE_TIME),
            ),
            row(
                "open requests of one HTTP/2 connection",
                port::STREAMS.to_string(),
            ),
        ],
    )
}

#[test]
fn the_page_of_limits_has_the_connections_of_the_code() {
    let page = include_str!("../../../docs/limits.md");
    let table = connections();
    assert!(
        page.contains(&format!("-->\n{table}<!-- end")),
        "docs/limits.md lacks:\n{table}"
    );
}
