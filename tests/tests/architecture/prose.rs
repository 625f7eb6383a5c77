//! What is written beside the code is true of it: the map in ARCHITECTURE.md, the metrics in dashboards/.

use crate::{none, tree};

/// Suffixes that a histogram's or counter's series have beside the name in the code.
const SERIES: &[&str] = &["_bucket", "_sum", "_count"];

#[test]
fn architecture_md_names_every_folder() {
    let tree = tree();
    let text = tree.text("ARCHITECTURE.md").unwrap();
    let faults = tree
        .packages
        .iter()
        .filter(|package| !text.contains(&format!("`{}`", package.folder)));
    none(
        "folders that ARCHITECTURE.md does not explain",
        faults.map(|package| package.folder.clone()).collect(),
    );
    assert!(
        text.lines().count() <= 400,
        "ARCHITECTURE.md has {} lines, 400 are allowed",
        text.lines().count()
    );
}

#[test]
fn every_metric_of_a_dashboard_exists() {
    let tree = tree();
    let sources = tree.rust_files().unwrap();
    let is_there = |metric: &str| {
        let short = metric.trim_start_matches("echelon_");
        let quoted = [format!("\"{metric}\""), format!("\"{short}\"")];
        sources
            .iter()
            .any(|file| file.is_production() && quoted.iter().any(|name| file.text.contains(name)))
    };
    let mut faults = Vec::new();
    for extension in ["json", "yml", "yaml"] {
        for path in tree.files("dashboards", extension).unwrap() {
            let text = std::fs::read_to_string(&path).unwrap();
            let gone = metrics(&text).into_iter().filter(|metric| {
                let base = SERIES.iter().find_map(|suffix| metric.strip_suffix(suffix));
                !is_there(metric) && !base.is_some_and(is_there)
            });
            faults.extend(gone.map(|metric| format!("{metric} in {}", path.display())));
        }
    }
    none("metrics that no code has", faults);
}

/// All words of `text` that begin with `echelon_`.
fn metrics(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
    let mut found: Vec<String> = words
        .filter(|word| word.starts_with("echelon_"))
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn metrics_are_found_in_expressions() {
    let text =
        "sum by (cluster) (rate(echelon_placed_total{job=\"a\"}[1m])) + echelon:placed:rate1m / echelon_up";
    assert_eq!(metrics(text), ["echelon_placed_total", "echelon_up"]);
}
