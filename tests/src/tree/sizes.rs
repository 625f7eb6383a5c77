//! How long files, functions and crates are: figures for a reader.
//!
//! No test and no lint has limits for them. A limit is met most easily by cutting one object into many files and by packing
//! arguments into tuples, which reads worse than what it replaces.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use super::{RustFile, Tree};

/// Past this a crate may answer more than one question. Whether it does is for a reader to judge: the table marks it, and
/// nothing fails.
const CRATE_LINES: usize = 5_000;

/// How many of the longest are shown.
const SHOWN: usize = 5;

/// What was measured.
#[derive(Default)]
pub struct Sizes {
    /// Production files with their lines.
    files: Vec<Sized>,
    /// Functions in them with their lines.
    functions: Vec<Sized>,
    /// Lines by crate.
    crates: BTreeMap<String, usize>,
}

struct Sized {
    n_lines: usize,
    name: String,
}

/// Measures the product code of `tree`.
///
/// # Errors
/// A file cannot be read.
pub fn measure(tree: &Tree) -> Result<Sizes> {
    let mut sizes = Sizes::default();
    for file in tree.rust_files()?.iter().filter(|file| file.is_production()) {
        let owner = tree
            .packages
            .iter()
            .filter(|package| file.path.starts_with(&format!("{}/", package.folder)));
        let owner = owner
            .max_by_key(|package| package.folder.len())
            .map_or("?", |package| &package.folder);
        sizes.add(file, owner);
    }
    Ok(sizes)
}

impl Sizes {
    fn add(&mut self, file: &RustFile, owner: &str) {
        let n_lines = file.n_production_lines();
        *self.crates.entry(owner.to_owned()).or_default() += n_lines;
        self.files.push(Sized {
            n_lines,
            name: file.path.clone(),
        });
        self.functions.extend(file.functions.iter().map(|function| Sized {
            n_lines: function.n_lines,
            name: format!("{} at {}:{}", function.name, file.path, function.line),
        }));
    }
}

/// The smallest length that `percent` of the found ones do not exceed; 0 of none.
fn percentile(found: &[Sized], percent: usize) -> usize {
    let mut lengths: Vec<usize> = found.iter().map(|one| one.n_lines).collect();
    lengths.sort_unstable();
    let rank = (lengths.len() * percent).div_ceil(100).saturating_sub(1);
    lengths.get(rank).copied().unwrap_or(0)
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            files,
            functions,
            crates,
        } = self;
        writeln!(
            f,
            "{:<10} {:>6} {:>7} {:>5} {:>7}",
            "lines of", "count", "median", "p95", "longest"
        )?;
        for (name, found) in [("files", files), ("functions", functions)] {
            let (median, p95, longest) = (
                percentile(found, 50),
                percentile(found, 95),
                percentile(found, 100),
            );
            writeln!(
                f,
                "{name:<10} {:>6} {median:>7} {p95:>5} {longest:>7}",
                found.len()
            )?;
        }
        for (name, found) in [("files", files), ("functions", functions)] {
            writeln!(f, "\nlongest {name}")?;
            let mut longest: Vec<&Sized> = found.iter().collect();
            longest.sort_by(|a, b| b.n_lines.cmp(&a.n_lines).then_with(|| a.name.cmp(&b.name)));
            for one in longest.iter().take(SHOWN) {
                writeln!(f, "{:>6} {}", one.n_lines, one.name)?;
            }
        }
        writeln!(f, "\ncrates (* past {CRATE_LINES}: is it one question?)")?;
        for (folder, n_lines) in crates {
            let mark = if *n_lines > CRATE_LINES { " *" } else { "" };
            writeln!(f, "{n_lines:>6} {folder}{mark}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(lengths: impl IntoIterator<Item = usize>) -> Vec<Sized> {
        lengths
            .into_iter()
            .map(|n_lines| Sized {
                n_lines,
                name: format!("f{n_lines}"),
            })
            .collect()
    }

    #[test]
    fn percentiles_are_measured_lengths() {
        for (lengths, percent, expected) in [
            (1..=100, 50, 50),
            (1..=100, 95, 95),
            (1..=100, 100, 100),
            (1..=1, 50, 1),
            (1..=2, 50, 1),
        ] {
            assert_eq!(
                percentile(&sized(lengths.clone()), percent),
                expected,
                "p{percent} of {lengths:?}"
            );
        }
    }
}
