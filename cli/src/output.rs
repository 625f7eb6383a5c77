//! Printing: tables for people, JSON and YAML for programs, names for pipes. Text that came from elsewhere is escaped, so
//! that no job name or log line can move the cursor of whoever looks.

mod json;
mod terminal;

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::sync::OnceLock;

pub use json::{Json, json};
pub use terminal::{bytes, line, print, remark};

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns that fit a terminal
    Table,
    /// More columns
    Wide,
    /// JSON, one value
    Json,
    /// YAML
    Yaml,
    /// Names alone, one a line
    Name,
}

impl Format {
    /// Whether people read it, and not programs.
    #[must_use]
    pub const fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

/// A list to print: its columns, which of them only `wide` shows, its rows and their names.
#[derive(Debug, Default)]
pub struct Listing {
    /// Heads of the columns.
    pub columns: &'static [&'static str],
    /// How many columns from the left a plain table shows.
    pub narrow: usize,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Name of each row.
    pub names: Vec<String>,
    /// Each row for programs.
    pub values: Vec<Json>,
}

/// Prints a list.
#[must_use]
pub fn list(listing: &Listing, format: Format) -> String {
    match format {
        Format::Json => pretty(&Json::Array(listing.values.clone())),
        Format::Yaml => yaml(&Json::Array(listing.values.clone())),
        Format::Name => listing.names.iter().map(|n| format!("{}\n", escape(n))).collect(),
        Format::Table => table(listing, listing.narrow),
        Format::Wide => table(listing, listing.columns.len()),
    }
}

/// Prints one thing: `people` is what a table would say.
#[must_use]
pub fn one(value: &Json, name: &str, people: &str, format: Format) -> String {
    match format {
        Format::Json => pretty(value),
        Format::Yaml => yaml(value),
        Format::Name => format!("{}\n", escape(name)),
        Format::Table | Format::Wide => people.to_owned(),
    }
}

/// What is not shown of a list, and how to see it, in one line; nothing where all is shown.
#[must_use]
pub fn left_out(what: &str, shown: usize, more: bool, total: Option<u64>) -> Option<String> {
    if !more {
        return None;
    }
    let count = u64::try_from(shown).unwrap_or(u64::MAX);
    Some(match total.filter(|total| *total > count) {
        Some(total) => format!(
            "{} of {total} {what} are not shown; `--limit {total}` shows all",
            total - count
        ),
        None => format!("only {count} {what} are shown, and there are more; `--limit` shows more"),
    })
}

fn table(listing: &Listing, columns: usize) -> String {
    let heads = listing
        .columns
        .iter()
        .take(columns)
        .map(|head| (*head).to_owned());
    let rows = listing.rows.iter();
    lines(heads, rows.map(|row| row.iter().take(columns)))
}

/// Rows under their heads, each cell in its column.
pub fn lines<'a>(
    heads: impl Iterator<Item = String>,
    rows: impl Iterator<Item = impl Iterator<Item = &'a String>>,
) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads);
    for row in rows {
        table.add_row(row.map(|cell| escape(cell)));
    }
    let text = table.to_string();
    let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

fn pretty(value: &Json) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

fn yaml(value: &Json) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}

/// A message as a value for programs: field names as in the API, states as lower-case words, times as text.
#[must_use]
pub fn message<M: prost::Message>(name: &str, message: &M) -> Json {
    let Some(descriptor) = descriptors().get_message_by_name(&format!("echelon.v1.{name}")) else {
        return Json::Null;
    };
    match DynamicMessage::decode(descriptor, message.encode_to_vec().as_slice()) {
        Ok(dynamic) => json(&dynamic),
        Err(_) => Json::Null,
    }
}

/// The descriptors of all messages of the API.
pub(crate) fn descriptors() -> &'static DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    POOL.get_or_init(|| DescriptorPool::decode(echelon_proto::FILE_DESCRIPTOR_SET).unwrap_or_default())
}

/// Control characters shown, not obeyed.
#[must_use]
pub fn escape(text: &str) -> String {
    let plain = |c: char| {
        !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c) && !('\u{2066}'..='\u{2069}').contains(&c)
    };
    if text.chars().all(plain) {
        return text.to_owned();
    }
    text.chars()
        .map(|c| {
            if plain(c) {
                c.to_string()
            } else {
                c.escape_default().to_string()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(escape("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(escape("größe"), "größe");
    }

    #[test]
    fn what_is_left_out_is_counted_where_that_is_known() {
        let said = |more, total| left_out("jobs", 1000, more, total).unwrap_or_default();
        assert_eq!(said(false, Some(1000)), "");
        assert_eq!(
            said(true, Some(1021)),
            "21 of 1021 jobs are not shown; `--limit 1021` shows all"
        );
        assert!(said(true, None).starts_with("only 1000 jobs are shown, and there are more"));
        // Counts may lag behind what is listed.
        assert!(said(true, Some(7)).starts_with("only 1000"));
    }

    #[test]
    fn a_listing_prints_in_every_form() {
        let listing = Listing {
            columns: &["NAME", "STATE", "HOST"],
            narrow: 2,
            rows: vec![vec!["a".to_owned(), "running".to_owned(), "h1".to_owned()]],
            names: vec!["a".to_owned()],
            values: vec![serde_json::json!({"name": "a", "state": "running"})],
        };
        assert_eq!(list(&listing, Format::Name), "a\n");
        assert!(!list(&listing, Format::Table).contains("h1"));
        assert!(list(&listing, Format::Wide).contains("h1"));
        let back: Json = serde_json::from_str(&list(&listing, Format::Json)).unwrap();
        assert_eq!(back[0]["state"], "running");
        assert!(list(&listing, Format::Yaml).contains("state: running"));
    }
}
