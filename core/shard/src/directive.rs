//! Directives of the resource manager: only of the largest epoch ever seen, which is durable before its first directive is
//! acted on; older ones are answered as superseded.

use crate::effects::Then;
use crate::event::LinkId;
use crate::group::{Wish, ranges_at};
use crate::held::Heard;
use crate::journal::Lane;
use crate::purpose::Purpose;
use crate::{Phase, Shard};
use echelon_core_jobs::{Standing, is_being_preempted, is_given_back, leave_host, standing};
use echelon_core_model::directive::{Directive, Grant, Order, ReportPart, SliceOrder};
use echelon_core_model::instance::{Run, Stopping};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::time::Span;
use echelon_core_model::{AssignedRange, Epoch, Generation, InstanceNumber, JobId, ReasonCode, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// Directives held until they may be obeyed. More are dropped: the resource manager repeats what it wants.
const HELD: usize = 4096;

/// The resource manager's end.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    held: VecDeque<(LinkId, Directive)>,
    /// Epoch and sequence last taken in, by link.
    last: BTreeMap<LinkId, (Epoch, u64)>,
    /// When a directive was last obeyed.
    pub(crate) heard_at: Option<Timestamp>,
}

impl Orders {
    pub(crate) fn forget_link(&mut self, link: LinkId) {
        self.last.remove(&link);
        self.held.retain(|(l, _)| *l != link);
    }
}

impl Shard {
    /// Takes a directive of a proven stream in; it is obeyed at once, or as soon as that is allowed.
    pub(crate) fn take_directive(&mut self, link: LinkId, directive: Directive) {
        if self.orders.held.len() < HELD {
            self.orders.held.push_back((link, directive));
        }
        self.obey_held();
    }

    /// Obeys what is held, as far as it may be.
    pub(crate) fn obey_held(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        while let Some((link, directive)) = self.orders.held.pop_front() {
            if directive.epoch < self.own.obeyed {
                self.tell(link, ReportPart::Superseded(self.own.obeyed));
                continue;
            }
            if directive.epoch > self.own.obeyed {
                self.own.obeyed = directive.epoch;
                self.journal.touch(Lane::OWN, self.now, Span::ZERO);
            }
            let point = self.journal.point(Lane::OWN);
            if !self.journal.is_durable(point) {
                self.orders.held.push_front((link, directive));
                self.journal.when_durable([point], Then::Obey);
                return;
            }
            let mark = (directive.epoch, directive.sequence);
            if self.orders.last.get(&link).is_some_and(|last| mark <= *last) {
                continue;
            }
            self.orders.last.insert(link, mark);
            self.orders.heard_at = Some(self.now);
            self.obey(Heard {
                link,
                epoch: directive.epoch,
                at: self.now,
                order: directive.order,
            });
        }
    }

    /// Obeys an order; while some groups are not served, what is about those or about everything waits.
    pub(crate) fn obey(&mut self, heard: Heard<Order>) {
        let Heard {
            link,
            epoch,
            at,
            order,
        } = heard;
        match order {
            Order::Slices(orders) => orders.into_iter().for_each(|order| {
                self.obey_or_hold(Heard {
                    link,
                    epoch,
                    at,
                    order,
                });
            }),
            // At once, whatever is still being read.
            Order::Kills { version, off } => self.turn(version, off),
            order if self.is_recovering() => self.postpone(Heard {
                link,
                epoch,
                at,
                order,
            }),
            // The first message of a stream is taken before.
            Order::Hello(_) => {}
            Order::Report => self.report_fully(link),
            Order::AcceptLoss(number) => self.accept_loss(number),
            Order::Drains(drains) => self.obey_drains(drains),
            Order::HostMoves(moves) => self.obey_moves(moves),
            Order::ForgetHosts(hosts) => self.obey_forgotten(&hosts),
            Order::Claims { claims, lease } => self.obey_claims(claims, lease),
            Order::Classes(named) => self.obey_classes(named),
            Order::Volumes(wishes) => self.wish_volumes(wishes),
            Order::Archive(job) => {
                // The assignment of a deleted job is gone: nothing is left to be kept from being adopted.
                if self
                    .picture
                    .groups_of(job)
                    .into_iter()
                    .any(|n| self.is_deleted(n))
                {
                    self.archived.remove(&job);
                } else {
                    self.note_ended(job);
                }
                self.tell_archived(job);
                for number in self.picture.groups_of(job) {
                    self.archive_group(number);
                }
            }
            Order::TearDown => self.tear_down(),
        }
    }

    /// Whether a group's job is to be deleted.
    fn is_deleted(&self, number: u32) -> bool {
        let wish = self.picture.groups.get(&number).and_then(|g| g.wish.as_ref());
        wish.is_some_and(|w| w.goal.desired == Desired::Deleted)
    }

    /// How many ended jobs it remembers whose assignment may still stand.
    #[must_use]
    pub fn ended_jobs(&self) -> usize {
        self.archived.len()
    }

    /// Obeys an order that was heard at `heard_at` about a group that is served.
    pub(crate) fn obey_slice(&mut self, order: SliceOrder, heard_at: Timestamp) {
        self.archived.remove(&order.job);
        let number = self.picture.number_or_new(order.job, &order.group);
        let wish = Wish {
            head_version: order.head_version,
            goal: order.goal,
            spec_version: order.spec_version,
            rollout: order.rollout,
            restarts: order.restarts,
        };
        let mut reaches = false;
        if let Some(group) = self.picture.groups.get_mut(&number) {
            group.archive = false;
            // A stream that is about to close may bring an older part after a newer one.
            if order.part_number >= group.part_number {
                group.part_number = order.part_number;
                group.max_unavailable = order.max_unavailable;
            }
            reaches = group.update_below != order.update_below;
            group.update_below = order.update_below;
        }
        let ranges = ranges_at(&order.ranges, &self.config.cluster);
        if self.is_news_of_a_stop(number, &wish) {
            self.confirm_stop(order.job);
            self.assign_ranges(number, ranges);
        } else {
            self.want(number, wish, Some(ranges), heard_at);
        }
        if reaches {
            self.adopt_group(number);
        }
        for (generation, grant) in order.grants {
            self.obey_grant(number, generation, grant, heard_at);
        }
        self.picture.restless.insert(number);
        self.picture.unreported.insert(number);
    }

    /// Whether an order wants an end that is not known to be wanted. What ends work is confirmed by storage:
    /// such an order only has the stored head read.
    fn is_news_of_a_stop(&self, number: u32, wish: &Wish) -> bool {
        let group = self.picture.groups.get(&number);
        let known = group.and_then(|g| g.wish.as_ref());
        let older = known.is_some_and(|k| wish.head_version < k.head_version);
        wish.goal.desired != Desired::Running && !older && known != Some(wish)
    }

    pub(crate) fn confirm_stop(&mut self, job: JobId) {
        if self.confirming.insert(job) {
            let query = Query::Head(job);
            self.ask(Op::Read(query, Consistency::Quorum), Purpose::ConfirmStop(job));
        }
    }

    /// The head of a job that an order wants to end: what it says counts, whatever was ordered.
    pub(crate) fn on_confirmed_head(&mut self, job: JobId, head: Option<Head>, since: Timestamp) {
        self.confirming.remove(&job);
        self.on_head(job, head, since);
    }

    /// Takes in the ranges of a group of which nothing else is heard.
    fn assign_ranges(&mut self, number: u32, ranges: Vec<AssignedRange>) {
        let known = self.picture.groups.get(&number);
        if known.is_some_and(|g| g.row.ranges != ranges) {
            self.set_ranges(number, ranges);
            self.adopt_group(number);
        }
    }

    /// Takes in what is wanted of a group, as heard at `heard_at`, and whether that is new; what is older than what we know changes
    /// nothing.
    pub(crate) fn want(
        &mut self,
        number: u32,
        wish: Wish,
        ranges: Option<Vec<AssignedRange>>,
        heard_at: Timestamp,
    ) -> bool {
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return false;
        };
        group.heard_at = group.heard_at.max(heard_at);
        let known = group.wish.as_ref();
        let older = known.is_some_and(|k| wish.head_version < k.head_version);
        let rewish = !older && known != Some(&wish);
        let job = group.job();
        if rewish {
            if known.is_none_or(|k| k.spec_version != wish.spec_version) {
                group.spec = None;
                group.spec_since = self.now;
            }
            group.wish = Some(wish);
        }
        let reranged = ranges.filter(|r| *r != group.row.ranges);
        let changed = rewish || reranged.is_some();
        if let Some(ranges) = reranged {
            self.set_ranges(number, ranges);
        }
        self.want_spec(number);
        if changed {
            self.adopt_group(number);
            self.inquire_lost(number);
            self.judge_again(job);
        }
        changed
    }

    /// Takes a grant in. A smaller one of the current epoch takes back what is too much; an expired one takes nothing.
    fn obey_grant(&mut self, number: u32, generation: Generation, grant: Grant, heard_at: Timestamp) {
        let now = self.now;
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        let known = group.row.grants.get(&generation).copied();
        if known.is_some_and(|k| (grant.epoch, grant.number) < (k.epoch, k.number)) {
            return;
        }
        group.granted_at.insert(generation, heard_at);
        // The amount is what must survive; a mere renewal is not written.
        let same =
            known.is_some_and(|k| (k.active, k.known, k.epoch) == (grant.active, grant.known, grant.epoch));
        if same {
            group.row.grants.insert(generation, grant);
        } else {
            self.edit_row(number, |row| row.grants.insert(generation, grant));
        }
        self.placing.hungrier(now, self.config.timing.commit_delay);
        self.take_back(number, generation);
    }

    /// Ends active instances beyond what is granted: first those between two runs, then those that are not available
    /// yet, such as one that was begun while the smaller grant was on its way, then the highest-numbered.
    fn take_back(&mut self, number: u32, generation: Generation) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let (granted, tally) = (group.granted(generation), group.tallies.get(&generation));
        let staying = tally.map_or(0, |t| t.active.saturating_sub(t.preempting));
        if staying <= granted || self.is_frozen() {
            return;
        }
        // What is marked to leave is stopped by its mark, for the mark's reason: it counts as taken back, and so does what is preempted.
        let leaves = |n: InstanceNumber| group.mark_of(n).is_some_and(|m| m.count.is_none());
        let staying: Vec<InstanceNumber> = group
            .records()
            .filter(|(n, r)| r.generation == generation && group.holds(*n, generation) && !leaves(*n))
            .filter(|(_, r)| standing(r) == Standing::Active && !is_being_preempted(r))
            .map(|(n, _)| n)
            .collect();
        let between_runs = group.between_runs(generation);
        let (resting, mut running): (Vec<InstanceNumber>, Vec<InstanceNumber>) =
            staying.into_iter().partition(|n| between_runs.contains(*n));
        let is_available = |n: &InstanceNumber| {
            let run = group.record(*n).and_then(|record| record.run.as_ref());
            run.is_some_and(Run::is_available)
        };
        running.sort_by_key(|n| (!is_available(n), *n));
        let kept = usize::try_from(granted).unwrap_or(usize::MAX);
        let surplus = (resting.len() + running.len()).saturating_sub(kept);
        let running_surplus = surplus.saturating_sub(resting.len());
        for n in resting.into_iter().rev().take(surplus) {
            self.take_back_resting(number, n);
        }
        for n in running.into_iter().rev().take(running_surplus) {
            self.take_back_one(number, n);
        }
    }

    /// Ends an active instance that is ready for its next run. A run on a host that is gone is kept as an older one, and stopped if
    /// its host is seen again.
    fn take_back_resting(&mut self, number: u32, n: InstanceNumber) {
        let at = (number, n);
        let run = self.picture.record(at).and_then(|r| r.run.as_ref());
        if run.is_some_and(Run::may_have_task) {
            let now = self.now;
            self.edit(at, |record| leave_host(record, now));
            self.account_all(at);
        } else {
            self.take_back_one(number, n);
        }
    }

    fn take_back_one(&mut self, number: u32, n: InstanceNumber) {
        let at = (number, n);
        let Some(run) = self.picture.record(at).and_then(|r| r.run.as_ref()) else {
            return;
        };
        if run.stopping.is_some() && !run.state.is_ended() {
            return;
        }
        if run.may_have_task() {
            self.stop(at, ReasonCode::PoolEntitlement.into());
        } else if !is_given_back(run) {
            let now = self.now;
            self.edit(at, |record| {
                if let Some(run) = &mut record.run {
                    run.stopping = Some(Box::new(Stopping {
                        reason: ReasonCode::PoolEntitlement.into(),
                        grace: Span::ZERO,
                        since: now,
                    }));
                }
            });
        }
    }
}
