//! Why instances of a slice wait, in numbers that sum to those that do: the shard's part of a job's reasons.

use crate::Shard;
use crate::gangs;
use crate::group::Group;
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::{Generation, InstanceNumber, RangeSet, Reason, ReasonCode, Timestamp};

/// What keeps the whole shard from starting anything, if so.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hindrance {
    everything: Option<Reason>,
    /// The same for groups with volumes.
    volumes: Option<Reason>,
    /// The same for instances that have not begun.
    starts: Option<Reason>,
    /// Since when nothing is killed, if so.
    pub(crate) kills_off: Option<Timestamp>,
}

impl Shard {
    /// What keeps the whole shard from starting anything at the moment.
    pub(crate) fn hindrance(&self) -> Hindrance {
        if let Some(why) = &self.frozen {
            return Hindrance {
                everything: Some(Reason::new(ReasonCode::StorageRolledBack).at(why)),
                volumes: None,
                starts: None,
                kills_off: self.withheld_since(),
            };
        }
        let code = if self.suspended {
            Some(ReasonCode::StorageUnavailable)
        } else if !self.contact.subscribed {
            Some(ReasonCode::MesosUnavailable)
        } else {
            None
        };
        let no_volumes = (!self.config.reserves).then(|| Reason::new(ReasonCode::NoVolumes));
        Hindrance {
            everything: code.map(Reason::new),
            volumes: no_volumes,
            starts: self.start_hindrance(),
            kills_off: self.withheld_since(),
        }
    }
}

impl Group {
    /// Reasons with how many instances wait for each, and since when.
    pub(crate) fn waiting(
        &mut self,
        generation: Generation,
        hindrance: &Hindrance,
        now: Timestamp,
    ) -> Vec<(Reason, u64, Timestamp)> {
        if let Some(refused) = &self.refused {
            let startable = self.startable.get(&generation).map_or(0, RangeSet::count);
            let n = startable.max(self.n_refused()).max(1);
            return vec![(refused.reason.clone(), n, refused.since)];
        }
        let here = |n: &&InstanceNumber| self.range_of(**n).is_some_and(|r| r.generation == generation);
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let ready = count(self.ready.iter().filter(here).count());
        let (looping, backing_off): (Vec<&InstanceNumber>, Vec<&InstanceNumber>) = self
            .backing_off
            .iter()
            .filter(here)
            .partition(|n| self.crash_looping.contains(n));
        let (by_platform, backing_off): (Vec<&InstanceNumber>, Vec<&InstanceNumber>) =
            backing_off.into_iter().partition(|n| {
                self.record(**n)
                    .is_some_and(InstanceRecord::awaits_platform_retry)
            });
        let example = by_platform.first().and_then(|n| self.record(**n));
        let retry = example.map_or(
            ReasonCode::PlatformRetry.into(),
            InstanceRecord::last_platform_failure,
        );
        let (looping, backing_off) = (count(looping.len()), count(backing_off.len()));
        let by_platform = count(by_platform.len());
        let withheld = count(self.withheld.iter().filter(here).count());
        let crowded = count(self.crowded.iter().filter(here).count());
        let startable = self.startable.get(&generation).map_or(0, RangeSet::count);
        let openings = self.openings(generation, now);
        let held = self.held().remove(&generation).unwrap_or_default();
        let untaken = self.untaken(generation).intersect(&held).count();
        let mut out = vec![
            (Reason::new(ReasonCode::Backoff), backing_off),
            (Reason::new(ReasonCode::CrashLooping), looping),
            (retry, by_platform),
            (Reason::new(ReasonCode::AwaitingGrant), startable - openings),
            (Reason::new(ReasonCode::Moved), untaken),
            (Reason::new(ReasonCode::MassLoss), withheld),
            (Reason::new(ReasonCode::TooManyOlderRuns), crowded),
        ];
        let mut hungry = ready + openings;
        if self.spec.is_none() {
            let unsettled = self.records().filter(|(n, r)| r.unsettled && here(&n));
            let unsettled = count(unsettled.count());
            out.push((Reason::new(ReasonCode::Recovering), hungry + unsettled));
            hungry = 0;
        }
        let of_volumes = hindrance.volumes.as_ref().filter(|_| self.asks_for_volumes());
        if let Some(reason) = hindrance.everything.as_ref().or(of_volumes) {
            out.push((reason.clone(), hungry));
            hungry = 0;
        }
        if let Some(reason) = &hindrance.starts {
            let first = openings
                .saturating_add(self.unbegun_ready(generation))
                .min(hungry);
            out.push((reason.clone(), first));
            hungry -= first;
        }
        if self.gang_waits {
            out.push((gangs::waits(), hungry));
            hungry = 0;
        }
        for (reason, n) in &self.unplaced {
            let n = hungry.min(*n);
            hungry -= n;
            out.push((reason.clone(), n));
        }
        out.push((Reason::new(ReasonCode::AwaitingOffer), hungry));
        out.retain(|(_, n)| *n > 0);
        let mut since = |reason: &Reason| self.waiting_times.note(reason.code, now);
        out.into_iter()
            .map(|(reason, n)| {
                let since = since(&reason);
                (reason, n, since)
            })
            .collect()
    }
}
