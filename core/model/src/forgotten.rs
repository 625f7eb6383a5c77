//! Hosts of which an operator has said that they never return: a word that is kept with the cluster, so
//! that no leader misses it.

use crate::time::Span;
use std::collections::BTreeMap;

/// Hosts of a cluster that never return.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ForgottenHosts {
    /// Counts the changes, from 1; 0: there never was one.
    pub version: u64,
    /// For how long the cluster had been observed in sum when each was named, by agent id or hostname. What
    /// fell silent later is not meant: the host was back in between.
    pub hosts: BTreeMap<String, Span>,
}

impl ForgottenHosts {
    /// Most that are kept: what was named long ago has had its effect, and goes first.
    pub const MOST: usize = 256;
    /// A shard stores now and then what it has observed, so what is read of it may be a little old.
    const BEHIND: Span = Span::seconds(30);

    /// Takes a host in.
    pub fn name(&mut self, host: &str, observed: Span) {
        self.hosts.insert(host.to_owned(), observed);
        while self.hosts.len() > Self::MOST {
            let oldest = self.hosts.iter().min_by_key(|(_, at)| **at);
            let Some(oldest) = oldest.map(|(host, _)| host.clone()) else {
                break;
            };
            self.hosts.remove(&oldest);
        }
        self.version = self.version.saturating_add(1);
    }

    /// Whether a run that has been silent since so much was observed is on one of these hosts.
    #[must_use]
    pub fn means(&self, host: &str, hostname: &str, silent_at: Span) -> bool {
        let said = self.hosts.get(host).into_iter().chain(self.hosts.get(hostname));
        said.max()
            .is_some_and(|said| silent_at.0 <= said.0.saturating_add(Self::BEHIND.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_long_ago_goes_first_and_what_fell_silent_later_is_not_meant() {
        let mut all = ForgottenHosts::default();
        for n in 0..300 {
            all.name(&format!("h{n}"), Span::seconds(n));
        }
        assert_eq!((all.hosts.len(), all.version), (ForgottenHosts::MOST, 300));
        assert!(!all.means("h0", "x", Span::ZERO), "it went");
        assert!(all.means("h299", "x", Span::seconds(299)));
        assert!(all.means("x", "h299", Span::seconds(1)), "by its name, too");
        assert!(
            !all.means("h299", "x", Span::seconds(400)),
            "it was back, and fell silent again"
        );
    }
}
