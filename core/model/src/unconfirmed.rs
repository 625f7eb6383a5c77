//! The words for what is shown of a cluster that does not confirm it at the moment. They are the same on
//! every page, in every list and beside every count.

use crate::time::Span;

/// Clusters that are named beside a count; the others are counted.
const NAMED: usize = 3;

/// A part of what is counted, at a cluster that does not confirm it at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnconfirmedPart<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// How much of what is counted is there; none: that is not known.
    pub count: Option<u64>,
    /// How long ago it was last confirmed; none: never to the cluster's present shard.
    pub age: Option<Span>,
}

/// `unconfirmed for 1m`.
#[must_use]
pub fn unconfirmed_for(age: Option<Span>) -> String {
    match age {
        Some(age) => format!("unconfirmed for {}", age.rounded()),
        None => "never confirmed by its present shard".to_owned(),
    }
}

impl UnconfirmedPart<'_> {
    fn is_all_of(&self, total: u64) -> bool {
        self.count.is_some_and(|count| count >= total)
    }

    fn words(&self) -> String {
        let count = self
            .count
            .map_or_else(|| "an unknown number".to_owned(), |n| n.to_string());
        format!("{count} at {} {}", self.cluster, unconfirmed_for(self.age))
    }
}

/// Which of `total` are unconfirmed: `unconfirmed for 1m` if all of them are at one such cluster, and
/// `50204 at west unconfirmed for 1m` otherwise. Nothing where there is no such part.
#[must_use]
pub fn unconfirmed_of(total: u64, parts: &[UnconfirmedPart<'_>]) -> Option<String> {
    match parts {
        [] => None,
        [all] if all.is_all_of(total) => Some(unconfirmed_for(all.age)),
        _ => {
            let mut said: Vec<String> = parts.iter().take(NAMED).map(UnconfirmedPart::words).collect();
            let others = parts.get(NAMED..).unwrap_or_default();
            if !others.is_empty() {
                said.push(format!("and more at {} other clusters", others.len()));
            }
            Some(said.join(", "))
        }
    }
}

/// Counts with what of their sum is unconfirmed: `50204 running, unconfirmed for 1m`.
#[must_use]
pub fn with_unconfirmed(counts: &str, total: u64, parts: &[UnconfirmedPart<'_>]) -> String {
    let is_all = matches!(parts, [all] if all.is_all_of(total));
    let joint = if is_all { ", " } else { "; " };
    match unconfirmed_of(total, parts) {
        None => counts.to_owned(),
        Some(words) if counts.is_empty() => words,
        Some(words) => format!("{counts}{joint}{words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn part(cluster: &str, count: u64, seconds: u64) -> UnconfirmedPart<'_> {
        UnconfirmedPart {
            cluster,
            count: Some(count),
            age: Some(Span::seconds(seconds)),
        }
    }

    #[test]
    fn a_count_names_what_of_it_is_unconfirmed() {
        let said = |total, parts: &[UnconfirmedPart<'_>]| with_unconfirmed("50204 running", total, parts);
        assert_eq!(said(50_204, &[]), "50204 running");
        assert_eq!(
            said(50_204, &[part("west", 50_204, 61)]),
            "50204 running, unconfirmed for 1m"
        );
        assert_eq!(
            said(50_204, &[part("west", 7, 61)]),
            "50204 running; 7 at west unconfirmed for 1m"
        );
        assert_eq!(
            said(9, &[part("east", 2, 5), part("west", 7, 61)]),
            "50204 running; 2 at east unconfirmed for 5s, 7 at west unconfirmed for 1m",
            "two clusters are told apart although all of it is unconfirmed"
        );
    }

    #[test]
    fn what_was_never_confirmed_has_no_age() {
        let never = UnconfirmedPart {
            cluster: "west",
            count: Some(1),
            age: None,
        };
        assert_eq!(
            unconfirmed_of(1, &[never]).unwrap(),
            "never confirmed by its present shard"
        );
        assert_eq!(
            with_unconfirmed("", 1, &[part("west", 1, 7)]),
            "unconfirmed for 7s"
        );
    }

    #[test]
    fn many_clusters_are_counted() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| part(name, 2, 9)).to_vec();
        let words = unconfirmed_of(100, &all).unwrap();
        assert!(words.ends_with(", and more at 2 other clusters"), "{words}");
        let unknown = UnconfirmedPart {
            count: None,
            ..part("west", 0, 61)
        };
        assert_eq!(
            with_unconfirmed("3 running", 3, &[unknown]),
            "3 running; an unknown number at west unconfirmed for 1m"
        );
    }
}
