//! Hosts that the rules of a group cannot tell apart by how good they are: those with the same values of what it is spread over, and
//! the same sum of weights.

use crate::hosts::HostIdx;
use crate::room::Room;
use crate::rules::Rules;
use std::collections::BTreeMap;

/// The class of each host.
#[derive(Debug, Clone)]
pub struct Classes {
    of_host: Vec<u32>,
    /// A host of each class, and its sum of weights.
    heads: Vec<(HostIdx, i64)>,
}

impl Classes {
    /// Sorts all hosts. `O(hosts * rules)`.
    pub fn new(rules: &Rules<'_>, room: &Room<'_>) -> Self {
        let n = room.hosts().len();
        let mut out = Self {
            of_host: vec![0; n],
            heads: Vec::new(),
        };
        for tally in rules.spread() {
            out.part(|host| i64::from(tally.domain().value(host)));
        }
        out.part(|host| rules.score(host, room));
        let mut heads: BTreeMap<u32, HostIdx> = BTreeMap::new();
        for (host, class) in out.of_host.iter().enumerate() {
            heads.entry(*class).or_insert(host);
        }
        let heads = heads.into_values();
        out.heads = heads.map(|host| (host, rules.score(host, room))).collect();
        out
    }

    /// Parts the classes by one more value.
    fn part(&mut self, value: impl Fn(HostIdx) -> i64) {
        let mut numbers: BTreeMap<(u32, i64), u32> = BTreeMap::new();
        let mut last = None;
        for (host, class) in self.of_host.iter_mut().enumerate() {
            let key = (*class, value(host));
            *class = match last {
                Some((same, n)) if same == key => n,
                _ => {
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                    *numbers.entry(key).or_insert(next)
                }
            };
            last = Some((key, *class));
        }
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.heads.len()
    }

    /// The class of a host.
    pub fn of(&self, host: HostIdx) -> usize {
        let class = self.of_host.get(host).copied().unwrap_or_default();
        usize::try_from(class).unwrap_or_default()
    }

    /// How many of the group are where the hosts of a class are, attribute by attribute; then how little its hosts are preferred.
    pub fn standing(&self, class: usize, rules: &Rules<'_>) -> Vec<u64> {
        let Some((host, score)) = self.heads.get(class).copied() else {
            return Vec::new();
        };
        let counts = rules.spread().iter().map(|t| u64::from(t.count(host)));
        // The larger the sum, the smaller the number.
        let score = i64::MAX.wrapping_sub(score);
        counts.chain([score.cast_unsigned()]).collect()
    }
}
