//! What instances of a group want of a host: which of them, in which version, with which resources and rules.

use crate::Shard;
use crate::group::Group;
use echelon_core_model::InstanceNumber;
use echelon_core_model::siting::{HOSTNAME, Siting};
use echelon_core_model::spec::{GroupSpec, JobKind};
use echelon_core_placement as placement;
use std::collections::BTreeMap;

impl Shard {
    /// The instances of a group that want a host, at most `most`: those that follow an ended run first, then the lowest that
    /// the grant lets begin.
    pub(crate) fn wanting(&self, group: &Group, most: usize) -> Vec<InstanceNumber> {
        let number = self.picture.number_of(group.job(), group.name());
        let starts = |n: &InstanceNumber| {
            let range = group.range_of(*n);
            let at = number.map(|number| (number, *n));
            at.zip(range)
                .is_some_and(|(at, r)| self.may_start(at, r.generation))
        };
        let all_start = self.may_start_new();
        let free =
            |n: &InstanceNumber| !self.strangers.block(&group.instance(*n)) && (all_start || starts(n));
        let mut out: Vec<InstanceNumber> = group.ready.iter().copied().filter(free).take(most).collect();
        for (generation, set) in &group.startable {
            let openings = group.openings(*generation, self.now);
            let room = openings.min(u64::try_from(most - out.len()).unwrap_or(u64::MAX));
            out.extend(set.lowest(room).numbers().filter(free));
        }
        out
    }

    /// What instances of a group want of hosts: one question for each version that they begin with.
    pub(crate) fn wanted(&self, group: &Group, numbers: Vec<InstanceNumber>) -> Vec<placement::Wanted> {
        let mut by_version: BTreeMap<u32, Vec<InstanceNumber>> = BTreeMap::new();
        for (n, next) in self.picture.versions(group, numbers) {
            by_version.entry(next.version).or_default().push(n);
        }
        let wanted = by_version
            .into_iter()
            .filter_map(|(version, numbers)| self.wanted_of(group, version, numbers));
        wanted.filter(placement::Wanted::wants_any).collect()
    }

    /// What an instance of a group will want once it is of the version in force; nobody in particular asks.
    pub(crate) fn shape_of(&self, group: &Group) -> Option<placement::Wanted> {
        let version = group.group_spec()?.runs_of(group.wish.as_ref()?.spec_version);
        self.wanted_of(group, version, Vec::new())
    }

    fn wanted_of(
        &self,
        group: &Group,
        version: u32,
        numbers: Vec<InstanceNumber>,
    ) -> Option<placement::Wanted> {
        let job = group.spec.as_ref()?;
        let spec = self.picture.group_spec_of(group, version)?;
        let (bound, free): (Vec<_>, Vec<_>) = numbers
            .into_iter()
            .map(|n| (n, self.bound(group, n)))
            .partition(|(_, b)| b.is_some());
        let item = |n: InstanceNumber| placement::Item {
            number: n,
            avoid: group.record(n).map(|r| r.avoid.to_vec()).unwrap_or_default(),
            former: self.former(group, n).map(|r| r.host.clone()),
        };
        let served = self.config.reserves || spec.volume.is_none();
        served.then(|| placement::Wanted {
            job: group.job(),
            group: group.name().clone(),
            version,
            kind: job.kind,
            gang: job.gang.is_some(),
            together: placement::Together::default(),
            priority: job.precedence(),
            resources: spec.room(),
            revocable: job.revocable,
            ports: spec.runtime.ports.iter().map(|p| p.fixed).collect(),
            labels: std::sync::Arc::new(job.labels.clone()),
            constraints: spec.constraints.clone(),
            siting: siting(job.kind, spec),
            items: free.into_iter().map(|(n, _)| item(n)).collect(),
            bound: bound.into_iter().filter_map(|(_, b)| b).collect(),
            held: spec.volume_room(),
            present: self.present(group),
        })
    }
}

/// Rules about runs: of a daemon there is one on a host.
fn siting(kind: JobKind, spec: &GroupSpec) -> Siting {
    let mut siting = spec.siting.clone();
    if kind == JobKind::Daemon {
        siting.max_per.insert(HOSTNAME.to_owned(), 1);
    }
    siting
}
