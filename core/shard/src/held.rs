//! What is told while state is read: events of the cluster about groups that are not served yet, in a bounded queue, and
//! orders of the resource manager about them. Both go on as soon as their group is served.

use crate::Shard;
use crate::event::{Alarm, Effect, LinkId};
use crate::group::Group;
use echelon_core_hosts::{self as hosts, Call};
use echelon_core_model::directive::{Order, SliceOrder};
use echelon_core_model::{Epoch, GroupName, JobId, MemberId, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Orders about a whole job or shard that wait for the end of the recovery. More are dropped: they are repeated.
const POSTPONED: usize = 4096;

/// An order that waits, and since when.
#[derive(Debug)]
pub(crate) struct Heard<T> {
    pub(crate) link: LinkId,
    pub(crate) epoch: Epoch,
    pub(crate) at: Timestamp,
    pub(crate) order: T,
}

/// What waits.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Events, before anything is served.
    events: VecDeque<hosts::Event>,
    /// Updates, by the group that they are about.
    updates: BTreeMap<(JobId, GroupName), VecDeque<hosts::Event>>,
    n_updates: usize,
    /// The last order about each group.
    orders: BTreeMap<(JobId, GroupName), Heard<SliceOrder>>,
    /// Of these, those of groups that are served: they reach into a bucket that is not sealed.
    reaching: BTreeSet<(JobId, GroupName)>,
    /// Orders for when everything is served.
    postponed: VecDeque<Heard<Order>>,
    /// Whether the alarm about a full queue was given.
    overflowed: bool,
}

impl Held {
    /// The highest number that a held order names for a group.
    pub(crate) fn last_ordered(&self, job: JobId, group: &GroupName) -> Option<u32> {
        let heard = self.orders.get(&(job, group.clone()))?;
        heard.order.ranges.iter().map(|r| r.range.last).max()
    }

    /// Whether an order about a group is held.
    pub(crate) fn is_ordered(&self, group: &Group) -> bool {
        self.orders.contains_key(&(group.job(), group.name().clone()))
    }

    /// Drops the updates that wait for a group.
    pub(crate) fn drop_updates(&mut self, key: &(JobId, GroupName)) {
        let updates = self.updates.remove(key).unwrap_or_default();
        self.n_updates -= updates.len();
    }

    pub(crate) fn forget_link(&mut self, link: LinkId) {
        self.orders.retain(|_, heard| heard.link != link);
        self.postponed.retain(|heard| heard.link != link);
    }

    fn len(&self) -> usize {
        self.events.len() + self.n_updates
    }
}

impl Shard {
    /// Holds an event until the first groups may be served. When the queue is full, updates are dropped unacknowledged (Mesos
    /// sends them again) and offers are declined.
    pub(crate) fn hold(&mut self, event: hosts::Event) {
        if self.recovery.held.len() < self.config.timing.held_events {
            self.recovery.held.events.push_back(event);
            return;
        }
        if let hosts::Event::Offers(offers) = event {
            let offers = offers.into_iter().map(|o| o.id).collect();
            let refuse = echelon_core_model::time::Span::ZERO;
            self.out.push(Effect::Cluster(Call::Decline { offers, refuse }));
        } else {
            self.note_overflow();
        }
    }

    fn note_overflow(&mut self) {
        if !self.recovery.held.overflowed {
            self.recovery.held.overflowed = true;
            self.out.push(Effect::Alarm(Alarm::HeldQueueFull));
        }
    }

    /// Holds an update about a task whose group is not served yet: it may lie in a bucket that is not read. `None`: it waits, or
    /// was dropped because the queue is full.
    pub(crate) fn served_or_held(&mut self, event: hosts::Event) -> Option<hosts::Event> {
        let hosts::Event::Update(status) = &event else {
            return Some(event);
        };
        let Ok(MemberId { run, .. }) = status.task.parse() else {
            return Some(event);
        };
        let instance = run.instance;
        let group = self.picture.group(instance.job, &instance.group);
        // Its record cannot be understood: the update stays unacknowledged, and Mesos sends it again to a leader that can. Of one
        // that is to stop it tells what lives.
        if let Some(aside) = group.and_then(|g| g.set_aside.as_ref()) {
            return aside.stop.map(|_| event);
        }
        if !self.is_recovering() || group.is_some_and(|g| g.served) {
            return Some(event);
        }
        // What a list says can be had again: it leaves half of the queue to what is told once.
        let most = self.config.timing.held_events;
        if status.reconciliation && self.recovery.held.len() >= most / 2 {
            self.reconcile.list_is_cut();
            return None;
        }
        if self.recovery.held.len() < most {
            let key = (instance.job, instance.group);
            self.recovery
                .held
                .updates
                .entry(key)
                .or_default()
                .push_back(event);
            self.recovery.held.n_updates += 1;
        } else {
            self.note_overflow();
        }
        None
    }

    /// Processes what was held, as far as it may be: all of it when the recovery is complete.
    pub(crate) fn release_held_events(&mut self) {
        for event in std::mem::take(&mut self.recovery.held.events) {
            self.on_told(event);
        }
        if !self.is_recovering() {
            self.recovery.held.n_updates = 0;
            for event in std::mem::take(&mut self.recovery.held.updates)
                .into_values()
                .flatten()
            {
                self.on_told(event);
            }
        }
    }

    /// A group is served: what was held about it goes on, in order.
    pub(crate) fn release_held(&mut self, job: JobId, group: &GroupName) {
        let key = (job, group.clone());
        let events = self.recovery.held.updates.remove(&key).unwrap_or_default();
        self.recovery.held.n_updates -= events.len();
        events.into_iter().for_each(|event| self.on_told(event));
        if let Some(heard) = self.recovery.held.orders.remove(&key) {
            self.obey_or_hold(heard);
        }
    }

    /// Obeys an order about a group that is served and whose ranges reach into no unsealed bucket; any other waits. An order of a
    /// resource manager that was replaced meanwhile is dropped.
    pub(crate) fn obey_or_hold(&mut self, heard: Heard<SliceOrder>) {
        if heard.epoch < self.own.obeyed {
            return;
        }
        let number = self.picture.number_or_new(heard.order.job, &heard.order.group);
        if self.may_obey(number, &heard.order) {
            self.obey_slice(heard.order, heard.at);
            return;
        }
        self.confirm_aside_stop(number, heard.order.goal.desired);
        let key = (heard.order.job, heard.order.group.clone());
        if self.picture.groups.get(&number).is_some_and(|g| g.served) {
            self.recovery.held.reaching.insert(key.clone());
        }
        self.recovery.held.orders.insert(key, heard);
        self.enlist(number);
    }

    fn may_obey(&self, number: u32, order: &SliceOrder) -> bool {
        self.picture.groups.get(&number).is_some_and(|g| g.served)
            && !self.reach_unsealed(number, &order.ranges)
    }

    /// Obeys held orders that wait for nothing any more.
    pub(crate) fn obey_ready(&mut self) {
        let held = &mut self.recovery.held;
        let reaching = std::mem::take(&mut held.reaching);
        // Those of groups that are not served follow when these are.
        let waiting: Vec<(JobId, GroupName)> = if self.picture.complete {
            held.orders.keys().cloned().collect()
        } else {
            reaching.into_iter().collect()
        };
        for key in waiting {
            if let Some(heard) = self.recovery.held.orders.remove(&key) {
                self.obey_or_hold(heard);
            }
        }
    }

    /// Keeps an order for when everything is served.
    pub(crate) fn postpone(&mut self, heard: Heard<Order>) {
        let postponed = &mut self.recovery.held.postponed;
        if postponed.len() < POSTPONED {
            postponed.push_back(heard);
        }
    }

    /// Everything is served: what was kept for that is obeyed.
    pub(crate) fn obey_postponed(&mut self) {
        self.obey_ready();
        for heard in std::mem::take(&mut self.recovery.held.postponed) {
            if heard.epoch >= self.own.obeyed {
                self.obey(heard);
            }
        }
    }

    /// Offers of a broken subscription are void (R28, R31); updates stay true.
    pub(crate) fn void_held_offers(&mut self) {
        let voided = |e: &hosts::Event| {
            matches!(
                e,
                hosts::Event::Offers(_)
                    | hosts::Event::Rescind(_)
                    | hosts::Event::InverseOffers(_)
                    | hosts::Event::RescindInverse(_)
            )
        };
        self.recovery.held.events.retain(|e| !voided(e));
    }
}
