//! How long files, functions and crates are, and whether that is short enough.
//!
//! The limits are those of a large code base that stayed readable. A long function is usually steps: name them.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use super::{RustFile, Tree};

/// Limits of one measure, in lines.
struct Limits {
    median: Option<usize>,
    p95: usize,
    largest: usize,
}

const FILE: Limits = Limits {
    median: Some(150),
    p95: 450,
    largest: 700,
};
const FUNCTION: Limits = Limits {
    median: None,
    p95: 50,
    largest: 80,
};

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

    /// Every limit that is broken, with what breaks it.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        [
            faults("file", &self.files, &FILE),
            faults("function", &self.functions, &FUNCTION),
        ]
        .concat()
    }
}

fn faults(what: &str, found: &[Sized], limits: &Limits) -> Vec<String> {
    let too_long = found
        .iter()
        .filter(|one| one.n_lines > limits.largest)
        .map(|one| {
            format!(
                "{what} {} has {} lines, {} are allowed",
                one.name, one.n_lines, limits.largest
            )
        });
    let rank = |percent: usize, limit: usize| {
        let measured = percentile(found, percent);
        (measured > limit).then(|| format!("p{percent} of {what}s is {measured} lines, {limit} are allowed"))
    };
    let median = limits.median.and_then(|limit| rank(50, limit));
    too_long.chain(median).chain(rank(95, limits.p95)).collect()
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
            "{:<10} {:>6} {:>7} {:>5} {:>7}   limits",
            "lines of", "count", "median", "p95", "longest"
        )?;
        for (name, found, limits) in [("files", files, &FILE), ("functions", functions, &FUNCTION)] {
            let (median, p95, longest) = (
                percentile(found, 50),
                percentile(found, 95),
                percentile(found, 100),
            );
            let most = limits.median.map_or("-".to_owned(), |limit| limit.to_string());
            let allowed = format!("{most} / {} / {}", limits.p95, limits.largest);
            writeln!(
                f,
                "{name:<10} {:>6} {median:>7} {p95:>5} {longest:>7}   {allowed}",
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

    #[test]
    fn each_limit_is_a_fault_of_its_own() {
        assert_eq!(
            faults("file", &sized([150, 150, 700]), &FILE).len(),
            1,
            "the 95th percentile alone"
        );
        assert_eq!(
            faults("file", &sized([151; 3]), &FILE),
            ["p50 of files is 151 lines, 150 are allowed"]
        );
        let one_long = sized(std::iter::repeat_n(10, 99).chain([81]));
        assert_eq!(
            faults("function", &one_long, &FUNCTION),
            ["function f81 has 81 lines, 80 are allowed"]
        );
        assert_eq!(faults("function", &sized([50; 9]), &FUNCTION), [""; 0]);
    }
}
