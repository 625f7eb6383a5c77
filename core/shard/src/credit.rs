//! Room on the way to the cluster. An intent is made only while there is room for the call that will launch
//! it. So what waits, waits as an instance, which is small, and not as a call, which has the whole
//! environment; and no offer is held for it.

use crate::Shard;
use crate::event::CallCredit;
use crate::group::Group;
use crate::picture::{At, RunAt};
use echelon_core_hosts::most_of_launch;
use std::collections::BTreeMap;
use std::ops::RangeFrom;

/// What is promised of the way out, and what waits for it.
#[derive(Debug, Default)]
pub(crate) struct LaunchCredit {
    /// As it was told last, with what was handed over since. `None`: not told, by a world that takes each
    /// call in at once.
    told: Option<CallCredit>,
    /// Intents that were not sent yet, with the most bytes that the launch of each takes.
    unsent: BTreeMap<RunAt, usize>,
    /// Their sum.
    promised: usize,
    /// Something that wants a host was not asked for, since its launch has no room.
    is_short: bool,
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
    /// How many launches of so many bytes each it has room for. The first of a question that may take all of
    /// the way takes what the bound allows, and one at least.
    pub(crate) fn of(self, bytes: usize) -> usize {
        let most = self.bytes.min(self.bound) / bytes.max(1);
        let alone = usize::from(self.bytes == usize::MAX);
        self.launches.min(most.max(alone))
    }

    /// Whether a gang of so many bytes may be asked for: it begins as a whole, so a larger one takes all of
    /// the way.
    pub(crate) const fn has_room_for_gang(self, bytes: usize) -> bool {
        bytes <= self.bytes
    }

    /// The rest, when so many of so many bytes each are asked for.
    pub(crate) fn minus(self, launches: usize, bytes: usize) -> Self {
        self.minus_gang(launches, launches.saturating_mul(bytes))
    }

    /// The rest, when so many of so many bytes together are asked for.
    pub(crate) fn minus_gang(self, launches: usize, taken: usize) -> Self {
        let taken = if launches == 0 { 0 } else { taken };
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
    pub const fn awaits_credit(&self) -> bool {
        self.credit.is_short
    }

    /// The way to the cluster has so much under way.
    pub(crate) fn on_call_credit(&mut self, told: CallCredit) {
        self.credit.told = Some(told);
        self.credit.is_short = false;
    }

    /// The most bytes that the launch of an instance of a group takes. Nothing is weighed where nothing is
    /// bounded.
    pub(crate) fn launch_bytes(&self, group: &Group) -> usize {
        if self.credit.told.is_none() {
            return 0;
        }
        let spec = group.spec.as_ref().zip(group.group_spec());
        spec.map_or(0, |(job, of)| most_of_launch(job, of))
    }

    /// The same of all members of a gang.
    pub(crate) fn launch_bytes_of_gang(&self, group: &Group) -> usize {
        if self.credit.told.is_none() {
            return 0;
        }
        let spec = group.spec.as_ref();
        let groups = spec
            .into_iter()
            .flat_map(|job| job.groups.iter().map(move |of| (job, of)));
        let bytes = groups.map(|(job, of)| {
            let members = usize::try_from(of.instances).unwrap_or(usize::MAX);
            most_of_launch(job, of).saturating_mul(members)
        });
        bytes.fold(0, usize::saturating_add)
    }

    /// The same of an instance.
    pub(crate) fn launch_bytes_at(&self, at: At) -> usize {
        let group = self.picture.groups.get(&at.0);
        group.map_or(0, |group| self.launch_bytes(group))
    }
}
