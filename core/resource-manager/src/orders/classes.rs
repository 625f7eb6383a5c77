//! The classes of which shards are asked how many fit.

use crate::demand::ledger::Ledger;
use crate::effect::Effect;
use crate::facts::cluster::ClusterView;
use crate::manager::ResourceManager;
use echelon_core_model::class::{ClassDigest, InstanceClass, MAX_CLASSES};
use echelon_core_model::cluster_choice::allows_by_name;
use echelon_core_model::directive::{NamedClasses, Order};

/// The classes that a shard is to be asked about: those that wait and may come to its cluster.
/// One question names at most `MAX_CLASSES`. Beyond that, plain classes are left out first: the largest host
/// shows most of what there is to know of these.
pub(crate) fn named(ledger: &Ledger, view: &ClusterView) -> NamedClasses {
    let row = view.row.as_ref();
    let may_come = |only: &[String]| row.is_some_and(|row| allows_by_name(only, row.identity()));
    let waiting = ledger.waiting_classes(may_come);
    let mut all: Vec<(bool, ClassDigest, &InstanceClass)> = waiting
        .map(|(digest, class)| (class.is_plain(), digest, class))
        .collect();
    // Classes that were asked about stay: others would change the demand of their pools by coming and going.
    let asked = view
        .fits
        .asked
        .as_ref()
        .map_or(&[][..], |(_, asked, _)| asked.as_slice());
    all.sort_by_key(|(plain, digest, _)| (*plain, !asked.contains(digest), *digest));
    let left_out = u32::try_from(all.len().saturating_sub(MAX_CLASSES)).unwrap_or(u32::MAX);
    let classes = all.into_iter().take(MAX_CLASSES);
    NamedClasses {
        classes: classes
            .map(|(_, digest, class)| (digest, class.clone()))
            .collect(),
        left_out,
    }
}

impl ResourceManager {
    /// Asks each shard about the classes that wait, where it was asked about others, or over another stream.
    pub(crate) fn ask_about_classes(&mut self, out: &mut Vec<Effect>) {
        let mut due = Vec::new();
        for (id, view) in &self.picture.facts.clusters {
            let Some(link) = view.link.filter(|_| view.row.is_some()) else {
                continue;
            };
            let named = named(&self.picture.demand.ledger, view);
            let asks = (link, named.classes.keys().copied().collect(), named.left_out);
            let is_new = view.fits.asked.as_ref() != Some(&asks);
            if is_new && !(named.classes.is_empty() && view.fits.asked.is_none()) {
                due.push((id.clone(), asks, named));
            }
        }
        for (id, asks, named) in due {
            if let Some(view) = self.picture.facts.clusters.get_mut(&id) {
                view.fits.asked = Some(asks);
            }
            self.send(&id, Order::Classes(named), out);
        }
    }
}
