//! Room on the way to the cluster. An intent is made only while there is room for the call that will launch it, and what is durable and
//! finds the way full waits for it in order: as runs, which are small, and not as calls, which have the whole environment.

use crate::Shard;
use crate::event::CallCredit;
use crate::group::Group;
use crate::picture::{At, RunAt};
use echelon_core_hosts::most_of_launch;
use echelon_core_model::HostId;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeFrom;

/// What is promised of the way out, and what waits for it.
#[derive(Debug, Default)]
pub(crate) struct LaunchCredit {
    /// As it was told last, with what was handed over since. `None`: not told, by a world that takes each call in at once.
    told: Option<CallCredit>,
    /// Intents that were not sent yet, with the most bytes that the launch of each takes.
    unsent: BTreeMap<RunAt, usize>,
    /// Their sum.
    promised: usize,
    /// Something that wants a host was not asked for, since its launch has no room.
    is_short: bool,
    /// Durable intents of hosts for which there was no room.
    waiting: VecDeque<(HostId, Vec<RunAt>)>,
}

impl LaunchCredit {
    /// An intent was made.
    pub(crate) fn promise(&mut self, run: RunAt, bytes: usize) {
        let before = self.unsent.insert(run, bytes).unwrap_or(0);
        self.promised = self.promised.saturating_sub(before).saturating_add(bytes);
    }

    /// It was sent or dropped. Whether it was unsent until now.
    pub(crate) fn settle(&mut self, run: &RunAt) -> bool {
        let bytes = self.unsent.remove(run);
        self.is_short &= bytes.is_none();
        self.promised = self.promised.saturating_sub(bytes.unwrap_or(0));
        bytes.is_some()
    }

    pub(crate) fn is_unsent(&self, run: &RunAt) -> bool {
        self.unsent.contains_key(run)
    }

    pub(crate) fn unsent(&self) -> impl Iterator<Item = &RunAt> {
        self.unsent.keys()
    }

    pub(crate) fn unsent_from(&self, range: RangeFrom<RunAt>) -> impl Iterator<Item = &RunAt> {
        self.unsent.range(range).map(|(run, _)| run)
    }

    /// Bytes for which further intents may be made. The first one may take all, however large it is.
    fn left(&self) -> usize {
        let Some(told) = self.told else {
            return usize::MAX;
        };
        let taken = told.under_way.saturating_add(self.promised);
        if taken == 0 {
            usize::MAX
        } else {
            told.bound.saturating_sub(taken)
        }
    }

    /// Whether a call may be handed over: with room for a byte it may be larger than what is left.
    fn is_open(&self) -> bool {
        self.told.is_none_or(|told| told.under_way < told.bound)
    }

    /// What wants a host next waits for room.
    pub(crate) fn note_short(&mut self) {
        self.is_short = true;
    }

    /// A call with launches was handed over.
    pub(crate) fn hand_over(&mut self, bytes: usize) {
        if let Some(told) = &mut self.told {
            told.under_way = told.under_way.saturating_add(bytes);
        }
    }
}

/// What one question to placement may ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuestionRoom {
    /// Launches.
    pub(crate) launches: usize,
    /// Bytes of their calls.
    bytes: usize,
    bound: usize,
}

impl QuestionRoom {
    /// How many launches of so many bytes each it has room for. The first of a question that may take all of the way takes what the bound
    /// allows, and one at least.
    pub(crate) fn of(self, bytes: usize) -> usize {
        let most = self.bytes.min(self.bound) / bytes.max(1);
        let alone = usize::from(self.bytes == usize::MAX);
        self.launches.min(most.max(alone))
    }

    /// The rest, when so many of so many bytes are asked for.
    pub(crate) fn minus(self, launches: usize, bytes: usize) -> Self {
        let taken = launches.saturating_mul(bytes);
        Self {
            launches: self.launches.saturating_sub(launches),
            bytes: if taken == 0 {
                self.bytes
            } else {
                self.bytes.min(self.bound).saturating_sub(taken)
            },
            ..self
        }
    }
}

impl Shard {
    /// How much of the way is left for launches, of which the pace allows so many.
    pub(crate) fn question_room(&self, launches: usize) -> QuestionRoom {
        QuestionRoom {
            launches,
            bytes: self.credit.left(),
            bound: self.credit.told.map_or(usize::MAX, |told| told.bound),
        }
    }

    /// Whether launches wait for room on the way to the cluster.
    #[must_use]
    pub fn awaits_credit(&self) -> bool {
        self.credit.is_short || !self.credit.waiting.is_empty()
    }

    /// The way to the cluster has so much under way.
    pub(crate) fn on_call_credit(&mut self, told: CallCredit) {
        self.credit.told = Some(told);
        self.credit.is_short = false;
        while self.credit.is_open()
            && let Some((host, runs)) = self.credit.waiting.pop_front()
        {
            self.launch_now(&host, &runs);
        }
    }

    /// Launches intents that are durable now, in order, when there is room on the way.
    pub(crate) fn launch(&mut self, host: &HostId, runs: &[RunAt]) {
        if self.credit.is_open() && self.credit.waiting.is_empty() {
            self.launch_now(host, runs);
        } else {
            self.credit.waiting.push_back((host.clone(), runs.to_vec()));
        }
    }

    /// The most bytes that the launch of an instance of a group takes.
    pub(crate) fn launch_bytes(&self, group: &Group) -> usize {
        let spec = group.spec.as_ref().zip(group.group_spec());
        spec.map_or(0, |(job, of)| most_of_launch(job, of))
    }

    /// The same of an instance.
    pub(crate) fn launch_bytes_at(&self, at: At) -> usize {
        let group = self.picture.groups.get(&at.0);
        group.map_or(0, |group| self.launch_bytes(group))
    }
}
