//! Hosts for what is granted: one question to placement about everything of a cluster that waits for a host.

use crate::shard::{Change, Shard, SliceId};
use echelon_core_model::cluster::HostView;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::{JobKind, defaults};
use echelon_core_model::{HostId, InstanceNumber, JobId, Reason, ReasonCode, Resources, Timestamp};
use echelon_core_placement::{Bound, Item, Problem, Together, Wanted, place};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What of a slice is asked for, and what the numbers in the question stand for.
struct Asked {
    id: SliceId,
    wanted: Wanted,
    /// Numbers below this one have a volume on the host to which they are bound.
    fresh_from: u32,
    /// Numbers of the question from here on are those of the next slice.
    end: u32,
}

impl Shard<'_> {
    /// Begins what is granted, as far as hosts hold it: by priority, then the oldest job first.
    pub fn place_pending(&mut self, now: Timestamp, done: &mut Vec<Change>) {
        let pending: Vec<SliceId> = self.pending.iter().cloned().collect();
        let mut numbers = 0;
        let mut asked: Vec<Asked> = Vec::new();
        let mut gangs: BTreeSet<JobId> = BTreeSet::new();
        for id in &pending {
            let startable = self.slice(id).map_or(0, |s| s.startable());
            if startable == 0 {
                self.note_unplaced(id, None, now);
            } else if self.job(id.0).is_some_and(|j| j.gang) {
                gangs.insert(id.0);
            } else if self.may_fit(id) {
                asked.extend(self.ask(id, startable, &mut numbers, true));
            } else {
                self.note_unplaced(id, Some(ReasonCode::HostResources.into()), now);
            }
        }
        for job in gangs {
            self.ask_for_gang(job, &mut numbers, &mut asked);
        }
        if asked.is_empty() {
            return;
        }
        let problem = Problem {
            token: 0,
            hosts: self.hosts.shared(),
            otherwise: self.set_aside(&asked),
            groups: asked.iter().map(|a| a.wanted.clone()).collect(),
            sharing: Sharing::default(),
            others: Vec::new(),
        };
        let (answer, _) = place(&problem);
        drop(problem);
        // By slice and host: how many begin, and how many of these have a volume there.
        let mut begun: BTreeMap<usize, BTreeMap<HostId, (u64, u64)>> = BTreeMap::new();
        for choice in &answer.choices {
            let InstanceNumber(number) = choice.instance.number;
            let at = asked.partition_point(|a| a.end <= number);
            let Some(of) = asked.get(at) else { continue };
            let of_slice = begun.entry(at).or_default();
            let sum = of_slice.entry(choice.host.clone()).or_default();
            sum.0 += 1;
            sum.1 += u64::from(number < of.fresh_from);
        }
        for (at, of) in asked.iter().enumerate() {
            for (host, (n, with_volume)) in begun.remove(&at).unwrap_or_default() {
                self.begin_on(&of.id, &host, n, with_volume, now);
                self.claims.begun(&of.id, &host, n);
                done.push(Change::Begun(of.id.clone(), host, n));
            }
            let left = self.slice(&of.id).map_or(0, |s| s.startable());
            let why = || {
                let mut unplaced = answer.unplaced.iter();
                let of_group = unplaced.find(|u| u.job == of.id.0 && u.group == of.id.1);
                // What was left out of the question lacks a host as what was asked for does.
                of_group.map_or_else(|| Reason::new(ReasonCode::HostResources), |u| u.reason.clone())
            };
            self.note_unplaced(&of.id, (left > 0).then(why), now);
        }
    }

    /// Whether any host may have capacity for an instance of a slice.
    fn may_fit(&self, id: &SliceId) -> bool {
        let Some(group) = self.group(id) else { return false };
        let (shape, held) = (group.shape, group.held());
        let on_lent = self.runs_on_lent(id.0);
        let fits = |view: &HostView| {
            // A volume that is there is no part of what is asked for.
            on_lent || shape.minus(held).fits(view.free)
        };
        self.hosts.views().iter().any(|v| !v.draining && fits(v))
    }

    /// What a slice wants: at most so many. Those with a volume are bound to its host, and those for which
    /// capacity is held to where it is held.
    fn ask(&self, id: &SliceId, most: u64, numbers: &mut u32, bind: bool) -> Option<Asked> {
        let (job, group, slice) = (self.job(id.0)?, self.group(id)?, self.slice(id)?);
        let kind = job.kind();
        let mut left = most;
        let mut bound = Vec::new();
        for (host, idle) in slice.idle_volumes() {
            let n = idle.min(left);
            left -= n;
            bind_to(&mut bound, numbers, host, n);
        }
        let fresh_from = *numbers;
        let on_lent = self.runs_on_lent(id.0);
        // What makes a volume goes where placement finds capacity for it.
        if bind && !on_lent && group.volume.is_none() {
            for (host, open) in self.claims.held_for(id) {
                let fits = self
                    .hosts
                    .view(host)
                    .map_or(0, |view| group.shape.count_in(view.free));
                let n = open.min(fits).min(left);
                left -= n;
                bind_to(&mut bound, numbers, host, n);
            }
        }
        let n = self.most_that_fit(group.shape, on_lent, left);
        let first = *numbers;
        *numbers = numbers.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        let item = |number| Item {
            number: InstanceNumber(number),
            avoid: Vec::new(),
            former: None,
        };
        // Batch work is packed, wherever others of it are.
        let present = match kind {
            JobKind::Batch => BTreeMap::new(),
            _ => slice.present(),
        };
        let wanted = Wanted {
            job: id.0,
            group: id.1.clone(),
            // Slices of one group at two generations are asked for apart.
            version: id.2.0,
            kind,
            gang: job.gang,
            together: Together::default(),
            priority: job.priority,
            resources: group.shape,
            revocable: on_lent,
            ports: Vec::new(),
            labels: Arc::default(),
            constraints: Vec::new(),
            siting: Siting {
                host_pool: group.host_pool.clone(),
                ..defaults::siting(kind)
            },
            items: (first..*numbers).map(item).collect(),
            bound,
            held: group.held(),
            present: present
                .into_iter()
                .map(|(host, n)| (host, u32::try_from(n).unwrap_or(u32::MAX)))
                .collect(),
        };
        wanted.wants_any().then(|| Asked {
            id: id.clone(),
            wanted,
            fresh_from,
            end: *numbers,
        })
    }

    /// How many instances are worth asking for: no more than all hosts may hold.
    fn most_that_fit(&self, shape: Resources, on_lent: bool, most: u64) -> u64 {
        if on_lent {
            return most;
        }
        let mut sum = 0u64;
        for view in self.hosts.views().iter().filter(|v| !v.draining) {
            sum = sum.saturating_add(shape.count_in(view.free));
            if sum >= most {
                return most;
            }
        }
        sum
    }

    /// Asks for all of a gang that is to begin, if all of it is here and granted.
    fn ask_for_gang(&self, job: JobId, numbers: &mut u32, asked: &mut Vec<Asked>) {
        let Some(of) = self.job(job) else { return };
        let mut members: Vec<(SliceId, u64)> = Vec::new();
        for group in &of.groups {
            let slices = self
                .slices_of(job)
                .filter(|((_, name, _), _)| name.as_str() == group.name);
            let mut held = 0u64;
            for (id, slice) in slices {
                held = held.saturating_add(slice.held());
                if slice.startable() < slice.unstarted() {
                    return;
                }
                members.extend((slice.startable() > 0).then(|| (id.clone(), slice.startable())));
            }
            if held < u64::from(group.instances) {
                return;
            }
        }
        let before = *numbers;
        let mut gang = Vec::new();
        // Capacity that is held for it is used as soon as all of it is free; before, it may begin elsewhere.
        for bind in [true, false] {
            *numbers = before;
            gang.clear();
            for (id, n) in &members {
                gang.extend(self.ask(id, *n, numbers, bind));
            }
            let is_all = |of: &Asked| {
                let n = of.wanted.items.len() + of.wanted.bound.len();
                members
                    .iter()
                    .any(|(id, most)| *id == of.id && u64::try_from(n).is_ok_and(|n| n == *most))
            };
            if gang.len() == members.len() && gang.iter().all(is_all) {
                asked.extend(gang);
                return;
            }
        }
        *numbers = before;
    }

    /// Hosts on which capacity is held for others, without it. What is bound in the question has its own.
    fn set_aside(&self, asked: &[Asked]) -> Vec<HostView> {
        let mut aside = self.claims.held();
        if aside.is_empty() {
            return Vec::new();
        }
        for of in asked {
            let open = self.claims.held_for(&of.id);
            for (host, n) in open {
                let bound = of.wanted.bound.iter().filter(|b| {
                    let InstanceNumber(number) = b.number;
                    b.host == *host && number >= of.fresh_from
                });
                let bound = u64::try_from(bound.count()).unwrap_or(u64::MAX);
                let is_of_volume = of.wanted.held != Resources::ZERO;
                let used = if is_of_volume { n } else { bound.min(n) };
                if let Some(sum) = aside.get_mut(host) {
                    *sum = sum.minus(of.wanted.resources.times(used));
                }
            }
        }
        let views = aside.iter().filter_map(|(host, held)| {
            let view = self.hosts.view(host)?;
            Some(HostView {
                free: view.free.minus(*held),
                ..view.clone()
            })
        });
        views.collect()
    }
}

/// Binds so many instances to a host, by the next numbers.
fn bind_to(bound: &mut Vec<Bound>, numbers: &mut u32, host: &HostId, n: u64) {
    for _ in 0..n {
        bound.push(Bound {
            number: InstanceNumber(*numbers),
            host: host.clone(),
            hostname: Arc::from(host.as_str()),
            offered: true,
        });
        *numbers = numbers.saturating_add(1);
    }
}
