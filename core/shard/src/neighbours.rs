//! What placement is told of other jobs' runs, and where a group's own are: only where somebody minds.

use crate::Shard;
use crate::group::Group;
use echelon_core_model::cluster::HostView;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::{Generation, HostId, InstanceNumber, JobId, Resources, RunNumber};
use echelon_core_placement::{Hosts, Neighbour, Wanted, rules_let};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Jobs that keep others away from hosts: one of them may be running, and nobody who is hungry says so.
#[derive(Debug, Default)]
pub(crate) struct Loners(BTreeSet<JobId>);

impl Loners {
    /// A spec was read.
    pub(crate) fn note(&mut self, job: JobId, spec: &JobSpec) {
        if spec.groups.iter().any(|g| g.siting.keeps_others_away()) {
            self.0.insert(job);
        }
    }
}

impl Shard {
    /// Takes in how hosts are now that have changed since this was last done.
    pub(crate) fn renew_snapshot(&mut self) {
        let changes = self.hosts.take_view_changes(self.now);
        let renewed = changes.views.len() + changes.gone.len();
        self.views_renewed += u64::try_from(renewed).unwrap_or(u64::MAX);
        Arc::make_mut(&mut self.snapshot).renew(changes.views, &changes.gone);
    }

    /// The question's hosts: as they are kept, but for what is set aside for others.
    pub(crate) fn hosts_of_question(&mut self, groups: &[Wanted]) -> (Arc<Hosts>, Vec<HostView>) {
        self.renew_snapshot();
        let mut aside: BTreeMap<HostId, Resources> = BTreeMap::new();
        self.set_aside(&mut aside, groups);
        self.set_claims_aside(&mut aside, groups);
        self.set_daemons_aside(&mut aside, groups);
        self.set_former_aside(&mut aside, groups);
        let otherwise = aside.into_iter().filter(|(_, room)| !room.is_zero());
        let otherwise = otherwise.filter_map(|(id, room)| {
            let mut view = self.snapshot.views().get(self.snapshot.find(&id)?)?.clone();
            view.free = view.free.minus(room);
            Some(view)
        });
        let otherwise = otherwise.collect();
        (Arc::clone(&self.snapshot), otherwise)
    }

    /// How many of a group hosts have, those counted that are about to be launched.
    pub(crate) fn present(&self, group: &Group) -> BTreeMap<HostId, u32> {
        let mut out = self.hosts.tasks_of(group.job(), group.name());
        let Some(number) = self.picture.number_of(group.job(), group.name()) else {
            return out;
        };
        let first = ((number, InstanceNumber(0)), Generation(0), RunNumber(0));
        let unsent = self
            .credit
            .unsent_from(first..)
            .take_while(|(at, ..)| at.0 == number);
        for run in unsent.filter_map(|run| self.picture.run(*run)) {
            *out.entry(run.host.clone()).or_default() += 1;
        }
        out
    }

    /// Jobs with live runs whose spec is not read yet. They count as exclusive, since they may be. `O(records of these jobs)`.
    pub(crate) fn unread_neighbours(&self) -> Vec<Neighbour> {
        let numbers: Vec<u32> = if self.is_recovering() {
            self.picture.groups.keys().copied().collect()
        } else {
            let jobs = self.unread_specs.keys().map(|(job, _)| *job);
            jobs.flat_map(|job| self.picture.groups_of(job)).collect()
        };
        let mut of_jobs: BTreeMap<JobId, BTreeSet<HostId>> = BTreeMap::new();
        let groups = numbers.iter().filter_map(|n| self.picture.groups.get(n));
        for group in groups.filter(|g| g.spec.is_none()) {
            let live = group.records().flat_map(|(_, r)| r.live_runs());
            let hosts: BTreeSet<HostId> = live.map(|run| run.host.clone()).collect();
            if !hosts.is_empty() {
                of_jobs.entry(group.job()).or_default().extend(hosts);
            }
        }
        let unread = of_jobs.into_iter().map(|(job, hosts)| Neighbour {
            job,
            labels: Arc::default(),
            exclusive: true,
            away_from: Vec::new(),
            hosts: hosts.into_iter().collect(),
        });
        unread.collect()
    }

    /// Whether a group minds what is on hosts, and not all of that is read yet.
    pub(crate) fn awaits_neighbours(&self, group: &Group) -> bool {
        let minds = group
            .spec
            .as_ref()
            .is_some_and(|s| s.groups.iter().any(|g| g.siting.minds_others()));
        minds && self.is_recovering()
    }

    /// What is on hosts of groups that these mind, or that mind others, as far as their specs are read.
    pub(crate) fn neighbours<'a>(&self, groups: impl Iterator<Item = &'a Wanted> + Clone) -> Vec<Neighbour> {
        let minding = || groups.clone().filter(|w| w.siting.minds_others());
        let mut out: Vec<Neighbour> = Vec::new();
        if minding().next().is_none() && self.loners.0.is_empty() {
            return out;
        }
        let minded = |group: &Group, labels: &BTreeMap<String, String>| {
            minding().filter(|w| w.job != group.job()).any(|w| {
                let mut rules = w.siting.affinity.iter().chain(&w.siting.anti_affinity);
                w.siting.exclusive || rules.any(|rule| rule.means(labels))
            })
        };
        let mut labels: BTreeMap<JobId, Arc<BTreeMap<String, String>>> = BTreeMap::new();
        for group in self.picture.groups.values() {
            let (Some(job), Some(spec)) = (group.spec.as_ref(), group.group_spec()) else {
                continue;
            };
            if !spec.siting.keeps_others_away() && !minded(group, &job.labels) {
                continue;
            }
            let hosts: Vec<HostId> = self.present(group).into_keys().collect();
            if hosts.is_empty() {
                continue;
            }
            let own = labels.entry(group.job());
            let hard = spec.siting.anti_affinity.iter().filter(|a| a.is_hard());
            out.push(Neighbour {
                job: group.job(),
                labels: Arc::clone(own.or_insert_with(|| Arc::new(job.labels.clone()))),
                exclusive: spec.siting.exclusive,
                away_from: hard.cloned().collect(),
                hosts,
            });
        }
        out
    }

    /// The hosts of the snapshot on which rules about runs let one more of a group be; `None`: it has no such
    /// rules.
    pub(crate) fn let_by_runs(&self, wanted: &Wanted) -> Option<BTreeSet<HostId>> {
        let mut others = self.unread_neighbours();
        others.extend(self.neighbours(std::iter::once(wanted)));
        if !wanted.siting.depends_on_runs() && self.loners.0.is_empty() && others.is_empty() {
            return None;
        }
        Some(rules_let(wanted, &others, &self.snapshot))
    }
}
