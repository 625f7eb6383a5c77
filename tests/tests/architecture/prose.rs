//! What is written beside the code is true of it: the map in ARCHITECTURE.md, the metrics in dashboards/.

use crate::{none, tree};
use echelon_tests::tree::Tree;

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

/// The workspace has programs for its tests, too: cargo asks which one to run, unless exactly one package says so.
#[test]
fn the_first_command_of_the_readme_runs_echelon() {
    let tree = tree();
    let readme = tree.text("README.md").unwrap();
    assert!(readme.contains("\ncargo run --release -- demo\n"));
    let programs = tree.packages.iter().filter_map(|package| {
        let program = package.manifest.get("package")?.get("default-run")?.as_str()?;
        Some((package.name.as_str(), program))
    });
    assert_eq!(programs.collect::<Vec<_>>(), [("echelon", "echelon")]);
}

#[test]
fn every_law_names_tests_that_exist() {
    let tree = tree();
    let text = tree.text("ARCHITECTURE.md").unwrap();
    let laws = laws(&text);
    assert_eq!(laws.len(), 12, "twelve laws");
    none(
        "tests of ARCHITECTURE.md's laws that are not there",
        without_tests(&tree, &laws),
    );
}

#[test]
fn every_fault_names_tests_that_exist() {
    let tree = tree();
    let text = tree.text("docs/faults.md").unwrap();
    let table = text.split("\n## ").next().unwrap();
    let rows: Vec<(&str, Vec<&str>)> = table
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let (failure, tests) = (cells.next()?, cells.next()?);
            (failure != "failure" && failure != "---").then(|| (failure, quoted(tests)))
        })
        .collect();
    assert!(rows.len() > 20, "{} rows", rows.len());
    none(
        "tests of docs/faults.md that are not there",
        without_tests(&tree, &rows),
    );
}

#[test]
fn every_promise_of_the_trials_names_tests_that_exist() {
    let tree = tree();
    let text = tree.text("docs/trials.md").unwrap();
    let rows: Vec<(&str, Vec<&str>)> = text.lines().filter_map(promise).collect();
    assert!(rows.len() > 80, "{} rows", rows.len());
    none(
        "tests of docs/trials.md that are not there",
        without_tests(&tree, &rows),
    );
}

/// What a row promises, with the names of its tests; none of a row that names commands alone.
fn promise(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let (_, promise, shown) = (cells.next()?, cells.next()?, cells.next()?);
    let is_command = |shown: &&str| shown.starts_with("cargo ") || shown.starts_with("echelon bench");
    let (commands, tests): (Vec<&str>, Vec<&str>) = quoted(shown).into_iter().partition(is_command);
    let names = tests.iter().filter_map(|test| test.rsplit([':', ' ']).next());
    let is_row = !["promise", "---"].contains(&promise) && (commands.is_empty() || !tests.is_empty());
    is_row.then(|| (promise, names.collect()))
}

/// Rows that name no test, and tests that no source has.
fn without_tests(tree: &Tree, rows: &[(&str, Vec<&str>)]) -> Vec<String> {
    let sources = tree.rust_files().unwrap();
    let is_test = |name: &str| {
        let signature = format!("fn {name}(");
        let is_one = |text: &str| text.contains("test]") || text.contains("::test(");
        // the cases of the storage contract are played by the tests of each storage
        let is_case = |path: &str| path.starts_with("io/storage/src/contract/");
        let with_tests = sources
            .iter()
            .filter(|file| is_one(&file.text) || is_case(&file.path));
        with_tests.into_iter().any(|file| file.text.contains(&signature))
    };
    let faults = rows.iter().flat_map(|(row, tests)| {
        let none = tests.is_empty().then(|| format!("`{row}` has no test"));
        let gone = tests.iter().filter(|test| !is_test(test));
        none.into_iter()
            .chain(gone.map(move |test| format!("{test} of `{row}`")))
    });
    faults.collect()
}

/// What stands in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Number of each law, with the tests in its row's last cell.
fn laws(text: &str) -> Vec<(&str, Vec<&str>)> {
    let section = text.split("\n## ").find(|section| section.starts_with("Laws\n"));
    let rows = section.into_iter().flat_map(str::lines).filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number = cells.next().filter(|cell| cell.parse::<u8>().is_ok())?;
        Some((number, quoted(cells.last()?)))
    });
    rows.collect()
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
