//! The classes of all groups: what demand is bounded by, and what shards are asked about.

use crate::demand::entry::sums::GroupSums;
use crate::demand::ledger::Ledger;
use echelon_core_model::class::{ClassDigest, InstanceClass};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Occupied;
use std::sync::Arc;

/// A class with the groups that are of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownClass {
    class: Arc<InstanceClass>,
    groups: u64,
    /// Of these, groups that have more demand than they have, or that find no host, by the clusters that they
    /// may use. An empty key means all clusters.
    waiting: BTreeMap<Vec<String>, u64>,
}

impl Ledger {
    /// A class that some group is of.
    pub(crate) fn class(&self, digest: ClassDigest) -> Option<&InstanceClass> {
        self.classes.get(&digest).map(|known| &*known.class)
    }

    /// All classes that some group is of.
    pub(crate) fn all_classes(&self) -> Vec<(ClassDigest, Arc<InstanceClass>)> {
        let all = self.classes.iter();
        all.map(|(digest, known)| (*digest, Arc::clone(&known.class)))
            .collect()
    }

    /// The classes of which groups wait that may use certain clusters.
    pub(crate) fn waiting_classes<'a>(
        &'a self,
        may_use: impl Fn(&[String]) -> bool + 'a,
    ) -> impl Iterator<Item = (ClassDigest, &'a InstanceClass)> {
        let waits = move |known: &KnownClass| known.waiting.keys().any(|only| may_use(only));
        let all = self.classes.iter().filter(move |(_, known)| waits(known));
        all.map(|(digest, known)| (*digest, &*known.class))
    }

    pub(crate) fn enter_class(&mut self, group: &GroupSums) {
        let Some((digest, class)) = group.choice.class.zip(group.class.as_ref()) else {
            return;
        };
        let known = self.classes.entry(digest).or_insert_with(|| KnownClass {
            class: Arc::new(class.clone()),
            groups: 0,
            waiting: BTreeMap::new(),
        });
        known.groups = known.groups.saturating_add(1);
        if group.waits {
            let n = known.waiting.entry(group.choice.only.clone()).or_default();
            *n = n.saturating_add(1);
        }
    }

    pub(crate) fn leave_class(&mut self, group: &GroupSums) {
        let Some(digest) = group.choice.class else {
            return;
        };
        let Occupied(mut known) = self.classes.entry(digest) else {
            return;
        };
        let of = known.get_mut();
        of.groups = of.groups.saturating_sub(1);
        if group.waits
            && let Occupied(mut n) = of.waiting.entry(group.choice.only.clone())
        {
            *n.get_mut() = n.get().saturating_sub(1);
            if *n.get() == 0 {
                n.remove();
            }
        }
        if of.groups == 0 {
            known.remove();
        }
    }
}
