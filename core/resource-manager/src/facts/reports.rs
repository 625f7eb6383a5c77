//! Reports of shards: streams that open and close, full reports in parts, deltas. Only the largest shard
//! epoch is believed, and within it nothing older than the last report.
//! What a report leaves out it does not deny (law 1).

use crate::event::LinkId;
use crate::facts::FederationFacts;
use crate::facts::cluster::{ClusterView, GroupWord, ReportKey};
use crate::facts::starts::KnownStarts;
use echelon_core_model::claim::ClaimReport;
use echelon_core_model::directive::{Report, ReportPart, SliceReport};
use echelon_core_model::{ClusterId, Epoch, Generation, JobId, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a report asks of the manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// Jobs that the report names.
    pub named: BTreeSet<JobId>,
    /// Jobs of which it reports something else than before. Full reports mostly repeat what is known.
    pub jobs: BTreeSet<JobId>,
    /// Jobs to look at again, since a full report is complete. Nothing else is reported of them.
    pub complete: BTreeSet<JobId>,
    /// Its shard is known to obey this leader from now on.
    pub settles: bool,
    /// The shard is to be asked for a full report.
    pub ask: bool,
    /// The shard obeys a newer resource manager.
    pub superseded: Option<Epoch>,
    /// Capacity may have changed.
    pub capacity: bool,
    /// What the shard reports of all requests for capacity.
    pub claims: Option<HeardClaims>,
    /// Jobs of which the shard has archived its part.
    pub archived: Vec<JobId>,
    /// The report of what it found since storage was resumed is complete.
    pub found: bool,
}

/// What a shard reports of all requests for capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeardClaims {
    /// Each of them.
    pub told: Vec<ClaimReport>,
    /// It is part of a full report.
    pub full: bool,
}

/// A stream has opened: reports begin again.
pub fn opened(facts: &mut FederationFacts, cluster: &ClusterId, link: LinkId, now: Timestamp) {
    let view = facts.clusters.entry(cluster.clone()).or_default();
    view.link = Some(link);
    view.incoming = None;
    view.signs = None;
    view.starts = KnownStarts::default();
    view.found.interrupt();
    view.fulls = 0;
    view.missed = false;
    view.asked_at = Some(now);
}

/// A stream has closed. Returns its cluster.
pub fn closed(facts: &mut FederationFacts, link: LinkId) -> Option<ClusterId> {
    let (id, view) = facts.clusters.iter_mut().find(|(_, c)| c.link == Some(link))?;
    view.link = None;
    view.incoming = None;
    Some(id.clone())
}

/// The cluster of a stream.
#[must_use]
pub fn cluster_of(facts: &FederationFacts, link: LinkId) -> Option<ClusterId> {
    let mut clusters = facts.clusters.iter();
    clusters
        .find(|(_, view)| view.link == Some(link))
        .map(|(id, _)| id.clone())
}

/// The cluster of a stream over which a report came that names another one.
#[must_use]
pub fn false_name(facts: &FederationFacts, link: LinkId, report: &Report) -> Option<ClusterId> {
    let named = facts.clusters.get(&report.cluster);
    if named.is_some_and(|view| view.link == Some(link)) {
        return None;
    }
    cluster_of(facts, link)
}

/// Takes a report in; `None` when it is not to be believed.
pub fn heard(facts: &mut FederationFacts, link: LinkId, report: Report, now: Timestamp) -> Option<Heard> {
    let view = facts.clusters.get_mut(&report.cluster)?;
    if view.link != Some(link) || (report.epoch, report.sequence) <= view.last_report {
        return None;
    }
    let (epoch, sequence) = view.last_report;
    // A gap in the sequence: a report was lost, or went to another leader. A full report brings it back.
    // It is requested with the next tick, so that a stream with many gaps does not request one for each.
    let gap = report.epoch == epoch && report.sequence > sequence + 1;
    if report.epoch > epoch {
        view.incoming = None;
    }
    view.last_report = (report.epoch, report.sequence);
    view.heard_at = Some(now);
    let mut out = Heard::default();
    if gap {
        view.missed = true;
        view.incoming = None;
    }
    match report.part {
        ReportPart::Claims(told) => {
            let full = view.incoming.is_some();
            out.claims = Some(HeardClaims { told, full });
        }
        part => take_part(view, part, &mut out),
    }
    Some(out)
}

/// Notes which grants and allotments a shard has obeyed: older ones are used no more.
pub fn note_obeyed(facts: &mut FederationFacts, cluster: &ClusterId, jobs: &BTreeSet<JobId>) {
    let Some(view) = facts.clusters.get(cluster) else {
        return;
    };
    for id in jobs {
        let Some(job) = facts.jobs.get_mut(id) else {
            continue;
        };
        for (key, line) in job.grants.iter_mut().filter(|(k, _)| k.cluster == *cluster) {
            if let Some(report) = view.reports.get(&(*id, key.group.clone(), key.generation)) {
                line.obeyed(report.grant_number);
                line.note(report.own);
            }
        }
        for ((group, _), line) in job.bound.parts.iter_mut().filter(|((_, c), _)| c == cluster) {
            if let Some(word) = view.words.get(&(*id, group.clone())) {
                line.obeyed(word.part_number);
            }
        }
    }
}

fn take_part(view: &mut ClusterView, part: ReportPart, out: &mut Heard) {
    match part {
        ReportPart::FullStart => view.incoming = Some(Default::default()),
        ReportPart::Slices(slices) => {
            for slice in slices {
                let job = slice.job;
                out.named.insert(job);
                if take_slice(view, slice) {
                    out.jobs.insert(job);
                }
            }
        }
        ReportPart::FullEnd => {
            if let Some(full) = view.incoming.take() {
                if !view.is_settled() {
                    out.complete.extend(full.iter().map(|(job, ..)| *job));
                }
                keep_named(view, &full, &mut out.jobs);
                view.fulls += 1;
                view.missed = false;
                // Every request is answered in order. The second full report of a stream was taken after this
                // leader's first order. So the shard has obeyed its epoch and takes no more grants of an
                // older one.
                // What an older one has granted goes on.
                if view.fulls == 1 {
                    out.ask = !view.is_settled();
                } else {
                    out.settles = view.begin_to_settle();
                }
            }
        }
        ReportPart::Capacity(capacity) => {
            out.capacity = true;
            view.capacity = Some(*capacity);
        }
        ReportPart::Signs(signs) => view.signs = view.heard_at.map(|at| (signs, at)),
        ReportPart::Starts(starts) => {
            if let Some(at) = view.heard_at {
                view.starts.take(starts, at);
            }
        }
        ReportPart::Archived(jobs) => out.archived = jobs,
        ReportPart::Found(part) => {
            out.found |= part.ends;
            out.jobs.extend(view.found.hear(part, view.last_report.0));
        }
        ReportPart::Fits(fits) => {
            out.capacity = true;
            view.fits.take(fits);
        }
        // Taken in before.
        ReportPart::Claims(_) => {}
        ReportPart::Superseded(epoch) => out.superseded = Some(epoch),
    }
}

/// Keeps the reports that a full report has named. The cluster has nothing of the others.
fn keep_named(view: &mut ClusterView, full: &BTreeSet<ReportKey>, jobs: &mut BTreeSet<JobId>) {
    // Each part was taken in as it came, so mostly nothing is left to do.
    if view.reports.keys().eq(full) {
        return;
    }
    view.reports.retain(|key, _| {
        let is_named = full.contains(key);
        if !is_named {
            jobs.insert(key.0);
            view.unsent.note(key.0);
        }
        is_named
    });
    view.words.retain(|(job, group), _| {
        let first = (*job, group.clone(), Generation(0));
        let last = (*job, group.clone(), Generation(u32::MAX));
        full.range(first..=last).next().is_some()
    });
}

/// Takes the report of a slice in. Returns whether something may follow from it. Nothing does if a full
/// report of a shard that obeys this leader repeats it.
fn take_slice(view: &mut ClusterView, slice: SliceReport) -> bool {
    let key = (slice.job, slice.group.clone(), slice.generation);
    let word = view.words.entry((slice.job, slice.group.clone())).or_default();
    let next = GroupWord {
        outdated: slice.outdated,
        restarting: slice.restarting,
        crash_looping: slice.crash_looping,
        unavailable: slice.unavailable,
        revision: slice.revision,
        first_behind: slice.first_behind,
        part: u64::from(slice.max_unavailable),
        part_number: slice.part_number,
        // Not known at the moment is no other number.
        hosts: slice.hosts.or(word.hosts),
    };
    let before = std::mem::replace(word, next);
    let is_full = view.incoming.is_some();
    if let Some(incoming) = &mut view.incoming {
        incoming.insert(key.clone());
    }
    let same = before == next && view.reports.get(&key).is_some_and(|known| **known == slice);
    if is_full && same {
        return !view.is_settled();
    }
    view.unsent.note(slice.job);
    view.reports.insert(key, Arc::new(slice));
    true
}
