//! How many entries a leader has in memory that grow with jobs, by name. Every field is named, so that a new
//! one is counted, or noted as one that does not grow with jobs.

use crate::facts::FederationFacts;
use crate::facts::cluster::ClusterView;
use crate::manager::ResourceManager;
use crate::picture::Picture;
use std::collections::{BTreeMap, BTreeSet};

/// How many there are of each.
pub type Footprint = BTreeMap<&'static str, usize>;

impl ResourceManager {
    /// How many entries it has. What follows from clusters, pools and the configuration is left out.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        let Self {
            config: _,
            phase: _,
            tenure: _,
            trouble: _,
            // One stamp of each role, and one reason.
            evidence: _,
            resume: _,
            frozen: _,
            came_meanwhile,
            epoch: _,
            published: _,
            ops,
            picture,
            // Of one step.
            last_cycle: _,
            timers: _,
            dirty,
            regrant,
            unwritten,
            renewals,
            turns: _,
            // One of each cluster at most.
            resends: _,
            due: _,
            todo,
            next_bucket: _,
            putting,
            // One of each partition at most.
            written: _,
            writes,
            committing,
            all_read: _,
            tombstones,
            returning,
            filing,
            flows,
            allowed,
            agenda,
            awaited,
            children,
            leaving_pools: _,
            numbers: _,
            aside,
            told_rows,
            sum_faults: _,
            start_banning,
            stored_releases,
            self_observation: _,
        } = self;
        let mut out = of_picture(picture);
        out.extend([
            ("came meanwhile", came_meanwhile.len()),
            ("operations", ops.len()),
            ("dirty", dirty.len()),
            ("regrant", regrant.len()),
            ("unwritten", unwritten.len()),
            ("renewals", renewals.len()),
            ("to do", todo.len()),
            ("putting", putting.len()),
            ("writes", writes.len()),
            ("committing", committing.as_ref().map_or(0, Vec::len)),
            ("tombstones", tombstones.len()),
            ("returning", returning.len()),
            ("filing", filing.len()),
            ("flows", flows.len()),
            ("allowed instances", allowed.len()),
            ("agenda", agenda.len()),
            ("awaited", awaited.len()),
            ("children", children.values().map(|c| c.len() + 1).sum()),
            ("set aside", aside.len()),
            ("told rows", told_rows.len()),
            ("moves of a silence", start_banning.footprint()),
            ("stored releases", stored_releases.footprint()),
        ]);
        out
    }
}

fn of_picture(picture: &Picture) -> Footprint {
    let Picture {
        facts,
        demand,
        // By pools, and bounded lists of what waits.
        division: _,
        admission: _,
        preemption,
        revision: _,
    } = picture;
    let FederationFacts {
        clusters,
        control: _,
        pools: _,
        structure: _,
        hierarchy: _,
        by_shares: _,
        revalued: _,
        jobs,
        ended,
        specs,
        homes: _,
        host_pools: _,
        awaiting: _,
        pause: _,
    } = facts;
    [
        ("reports", clusters.values().map(of_cluster).sum()),
        ("jobs", jobs.footprint()),
        ("ended", ended.len()),
        ("specs", specs.len()),
        ("sums", demand.ledger.footprint()),
        ("claims", preemption.footprint()),
    ]
    .into()
}

fn of_cluster(view: &ClusterView) -> usize {
    let ClusterView {
        row: _,
        state: _,
        link: _,
        heard_at: _,
        asked_at: _,
        fulls: _,
        missed: _,
        settling: _,
        last_report: _,
        incoming,
        reports,
        words,
        capacity: _,
        fits: _,
        signs: _,
        starts: _,
        judged_at: _,
        heartbeat: _,
        quarantine: _,
        found,
        silent_for: _,
        moves_at: _,
        doubt: _,
        counted: _,
        unsent,
        removal: _,
        master: _,
    } = view;
    unsent.len() + incoming.as_ref().map_or(0, BTreeSet::len) + reports.len() + words.len() + found.len()
}
