//! What a watcher was told of a job's events, and which come next.
//!
//! Clocks say nothing here: a watcher goes on from a place in each lane of each writer. Within a lane events
//! become durable in their order, so what lies between that place and the lane's end is all that is missing.
//! The end is read first and the events after it: whatever holds is there by then. An event of a leader that
//! has been replaced is told only once its successor has closed the lane.

use crate::ask;
use crate::error::ApiError;
use crate::port::Facts;
use echelon_core_model::store::{
    Answer, Consistency, Event, EventDay, EventEnd, EventPlace, Query, Role, Stamp, event_day,
};
use echelon_core_model::{ClusterId, Epoch, JobId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Events of one read.
const PAGE: u32 = 1000;
/// Events that one look gathers. Behind more of them a watcher begins again.
pub const MOST_EVENTS: usize = 20_000;
/// Lanes that a token may name.
/// The largest job has 4,000 blocks, each in one bucket of one cluster. The rest is for blocks that moved.
const MOST_LANES: usize = 16_384;
/// How long storage keeps an event, less a day for clocks that are apart.
const KEPT_DAYS: u32 = 29;

/// The events that a writer commits one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventLane {
    /// Who writes them.
    pub writer: Role,
    /// The number of the lane.
    pub lane: u16,
}

/// How far a watcher was told: the last place in each lane, and how long ago all lanes were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// All that was durable then and was to be told is told. It chooses the days that are read: an event is
    /// looked for from the day before, so writers' clocks may be a day behind.
    since: Timestamp,
    places: BTreeMap<EventLane, EventPlace>,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NextEvents {
    /// In the order of each lane; over lanes by the time at which they were written.
    pub events: Vec<(Role, EventPlace, Event)>,
    /// There were more than a watcher is told at once: they are left out, and a list has them.
    pub is_cut: bool,
    /// A lane of a replaced leader is not closed yet, so it may have more: look again.
    pub is_unsure: bool,
}

impl Told {
    /// Nothing was told: the first event is new, from the day before this moment on.
    #[must_use]
    pub const fn nothing(since: Timestamp) -> Self {
        Self {
            since,
            places: BTreeMap::new(),
        }
    }

    /// The same as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = self.since.0.to_string();
        for (of, place) in &self.places {
            let writer = match &of.writer {
                Role::ResourceManager => "r",
                Role::Shard(cluster) => &format!("s{cluster}"),
            };
            out += &format!("\n{} {} {} {writer}", of.lane, place.stamp.packed(), place.index);
        }
        out
    }

    /// What a text says. `None`: it was never made here, such as one of more lanes than a job can have.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let mut told = Self::nothing(Timestamp(lines.next()?.parse().ok()?));
        for line in lines {
            let mut parts = line.splitn(4, ' ');
            let lane = parts.next()?.parse().ok()?;
            let place = EventPlace {
                lane,
                stamp: Stamp::of_packed(parts.next()?.parse().ok()?),
                index: parts.next()?.parse().ok()?,
            };
            let writer = match parts.next()? {
                "r" => Role::ResourceManager,
                shard => Role::Shard(ClusterId::new(shard.strip_prefix('s')?)),
            };
            told.places.insert(EventLane { writer, lane }, place);
            if told.places.len() > MOST_LANES {
                return None;
            }
        }
        Some(told)
    }

    /// Whether storage may have dropped events that were not told.
    #[must_use]
    pub fn is_too_old(&self, now: Timestamp) -> bool {
        event_day(now).saturating_sub(event_day(self.since)) >= KEPT_DAYS
    }

    /// Whether an event was told.
    #[must_use]
    pub fn has(&self, writer: &Role, place: EventPlace) -> bool {
        let of = EventLane {
            writer: writer.clone(),
            lane: place.lane,
        };
        self.places.get(&of).is_some_and(|told| place <= *told)
    }

    /// An event is told.
    pub fn tell(&mut self, writer: &Role, place: EventPlace) {
        let of = EventLane {
            writer: writer.clone(),
            lane: place.lane,
        };
        let told = self.places.entry(of).or_insert(place);
        *told = place.max(*told);
    }

    /// All that holds in a lane is behind the watcher.
    fn skip(&mut self, of: &EventLane, ends: &[EventEnd]) {
        for end in ends {
            let last = EventPlace {
                lane: of.lane,
                stamp: end.stamp,
                index: u32::MAX,
            };
            self.tell(&of.writer, last);
        }
    }

    /// All that was durable by a moment, and was to be told, is told.
    pub fn is_whole_until(&mut self, at: Timestamp) {
        self.since = at.max(self.since);
    }

    /// All that was durable by then is told.
    #[must_use]
    pub const fn since(&self) -> Timestamp {
        self.since
    }

    /// Days in which an event may lie that was not told.
    fn days(&self, now: Timestamp) -> Vec<u32> {
        let (first, last) = (event_day(self.since), event_day(now.max(self.since)));
        let first = first.saturating_sub(1).max(last.saturating_sub(KEPT_DAYS + 1));
        (first..=last.saturating_add(1)).collect()
    }
}

/// Which days of which lanes are read.
pub type LaneDays = BTreeMap<EventLane, BTreeSet<u32>>;

/// The lanes in which a job has events that may be new, with their days: a few small reads for each.
///
/// # Errors
/// Storage.
pub async fn lanes_of<F: Facts>(
    facts: &F,
    job: JobId,
    told: &Told,
    now: Timestamp,
) -> Result<LaneDays, ApiError> {
    let mut out = LaneDays::new();
    for writer in writers(facts, job).await? {
        for day in told.days(now) {
            let of = EventDay {
                job,
                writer: writer.clone(),
                day,
            };
            for lane in lanes_of_day(facts, &of).await? {
                let writer = writer.clone();
                out.entry(EventLane { writer, lane }).or_default().insert(day);
            }
        }
    }
    Ok(out)
}

/// Who may have written events of a job.
pub(crate) async fn writers<F: Facts>(facts: &F, job: JobId) -> Result<Vec<Role>, ApiError> {
    let assignment = ask::assignment(facts, job).await?;
    let ranges = assignment.groups.values().flatten();
    let clusters: BTreeSet<ClusterId> = ranges
        .map(|range| range.cluster.clone())
        .chain(assignment.holders.keys().cloned())
        .collect();
    let shards = clusters.into_iter().map(Role::Shard);
    Ok(std::iter::once(Role::ResourceManager).chain(shards).collect())
}

async fn lanes_of_day<F: Facts>(facts: &F, of: &EventDay) -> Result<Vec<u16>, ApiError> {
    let mut out: Vec<u16> = Vec::new();
    loop {
        let after = out.last().map(|lane| last_of(*lane));
        let query = Query::Events {
            of: of.clone(),
            lane: None,
            after,
            limit: 1,
        };
        match read(facts, query).await?.first() {
            Some((place, _)) => out.push(place.lane),
            None => return Ok(out),
        }
    }
}

/// Behind all events of a lane.
fn last_of(lane: u16) -> EventPlace {
    EventPlace {
        lane,
        stamp: Stamp {
            epoch: Epoch(Epoch::END - 1),
            sequence: (1 << 40) - 1,
        },
        index: u32::MAX,
    }
}

pub(crate) async fn read<F: Facts>(facts: &F, query: Query) -> Result<Vec<(EventPlace, Event)>, ApiError> {
    match ask::read(facts, query, Consistency::Quorum, "the events").await? {
        Answer::Events(rows) => Ok(rows),
        _ => Err(ask::broken_conflict("the events")),
    }
}

/// Up to where the events of a lane hold.
///
/// # Errors
/// Storage.
pub(crate) async fn ends<F: Facts>(facts: &F, of: &EventLane) -> Result<Vec<EventEnd>, ApiError> {
    let what = "up to where events hold";
    let query = Query::EventEnds(of.writer.clone(), of.lane);
    match ask::read(facts, query, Consistency::Quorum, what).await? {
        Answer::EventEnds(ends) => Ok(ends),
        _ => Err(ask::broken_conflict(what)),
    }
}

/// The epoch of a writer's leadership.
async fn epoch<F: Facts>(facts: &F, writer: &Role) -> Result<Epoch, ApiError> {
    let what = "who leads";
    let query = Query::Leadership(writer.clone());
    match ask::read(facts, query, Consistency::Serial, what).await? {
        Answer::Leadership(found) => Ok(found.epoch),
        _ => Err(ask::broken_conflict(what)),
    }
}

/// The ends of some lanes that a watcher may rely on, and whether these are all: the leaderships are read
/// after them.
async fn sure_ends<F: Facts>(
    facts: &F,
    lanes: &LaneDays,
) -> Result<BTreeMap<EventLane, (Vec<EventEnd>, bool)>, ApiError> {
    let mut out = BTreeMap::new();
    for of in lanes.keys() {
        out.insert(of.clone(), (ends(facts, of).await?, true));
    }
    let writers: BTreeSet<&Role> = lanes.keys().map(|of| &of.writer).collect();
    for writer in writers {
        let leader = epoch(facts, writer).await?;
        for (_, (ends, is_sure)) in out.iter_mut().filter(|(of, _)| of.writer == *writer) {
            let all = ends.len();
            ends.retain(|end| end.holds(leader, end.stamp));
            *is_sure = ends.len() == all;
        }
    }
    Ok(out)
}

/// A watcher that begins now is told nothing of what is there.
///
/// # Errors
/// Storage.
pub async fn skip<F: Facts>(facts: &F, job: JobId, told: &mut Told, now: Timestamp) -> Result<(), ApiError> {
    let lanes = lanes_of(facts, job, told, now).await?;
    // Also what a replaced leader has noted and its successor has not closed yet: it is older than the watch.
    for of in lanes.keys() {
        told.skip(of, &ends(facts, of).await?);
    }
    told.since = now;
    Ok(())
}

/// The events of a job in some lanes that were not told yet. They count as told.
///
/// # Errors
/// Storage; then nothing counts as told.
pub async fn next<F: Facts>(
    facts: &F,
    job: JobId,
    told: &mut Told,
    lanes: &LaneDays,
) -> Result<NextEvents, ApiError> {
    let mut out = NextEvents::default();
    let mut ahead = told.clone();
    for (of, (ends, is_sure)) in sure_ends(facts, lanes).await? {
        out.is_unsure |= !is_sure;
        let mut found = Vec::new();
        for day in lanes.get(&of).into_iter().flatten() {
            let room = MOST_EVENTS.saturating_sub(out.events.len() + found.len());
            let of_day = EventDay {
                job,
                writer: of.writer.clone(),
                day: *day,
            };
            let after = told.places.get(&of).copied();
            found.extend(held_of(facts, &of_day, (of.lane, after), &ends, room).await?);
        }
        found.sort_by_key(|(place, _)| *place);
        out.is_cut |= out.events.len() + found.len() > MOST_EVENTS;
        if out.is_cut {
            ahead.skip(&of, &ends);
            continue;
        }
        for (place, event) in found {
            ahead.tell(&of.writer, place);
            out.events.push((of.writer.clone(), place, event));
        }
    }
    if out.is_cut {
        out.events.clear();
    }
    out.events = by_time(out.events);
    *told = ahead;
    Ok(out)
}

/// The events of a lane and a day that hold, after a place: at most one more than there is room for.
async fn held_of<F: Facts>(
    facts: &F,
    of: &EventDay,
    (lane, mut after): (u16, Option<EventPlace>),
    ends: &[EventEnd],
    room: usize,
) -> Result<Vec<(EventPlace, Event)>, ApiError> {
    let mut found = Vec::new();
    while found.len() <= room {
        let query = Query::Events {
            of: of.clone(),
            lane: Some(lane),
            after,
            limit: PAGE,
        };
        let rows = read(facts, query).await?;
        let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
        after = rows.last().map(|(place, _)| *place).or(after);
        found.extend(rows.into_iter().filter(|(place, _)| hold(ends, place.stamp)));
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// Whether an event holds by the ends of its lane.
pub(crate) fn hold(ends: &[EventEnd], stamp: Stamp) -> bool {
    ends.iter().any(|end| end.holds(end.stamp.epoch, stamp))
}

/// Sorted by time, while each lane keeps its order: an event counts as no older than the one before it.
fn by_time(events: Vec<(Role, EventPlace, Event)>) -> Vec<(Role, EventPlace, Event)> {
    let mut latest: BTreeMap<(Role, u16), Timestamp> = BTreeMap::new();
    let mut timed: Vec<(Timestamp, (Role, EventPlace, Event))> = Vec::with_capacity(events.len());
    for found in events {
        let (writer, place, event) = &found;
        let at = latest.entry((writer.clone(), place.lane)).or_insert(event.at);
        *at = event.at.max(*at);
        timed.push((*at, found));
    }
    timed.sort_by_key(|(at, _)| *at);
    timed.into_iter().map(|(_, found)| found).collect()
}

/// All lanes of a job are looked at: what was durable by `now`, and was to be told, is told.
///
/// # Errors
/// Storage; then nothing counts as told.
pub async fn next_of_all<F: Facts>(
    facts: &F,
    job: JobId,
    told: &mut Told,
    now: Timestamp,
) -> Result<NextEvents, ApiError> {
    let lanes = lanes_of(facts, job, told, now).await?;
    let next = next(facts, job, told, &lanes).await?;
    if !next.is_unsure {
        told.is_whole_until(now);
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, commit, commit_events, run, web};
    use echelon_core_model::store::{Decision, Leadership, Op, Write};
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp(10 * 24 * 3600 * 1000);

    fn east() -> Role {
        Role::Shard(ClusterId::new("east"))
    }

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        Stamp {
            epoch: Epoch(epoch),
            sequence,
        }
    }

    /// A job that is at the cluster `east`, whose shard and the resource manager are led at epoch 1.
    fn placed() -> (Memory, JobId) {
        let (mut store, job) = web();
        let mut assignment = echelon_core_model::Assignment::new(job);
        let east_id = ClusterId::new("east");
        assignment.holders.insert(east_id, Default::default());
        store.assignments.insert(job, assignment);
        lead(&mut store, &Role::ResourceManager, 1);
        lead(&mut store, &east(), 1);
        (store, job)
    }

    fn lead(store: &mut Memory, role: &Role, epoch: u64) {
        let decision = Decision::TakeEpoch {
            role: role.clone(),
            next: Leadership::taken(Epoch(epoch), "leader", 1),
            expected: Epoch(epoch - 1),
        };
        store.model.perform(Op::Decide(decision));
    }

    /// What a watcher is told next, by the times of its events.
    fn told_next(store: &mut Memory, job: JobId, told: &mut Told) -> Vec<u64> {
        let mut at = told.clone();
        let (next, at) = run(store, move |facts| async move {
            let next = next_of_all(&facts, job, &mut at, NOW).await.unwrap();
            (next, at)
        });
        *told = at;
        next.events.iter().map(|(_, _, event)| event.at.0).collect()
    }

    /// The recorded trial: the shard's clock was 5 s behind, and what it wrote later was dated earlier.
    #[test]
    fn a_writer_whose_clock_is_behind_loses_nothing() {
        let (mut store, job) = placed();
        let mut told = Told::nothing(NOW);
        commit_events(
            &mut store.model,
            &Role::ResourceManager,
            (1, 1),
            (0, job),
            &[NOW.0],
        );
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0]);
        commit_events(&mut store.model, &east(), (1, 1), (7, job), &[NOW.0 - 5_000]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0 - 5_000]);
        // A later commit is dated before an earlier one, on the day before.
        let yesterday = NOW.0 - 10_000;
        commit_events(&mut store.model, &east(), (1, 2), (7, job), &[yesterday]);
        assert_eq!(told_next(&mut store, job, &mut told), [yesterday]);
        assert_eq!(told_next(&mut store, job, &mut told), Vec::<u64>::new());
    }

    /// Lanes become durable in any order: the number of a commit is no position over all of them.
    #[test]
    fn a_lane_that_is_durable_later_is_not_passed_over() {
        let (mut store, job) = placed();
        let mut told = Told::nothing(NOW);
        commit_events(&mut store.model, &east(), (1, 9), (3, job), &[NOW.0 + 1]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0 + 1]);
        commit_events(&mut store.model, &east(), (1, 8), (200, job), &[NOW.0]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0]);
    }

    /// Events are written before they are noted: what is not noted is not durable, or will never be.
    #[test]
    fn what_is_not_noted_is_not_told_before_it_is() {
        let (mut store, job) = placed();
        let mut told = Told::nothing(NOW);
        commit_events(&mut store.model, &east(), (1, 1), (3, job), &[NOW.0]);
        // A successor seals the bucket before a late write: its note is hidden, its event is there.
        lead(&mut store, &east(), 2);
        commit(
            &mut store.model,
            &east(),
            stamp(2, 1),
            vec![Write::CloseEvents(3, stamp(1, 1)), Write::Seal(3)],
        );
        commit_events(&mut store.model, &east(), (1, 2), (3, job), &[NOW.0 + 1]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0]);
        commit_events(&mut store.model, &east(), (2, 2), (3, job), &[NOW.0 + 2]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0 + 2]);
    }

    /// Between the election and the seal it is not known which events of the deposed leader hold.
    #[test]
    fn while_a_lane_is_not_closed_nothing_of_the_older_leader_is_told() {
        let (mut store, job) = placed();
        let mut told = Told::nothing(NOW);
        commit_events(&mut store.model, &east(), (1, 1), (3, job), &[NOW.0]);
        lead(&mut store, &east(), 2);
        assert_eq!(told_next(&mut store, job, &mut told), Vec::<u64>::new());
        commit(
            &mut store.model,
            &east(),
            stamp(2, 1),
            vec![Write::CloseEvents(3, stamp(1, 1)), Write::Seal(3)],
        );
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0]);
    }

    #[test]
    fn a_watcher_that_begins_is_told_what_comes() {
        let (mut store, job) = placed();
        commit_events(&mut store.model, &east(), (1, 1), (3, job), &[NOW.0]);
        let mut told = run(&mut store, move |facts| async move {
            let mut told = Told::nothing(NOW);
            skip(&facts, job, &mut told, NOW).await.unwrap();
            told
        });
        commit_events(&mut store.model, &east(), (1, 2), (3, job), &[NOW.0 + 1]);
        commit_events(&mut store.model, &east(), (1, 3), (4, job), &[NOW.0 + 2]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0 + 1, NOW.0 + 2]);
    }

    #[test]
    fn a_watcher_that_is_far_behind_begins_again() {
        let (mut store, job) = placed();
        let times = vec![NOW.0; 1_000];
        for sequence in 1..=21 {
            commit_events(&mut store.model, &east(), (1, sequence), (3, job), &times);
        }
        let (next, mut told) = run(&mut store, move |facts| async move {
            let mut told = Told::nothing(NOW);
            let next = next_of_all(&facts, job, &mut told, NOW).await.unwrap();
            (next, told)
        });
        assert!(next.is_cut && next.events.is_empty());
        commit_events(&mut store.model, &east(), (1, 22), (3, job), &[NOW.0 + 1]);
        assert_eq!(told_next(&mut store, job, &mut told), [NOW.0 + 1]);
    }

    proptest! {
        /// Whatever two writers commit in whatever order of their lanes and with whatever clocks: looks in
        /// between tell each event once, and in the order of its lane.
        #[test]
        fn each_event_is_told_once(
            commits in prop::collection::vec((0..4_u16, 0..200_000_u64, 1..3_usize, any::<bool>()), 1..30),
        ) {
            let (mut store, job) = placed();
            let mut told = Told::nothing(NOW);
            let (mut seen, mut written) = (Vec::new(), Vec::new());
            for (sequence, (lane, back, n, look)) in (1..).zip(commits) {
                let times: Vec<u64> = (0..n).map(|_| NOW.0 + 100_000 - back).collect();
                let writer = if lane == 0 { Role::ResourceManager } else { east() };
                commit_events(&mut store.model, &writer, (1, sequence), (lane, job), &times);
                written.extend(times);
                if look {
                    seen.extend(told_next(&mut store, job, &mut told));
                    prop_assert_eq!(Told::of_text(&told.text()), Some(told.clone()));
                }
            }
            seen.extend(told_next(&mut store, job, &mut told));
            seen.sort_unstable();
            written.sort_unstable();
            prop_assert_eq!(seen, written);
        }
    }

    #[test]
    fn texts_of_others_are_refused() {
        for bad in ["", "x", "1\n2 3", "1\n1 2 3 x", "1\n70000 2 3 r", "1\n1 2 3 r\n"] {
            assert_eq!(Told::of_text(bad), None, "{bad}");
        }
        let of_lanes = |n: usize| {
            let lines = (0..n).map(|n| format!("\n{} 2 3 sc{}", n % 256, n / 256));
            Told::of_text(&lines.fold("1".to_owned(), |text, line| text + &line))
        };
        assert!(of_lanes(MOST_LANES).is_some());
        assert_eq!(
            of_lanes(MOST_LANES + 1),
            None,
            "a token that would fill the memory"
        );
    }
}
