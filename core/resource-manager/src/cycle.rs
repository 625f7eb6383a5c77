//! One cycle (section 3). Releases are settled and goals followed. Capacity is divided among pools. What is
//! admitted is bound. Capacity is made for work that is entitled to it, and what is to leave is marked.
//! Decisions are stored, and what is stored is ordered.
//!
//! A cycle runs after events, once in each `cycle` on average, and once a second in any case. It looks at
//! what has changed, at waiting work that could get something, and at some other jobs by cursor. It never
//! looks at all jobs. Deciding twice on the same state changes nothing.

use crate::admission::binding::{RemainingCapacity, bind_admitted, bind_ahead};
use crate::admission::grants::{GrantInputs, grant};
use crate::admission::{AdmissionMoment, AdmissionReport, SecondlyPart, admit};
use crate::demand;
use crate::demand::daemons::count_daemons;
use crate::demand::goals::{FollowedGoals, follow_goals};
use crate::demand::{DemandReport, PoolDemandChange};
use crate::division::{DivisionReport, divide};
use crate::effect::Effect;
use crate::facts::job::JobView;
use crate::manager::ResourceManager;
use crate::orders::OrdersReport;
use crate::picture::Picture;
use crate::preemption::PreemptionReport;
use crate::preemption::claimants::{EndedRequest, expire, withheld};
use crate::preemption::opening::{RequestRules, open_requests};
use crate::returns::{ReturnRules, ReturnsReport, give_back};
use crate::turns::CycleChanges;
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use echelon_core_pools::Admission;
use std::collections::BTreeSet;
use std::fmt;

/// What a cycle did, by stage.
#[must_use]
#[derive(Debug, Clone)]
pub struct CycleReport {
    /// What it looked at.
    pub changes: CycleChanges,
    /// What jobs and pools ask for.
    pub demand: DemandReport,
    /// What pools are entitled to.
    pub division: DivisionReport,
    /// What may begin, and where.
    pub admission: AdmissionReport,
    /// Where capacity is made.
    pub preemption: PreemptionReport,
    /// What leaves.
    pub returns: ReturnsReport,
    /// What was stored and sent.
    pub orders: OrdersReport,
}

impl CycleReport {
    /// The number of decisions, by stage and kind. Most of them are 0.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let Self {
            changes,
            demand,
            division: _,
            admission,
            preemption,
            returns,
            orders,
        } = self;
        let len = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let pools = match &demand.pools {
            PoolDemandChange::Tree => 1,
            PoolDemandChange::Pools(pools) => len(pools.len()),
        };
        let instances = |admitted: u64, a: &Admission| admitted.saturating_add(a.total());
        let in_vain = preemption.ended.iter().filter(|e| e.in_vain).count();
        vec![
            ("facts", "job looked at", len(changes.jobs.len())),
            ("demand", "assignment settled", len(demand.settled.len())),
            ("demand", "pool counted", pools),
            (
                "admission",
                "instance admitted",
                admission.admitted.iter().fold(0, instances),
            ),
            (
                "admission",
                "index bound ahead",
                admission.bound_ahead.iter().map(|b| b.count).sum(),
            ),
            ("admission", "grant changed", len(admission.granted.len())),
            ("admission", "grant deferred", admission.deferred),
            ("admission", "second round", u64::from(admission.second_round)),
            ("preemption", "request made", len(preemption.requested.len())),
            ("preemption", "request in vain", len(in_vain)),
            ("returns", "job marked", len(returns.marked.len())),
            ("returns", "instance drained", returns.drained),
            ("orders", "partition written", len(orders.partitions)),
            ("orders", "order sent", len(orders.orders)),
            ("orders", "row written", len(orders.rows)),
        ]
    }
}

impl fmt::Display for CycleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts().into_iter().filter(|(.., n)| *n > 0);
        for (i, (stage, decision, n)) in counts.enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{stage}: {decision} {n}")?;
        }
        Ok(())
    }
}

impl ResourceManager {
    /// Runs the stages in order. Each gets the decisions of the stages before it.
    pub(crate) fn cycle(&mut self, now: Timestamp, out: &mut Vec<Effect>) -> CycleReport {
        self.picture.revision += 1;
        let later = self.take_later();
        let changes = self.take_turns(now);
        self.refresh();
        let mut demand = self.follow_demand(&changes, now);
        let rules = self.config.preemption;
        let Picture {
            facts,
            demand: kept,
            division,
            admission,
            preemption,
            ..
        } = &mut self.picture;
        preemption.budget.fill(&rules, admission.rooms.instances(), now);
        let ended = expire(facts, preemption, now, rules);
        demand.pools = kept.count_pools(facts);
        let division = divide(facts, kept, &demand.pools, division);
        demand.changed = self.take_regrant();
        let admission = self.admit(&division, &demand.changed, now);
        let preemption = self.preempt(ended, &division, &admission, now);
        self.refresh();
        let returns = self.give_back(now);
        self.refresh();
        let mut orders = self.order(&preemption.tell, now, out);
        self.change_heads(now, out);
        self.follow_schedules(now, out);
        self.follow_ends(now, out);
        self.due |= !later.is_empty();
        let looked_at = std::mem::replace(&mut self.dirty, later);
        self.unwritten.extend(looked_at);
        orders.rows = self.flush_progress(now, out);
        CycleReport {
            changes,
            demand,
            division,
            admission,
            preemption,
            returns,
            orders,
        }
    }

    /// Brings the sums up to date, and notes the jobs that may need other grants.
    pub(crate) fn refresh(&mut self) {
        let changed = demand::refresh(&mut self.picture.facts, &mut self.picture.demand);
        self.picture.revision += u64::from(!changed.is_empty());
        // What is bound nowhere has no grant.
        let jobs = &self.picture.facts.jobs;
        let bound = |id: &JobId| jobs.get(id).is_some_and(|job| !job.is_unbound());
        self.regrant.extend(changed.into_iter().filter(bound));
    }

    /// Assignments follow goals, and sums follow them.
    fn follow_demand(&mut self, changes: &CycleChanges, now: Timestamp) -> DemandReport {
        let facts = &mut self.picture.facts;
        let recounted = count_daemons(facts, &changes.jobs);
        let FollowedGoals { settled, given_up } = follow_goals(facts, &changes.jobs);
        for (job, cluster) in given_up {
            self.note_given_up(job, &cluster, now);
        }
        self.refresh();
        DemandReport {
            recounted,
            settled,
            ..DemandReport::default()
        }
    }

    /// Admits, binds what is admitted, and decides grants.
    fn admit(
        &mut self,
        division: &DivisionReport,
        changed: &BTreeSet<JobId>,
        now: Timestamp,
    ) -> AdmissionReport {
        let at = AdmissionMoment {
            now,
            patience: Span(self.config.spill_after.0.saturating_mul(2)),
            preempt_after: self.config.preemption.after,
            undated_for: self.config.preemption.patience,
            most_jobs: self.config.admitted_at_once,
            most_queues: self.config.queues_at_once,
        };
        let Picture {
            facts,
            demand,
            admission,
            preemption,
            ..
        } = &mut self.picture;
        let withheld = withheld(facts, &demand.ledger, preemption);
        let mut report = admit(facts, demand, &division.entitled, &withheld, admission, at);
        self.due |= report.is_cut || admission.next_part != SecondlyPart::Nothing;
        preemption.admitted(&report.admitted);
        let mut jobs = changed.clone();
        jobs.extend(report.admitted.iter().map(|a| a.job));
        jobs.extend(&report.run_down_changed);
        bind_admitted(facts, &mut report);
        let inputs = GrantInputs {
            jobs: &jobs,
            run_down: &admission.run_down,
        };
        grant(facts, inputs, || self.numbers.grant(self.epoch), &mut report);
        let capacity = RemainingCapacity {
            ledger: &demand.ledger,
            admission,
        };
        bind_ahead(facts, capacity, &jobs, &mut report);
        self.dirty.extend(&report.changed);
        report
    }

    /// Makes capacity for work that is entitled to it and finds none.
    fn preempt(
        &mut self,
        ended: Vec<EndedRequest>,
        division: &DivisionReport,
        admission: &AdmissionReport,
        now: Timestamp,
    ) -> PreemptionReport {
        let mut report = PreemptionReport {
            ended,
            ..PreemptionReport::default()
        };
        let Picture {
            facts,
            demand,
            admission: last,
            preemption,
            ..
        } = &mut self.picture;
        if admission.part.has_preemption() {
            let rules = RequestRules {
                first: &division.entitled,
                preemption: self.config.preemption,
                now,
            };
            let name = || self.numbers.claim(self.epoch);
            open_requests(facts, &demand.ledger, last, preemption, rules, name, &mut report);
        }
        preemption.look_for_claimants(facts);
        report.tell = std::mem::take(&mut preemption.untold);
        self.dirty.extend(&report.changed);
        report
    }

    /// Marks what is to leave.
    fn give_back(&mut self, now: Timestamp) -> ReturnsReport {
        let mut jobs: BTreeSet<JobId> = self.dirty.clone();
        jobs.extend(self.turns.restless.next(self.picture.demand.ledger.restless()));
        jobs.retain(|id| self.picture.facts.jobs.get(id).is_some_and(JobView::is_live));
        let rules = ReturnRules {
            spill_after: self.config.spill_after,
            drain_batch: self.config.drain_batch,
        };
        let number = || self.numbers.grant(self.epoch);
        let report = give_back(&mut self.picture, &jobs, rules, now, number);
        self.dirty
            .extend(report.lowered.iter().map(|granted| granted.job));
        self.dirty.extend(&report.reallotted);
        report
    }

    /// Stores what was decided, and sends what is stored.
    fn order(&mut self, tell: &BTreeSet<ClusterId>, now: Timestamp, out: &mut Vec<Effect>) -> OrdersReport {
        let mut report = OrdersReport::default();
        for cluster in tell {
            self.tell_claims(cluster, out);
        }
        self.file_assignments(now, out);
        let before = self.putting.len();
        self.flush_assignments(now, out);
        report.partitions = self.putting.len().saturating_sub(before);
        self.send_orders(now, out, &mut report);
        report
    }
}
