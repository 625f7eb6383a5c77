//! What would become of a job if it were submitted now: the same functions as the cycle, on the same state,
//! committing nothing.

use crate::admission::capacity::rooms;
use crate::admission::rounds::{AdmissionRounds, admissions};
use crate::admission::router::{GroupOf, Router, demand};
use crate::admission::second_round::EnforcedAmounts;
use crate::answers::{ClusterShare, Dropped, GroupPlan, Plan, PoolPlan};
use crate::demand::ask::{ask, asked};
use crate::demand::daemons;
use crate::demand::entry::entry;
use crate::demand::host_limits::HostLimits;
use crate::demand::ledger::Ledger;
use crate::demand::request::{PoolRef, pool_of};
use crate::demand::slices::lines;
use crate::division::{Entitled, entitled};
use crate::facts::FederationFacts;
use crate::facts::job::{JobView, Release};
use crate::facts::known::{CommonHead, KnownHead};
use crate::picture::Picture;
use crate::preemption::claimants::withheld;
use crate::progress::refused::{Unbound, refused, unbound_reason};
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{ClusterId, JobId, Reason, ReasonCode, Resources, Seldom, Timestamp, Version};
use echelon_core_pools::{Admission, Rooms, Turn};
use echelon_core_routing::{Candidate, Demand, HomeKey, filter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What would become of a job in the present state.
#[must_use]
pub fn plan(picture: &Picture, spec: &JobSpec) -> Plan {
    // Of a template: what would become of one of its jobs.
    let spec = &spec.child(spec.name.clone(), &[]);
    let id = newest_id(&picture.facts);
    let spec = &daemons::planned(&picture.facts, spec);
    let mut job = JobView::default();
    // What it would wait for is not asked: how it would run then is.
    job.rare.release = Release::Stored(Timestamp(0));
    job.head = Some(imagined(spec));
    job.spec = Some(Arc::new(spec.clone()));
    job.spec_version = 1;
    if spec.kind == JobKind::Daemon && picture.facts.hierarchy.leaf(&spec.pool).is_some() {
        daemons::assign_planned(&picture.facts, id, &mut job, spec);
        job.durable = job.decided.clone();
    }
    let router = Router::new(&picture.facts, &picture.demand.ledger).with(id, &job);
    let dropped: Vec<Vec<Dropped>> = spec
        .groups
        .iter()
        .map(|g| {
            let candidates = router.candidates();
            drops(
                &demand(job.home(), spec, g),
                candidates.of(candidates.asker(spec, g)),
            )
        })
        .collect();
    let ledger = picture
        .demand
        .ledger
        .with(id, entry(&picture.facts, picture.demand.ledger.basis(), id, &job));
    let entitled = entitled(&picture.facts, &ledger);
    let sums = ledger.pool_sums(&picture.facts);
    let mut rooms = rooms(&picture.facts, &ledger, &sums, &entitled);
    rooms.close(picture.demand.closed());
    let mine = |turn: &Turn| {
        let group = spec.group(&turn.group)?;
        asked(
            &picture.facts,
            (id, &job),
            (spec, group),
            &lines(&picture.facts, id, &job),
        )
    };
    let ask = |turn: &Turn| {
        if turn.job == id {
            mine(turn)
        } else {
            ask(&picture.facts, router.candidates().limits(), turn)
        }
    };
    let withheld = withheld(&picture.facts, &ledger, &picture.preemption);
    let rounds = AdmissionRounds {
        facts: &picture.facts,
        ledger: &ledger,
        holds: &picture.admission.holds,
        withheld: &withheld.capacity,
        enforced: EnforcedAmounts {
            first: &entitled,
            sustained: &picture.admission.sustained,
        },
        is_full: false,
        with_rest: true,
        most_jobs: usize::MAX,
    };
    let admitted = admissions(rounds, &mut rooms, (ask, &router), |_, _| true).admitted;
    let groups = spec.groups.iter().zip(dropped);
    Plan {
        pool: pool_plan(&picture.facts, spec, &ledger, &entitled),
        groups: groups
            .map(|(group, dropped)| {
                let known = (picture, &rooms, &router);
                group_plan(known, (id, &job), (spec, group), dropped, &admitted)
            })
            .collect(),
    }
}

/// An id younger than every job's, so that the plan waits behind all of its priority.
fn newest_id(facts: &FederationFacts) -> JobId {
    JobId(
        facts
            .jobs
            .keys()
            .next_back()
            .map_or(1, |id| id.0.saturating_add(1)),
    )
}

fn imagined(spec: &JobSpec) -> KnownHead {
    KnownHead {
        version: Version(1),
        void: false,
        home: HomeKey::of_name(&spec.name),
        goal: Default::default(),
        spec_version: 1,
        common: Arc::new(CommonHead {
            digest: None,
            pool: spec.pool.as_str().into(),
            pool_id: None,
        }),
        rare: Seldom::new(),
    }
}

fn drops(demand: &Demand<'_>, clusters: &[Candidate]) -> Vec<Dropped> {
    let (_, dropped) = filter(demand, clusters);
    let dropped = dropped.into_iter().map(|d| Dropped {
        cluster: d.id,
        name: d.name,
        reason: d.reason,
    });
    dropped.collect()
}

fn pool_plan(facts: &FederationFacts, spec: &JobSpec, ledger: &Ledger, entitled: &Entitled) -> PoolPlan {
    let pool = facts.hierarchy.leaf(&spec.pool);
    let at = pool_of(facts, &spec.pool);
    PoolPlan {
        path: spec.pool.clone(),
        problem: pool
            .is_none()
            .then(|| Reason::new(ReasonCode::PoolNotFound).at(&spec.pool)),
        reservation: pool.map(|p| p.reservation).unwrap_or_default(),
        limit: pool.map(|p| p.limit).unwrap_or_default(),
        entitlement: match at {
            PoolRef::Known(i) => entitled.ordinary.amount(i),
            PoolRef::Unknown(_) => Resources::ZERO,
        },
        allocated: ledger.of(&at).ordinary.allocated,
    }
}

fn group_plan(
    (picture, rooms, router): (&Picture, &Rooms, &Router<'_>),
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    dropped: Vec<Dropped>,
    admitted: &[Admission],
) -> GroupPlan {
    let mine = admitted.iter().find(|a| a.job == id && a.group == group.name);
    let bound = mine
        .into_iter()
        .flat_map(|a| a.more.iter().map(|(c, _, n)| (c, *n)));
    let chosen = mine.into_iter().flat_map(|a| a.bind.iter().map(|(c, n)| (c, *n)));
    let mut counts: BTreeMap<ClusterId, u64> = BTreeMap::new();
    for (cluster, n) in bound.chain(chosen) {
        *counts.entry(cluster.clone()).or_default() += n;
    }
    let could_start: u64 = counts.values().sum();
    // A daemon's instances belong to hosts, whether they may begin or not.
    for r in job.durable.ranges(&group.name) {
        let count = counts.entry(r.cluster.clone()).or_default();
        *count = (*count).max(r.range.count());
    }
    let clusters = counts.into_iter().map(|(cluster, instances)| {
        let row = picture.facts.clusters.get(&cluster).and_then(|c| c.row.as_ref());
        ClusterShare {
            name: row.map(|r| r.name.clone()).unwrap_or_default(),
            cluster,
            instances,
        }
    });
    // As if what is admitted were granted.
    let mut lines = lines(&picture.facts, id, job);
    for line in lines.iter_mut().filter(|l| l.key.group == group.name) {
        let more = mine.map(|a| a.more.as_slice()).unwrap_or_default();
        let got = more
            .iter()
            .find(|(c, g, _)| *c == line.key.cluster && *g == line.key.generation);
        line.allocated += got.map_or(0, |(_, _, n)| *n);
    }
    let refused = refused(picture, rooms, (id, job), (spec, group), &lines);
    let mut waiting: Vec<(Reason, u64)> = refused.into_iter().map(|r| (r.reason, r.count)).collect();
    let told: u64 = waiting.iter().map(|(_, n)| *n).sum();
    let instances = u64::from(group.instances);
    let unbound = instances.saturating_sub(could_start).saturating_sub(told);
    if unbound > 0 {
        let begins = mine.map_or(0, |a| a.bind.iter().map(|(_, n)| *n).sum());
        let nowhere = Unbound {
            of: GroupOf { id, spec, group },
            job,
            lines: &lines,
            begins,
        };
        let (reason, _) = unbound_reason(router, &picture.admission, rooms, &nowhere);
        waiting.push((reason, unbound));
    }
    GroupPlan {
        group: group.name.clone(),
        instances,
        could_start,
        clusters: clusters.collect(),
        dropped,
        waiting,
        fits_nowhere: HostLimits::of(&picture.facts, &picture.demand.ledger).fits_nowhere(spec, group),
    }
}
