//! The walk over instances that something happened to, and over their groups: what each needs next is asked of the job
//! manager and set going. Nothing is walked that did not change.

use crate::Shard;
use crate::group::Group;
use crate::picture::At;
use echelon_core_jobs::{Next, Wanted, give_up_stopping, next};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::time::Span;

impl Shard {
    /// Decides about everything on the agenda, then about groups that became restless. True when there was anything.
    pub(crate) fn decide_all(&mut self) -> bool {
        if self.phase != crate::Phase::Serving {
            return false;
        }
        while let Some((due, at)) = self
            .picture
            .timers
            .first()
            .copied()
            .filter(|(due, _)| *due <= self.now)
        {
            self.picture.timers.remove(&(due, at));
            self.picture.agenda.insert(at);
        }
        let agenda = std::mem::take(&mut self.picture.agenda);
        let restless = std::mem::take(&mut self.picture.restless);
        let any = !agenda.is_empty() || !restless.is_empty();
        agenda.into_iter().for_each(|at| self.decide(at));
        let any = self.judge_losses() || any;
        restless.into_iter().for_each(|group| self.tend(group));
        any
    }

    /// Decides about one instance.
    fn decide(&mut self, at: At) {
        self.settle_end(at);
        self.tend_gone(at);
        self.adopt_volume(at);
        self.tend_given_up(at);
        self.leave_lost_cluster(at);
        self.watch_rollout(at);
        self.watch_crashes(at);
        let Some(group) = self.picture.groups.get(&at.0) else {
            return;
        };
        let what = self.next_of(group, at);
        let observed = self.is_observed(at);
        self.note_missing(at);
        self.note_bound(at);
        self.watch_runs(at);
        self.tidy_begun(at);
        let waits = self.awaits_turn(at, &what);
        self.note_withheld(at, what == Next::Withheld);
        self.note_crowded(at, what == Next::Crowded);
        let Some(group) = self.picture.groups.get_mut(&at.0) else {
            return;
        };
        let runs = what == Next::Run && observed && !waits;
        if runs && !group.ready.contains(&at.1) {
            group.ready.insert(at.1);
            self.picture.restless.insert(at.0);
            self.placing.hungrier(self.now, self.config.timing.commit_delay);
        } else if !runs {
            group.ready.remove(&at.1);
        }
        group.backing_off.remove(&at.1);
        if waits {
            group.backing_off.insert(at.1);
        }
        if let Next::At(due) = what {
            if group.record(at.1).is_some_and(|r| r.not_before == due) {
                group.backing_off.insert(at.1);
            }
            self.picture.timers.insert((due, at));
        }
        self.note_former(at);
        if self.is_frozen() {
            return;
        }
        match what {
            Next::Stop(reason) if observed => self.stop(at, reason.into()),
            Next::GiveUp if observed => {
                // What a member of a pod has brought is settled with it.
                if let Some(policy) = self.policy(at.0) {
                    let now = self.now;
                    self.edit(at, |r| give_up_stopping(r, &policy, now));
                    self.account_all(at);
                }
            }
            Next::End(ended) => {
                self.edit(at, |r| r.ended = Some(ended));
            }
            Next::Revive => {
                self.edit(at, |r| r.ended = None);
            }
            // Neither replaced here nor given back to be replaced elsewhere.
            Next::Withheld | Next::Crowded => return,
            Next::Rest | Next::At(_) | Next::Run | Next::Stop(_) | Next::GiveUp => {}
        }
        self.reclaim_volume(at);
        self.note_leaving(at);
    }

    pub(crate) fn next_of(&self, group: &Group, at: At) -> Next {
        let (Some(record), Some(wish)) = (group.record(at.1), group.wish.as_ref()) else {
            return Next::Rest;
        };
        let wanted = Wanted {
            desired: wish.goal.desired,
            mark: group.mark_of(at.1),
            held: group.holds(at.1, record.generation),
            on_unreachable: if self.has_given_up(group, at.1) {
                OnSilence::Replace(Span::ZERO)
            } else {
                group.spec.as_ref().map_or(OnSilence::Wait, |s| s.on_unreachable)
            },
            max_start: group.group_spec().and_then(|s| s.max_start),
            observed: self.observed(),
            withhold: self.withholds(),
        };
        group.unless_refused(next(record, &wanted, self.now))
    }

    /// Law 2: no run is stopped, given up or replaced before the cluster has answered for its task in this leadership. Of one that has
    /// ended by other evidence nobody asks any more.
    pub(crate) fn is_observed(&self, at: At) -> bool {
        let run = self.picture.record(at).and_then(|r| r.run.as_ref());
        let run = run.filter(|r| r.may_have_task());
        run.is_none_or(|r| !self.reconcile.awaits_first(&(at, r.generation, r.number)))
    }

    /// Looks after a group: runs to be replaced within its budget, marks, archive.
    fn tend(&mut self, number: u32) {
        if !self.is_group_refused(number) {
            self.restart_some(number);
            self.tend_count_marks(number);
        }
        self.daemons.look_at(number, self.now);
        self.tend_archive(number);
        let group = self.picture.groups.get(&number);
        let hungry = group.filter(|g| g.appetite(self.now) > 0);
        let spec_version = hungry.and_then(|g| g.wish.as_ref()).map(|w| w.spec_version);
        let ungranted = group.is_some_and(|g| g.is_ungranted(self.now));
        if spec_version.is_some() {
            self.want_other_specs(number);
        }
        self.placing
            .note_hunger(number, spec_version, self.hosts.revivals());
        self.placing.note_ungranted(number, ungranted);
    }

    /// A group was read or its wish or ranges have changed: everything of it is looked at.
    pub(crate) fn adopt_group(&mut self, number: u32) {
        let (now, waits) = (self.now, self.awaits_spec(number));
        let Some(group) = self.picture.groups.get_mut(&number) else {
            return;
        };
        group.recount();
        self.picture.restless.insert(number);
        self.picture.unreported.insert(number);
        if !waits {
            group.refresh_all_restarts(&self.draining, now);
            self.picture.look_at_all(number);
        }
        self.placing.hungrier(now, self.config.timing.commit_delay);
        if !self.is_group_refused(number) {
            self.start_takeovers(number);
        }
        self.release_unbegun(number);
    }
}
