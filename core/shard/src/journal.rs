//! The order of durability. What changed in the picture is gathered a lane (a bucket of blocks, or one of three rows of our
//! own), committed with at most one commit a lane under way, and what must not happen before it is durable waits here.
//!
//! The journal does not know what is written; `commit.rs` makes the writes from the picture.

use crate::effects::Then;
use crate::refused::GroupRow;
use echelon_core_model::Timestamp;
use echelon_core_model::bucket::BLOCK_BUCKETS;
use echelon_core_model::store::{Event, Write};
use echelon_core_model::time::Span;
use std::collections::{BTreeMap, BTreeSet};

/// A bucket of blocks (below 256), or one of our own rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lane(pub(crate) u16);

/// With each so many lanes that have something to commit, changes are gathered once as long again.
const BUSY_LANES: u64 = 16;
/// At most this many times as long: 25 ms with the usual 5.
const MOST_STRETCHED: u64 = 5;

impl Lane {
    /// What the shard remembers of itself.
    pub(crate) const OWN: Self = Self(BLOCK_BUCKETS);
    /// The sign of life.
    pub(crate) const HEARTBEAT: Self = Self(BLOCK_BUCKETS + 1);
    /// Rows of hosts.
    pub(crate) const HOSTS: Self = Self(BLOCK_BUCKETS + 2);
}

/// Group number in the picture and block number.
pub(crate) type BlockAt = (u32, u32);

/// What changed in a lane since its last commit.
#[derive(Debug, Default)]
pub(crate) struct Dirt {
    /// Blocks to write whole.
    pub(crate) blocks: BTreeSet<BlockAt>,
    /// Slice rows to write whole, by group.
    pub(crate) rows: BTreeSet<u32>,
    /// What happened.
    pub(crate) events: Vec<Event>,
    /// Writes that are known already: hosts, moves to the archive.
    pub(crate) ready: Vec<Write>,
    /// The bucket is to be sealed, as soon as all that was read of it is written back.
    pub(crate) seal: bool,
}

#[derive(Debug, Default)]
struct Of {
    written: u64,
    durable: u64,
    dirt: Dirt,
    flush_at: Option<Timestamp>,
    /// Version and start of the commit under way.
    flight: Option<(u64, Timestamp)>,
    /// How long changes are gathered.
    delay: Span,
    waits: BTreeMap<u64, Vec<u64>>,
}

/// A point in the order of a lane: durable when the lane's durable version has reached it.
pub(crate) type Point = (Lane, u64);

/// All lanes.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    lanes: BTreeMap<Lane, Of>,
    waiting: BTreeMap<u64, (usize, Then)>,
    last_wait: u64,
    flush: BTreeSet<(Timestamp, Lane)>,
    flying: BTreeSet<(Timestamp, Lane)>,
    ready: Vec<Then>,
}

impl Journal {
    /// Notes a change in a lane, to be committed after `delay`; while many lanes are busy some times later, since a block is
    /// written whole however little of it has changed.
    pub(crate) fn touch(&mut self, lane: Lane, now: Timestamp, delay: Span) -> &mut Dirt {
        let delay = self.stretched(delay);
        let of = self.lanes.entry(lane).or_default();
        of.written += 1;
        of.delay = delay;
        if of.flush_at.is_none() && of.flight.is_none() {
            let at = now.plus(delay);
            of.flush_at = Some(at);
            self.flush.insert((at, lane));
        }
        &mut of.dirt
    }

    fn stretched(&self, delay: Span) -> Span {
        let busy = u64::try_from(self.flush.len() + self.flying.len()).unwrap_or(u64::MAX);
        Span(
            delay
                .0
                .saturating_mul((1 + busy / BUSY_LANES).min(MOST_STRETCHED)),
        )
    }

    /// Where the lane stands now: what is written so far.
    pub(crate) fn point(&self, lane: Lane) -> Point {
        (lane, self.lanes.get(&lane).map_or(0, |of| of.written))
    }

    /// Whether everything up to the point is durable.
    pub(crate) fn is_durable(&self, (lane, version): Point) -> bool {
        self.lanes.get(&lane).is_none_or(|of| of.durable >= version)
    }

    /// Does `then` as soon as all points are durable; at once if they are.
    pub(crate) fn when_durable(&mut self, points: impl IntoIterator<Item = Point>, then: Then) {
        let points: BTreeSet<Point> = points.into_iter().filter(|p| !self.is_durable(*p)).collect();
        if points.is_empty() {
            self.ready.push(then);
            return;
        }
        self.last_wait += 1;
        let id = self.last_wait;
        for (lane, version) in &points {
            let of = self.lanes.entry(*lane).or_default();
            of.waits.entry(*version).or_default().push(id);
        }
        self.waiting.insert(id, (points.len(), then));
    }

    /// What may be done now, in the order in which it became so.
    pub(crate) fn take_ready(&mut self) -> Vec<Then> {
        std::mem::take(&mut self.ready)
    }

    /// The next lane whose commit is due, with what to write in it. The caller starts the commit at once.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<(Lane, Dirt)> {
        let (at, lane) = self.flush.first().copied().filter(|(at, _)| *at <= now)?;
        self.flush.remove(&(at, lane));
        let of = self.lanes.get_mut(&lane)?;
        of.flush_at = None;
        of.flight = Some((of.written, now));
        self.flying.insert((now, lane));
        Some((lane, std::mem::take(&mut of.dirt)))
    }

    /// Gives back what did not fit into the commit that is under way: nothing is durable before it is written too.
    pub(crate) fn put_back(&mut self, lane: Lane, rest: Dirt) {
        if let Some(of) = self.lanes.get_mut(&lane) {
            let durable = of.durable;
            if let Some((version, _)) = &mut of.flight {
                *version = durable;
            }
            of.dirt.blocks.extend(rest.blocks);
            of.dirt.rows.extend(rest.rows);
            of.dirt.ready.extend(rest.ready);
            of.dirt.seal |= rest.seal;
            of.dirt.events.splice(0..0, rest.events);
        }
    }

    /// The commit under way was refused: its lane is committed again at a moment, with what the commit would have written.
    pub(crate) fn postpone(&mut self, lane: Lane, at: Timestamp, writes: Vec<Write>) {
        let Some(of) = self.lanes.get_mut(&lane) else {
            return;
        };
        let (seals, rest): (Vec<Write>, Vec<Write>) =
            writes.into_iter().partition(|w| matches!(w, Write::Seal(_)));
        of.dirt.seal |= !seals.is_empty();
        // The next commit notes what it has itself.
        let rest = rest.into_iter().filter(|w| !matches!(w, Write::NoteEvents(_)));
        of.dirt.ready.splice(0..0, rest);
        if let Some((_, since)) = of.flight.take() {
            self.flying.remove(&(since, lane));
            of.flush_at = Some(at);
            self.flush.insert((at, lane));
        }
    }

    /// Whether a row of a group has changed again since the commit under way was made.
    pub(crate) fn is_dirty(&self, lane: Lane, group: u32, row: GroupRow) -> bool {
        self.lanes.get(&lane).is_some_and(|of| match row {
            GroupRow::Block(block) => of.dirt.blocks.contains(&(group, block)),
            GroupRow::Slice => of.dirt.rows.contains(&group),
        })
    }

    /// Every lane that is not durable as far as it is written, with where it stands.
    pub(crate) fn open_points(&self) -> Vec<Point> {
        let facts = self.lanes.range(..=Lane::OWN);
        let open = facts.filter(|(_, of)| of.durable < of.written);
        open.map(|(lane, of)| (*lane, of.written)).collect()
    }

    /// The commit under way in a lane is durable.
    pub(crate) fn committed(&mut self, lane: Lane, now: Timestamp) {
        let Some(of) = self.lanes.get_mut(&lane) else {
            return;
        };
        let Some((version, since)) = of.flight.take() else {
            return;
        };
        self.flying.remove(&(since, lane));
        of.durable = version;
        let later = of.waits.split_off(&(version + 1));
        let woken = std::mem::replace(&mut of.waits, later);
        if of.written > of.durable {
            let at = since.plus(of.delay).max(now);
            of.flush_at = Some(at);
            self.flush.insert((at, lane));
        }
        for id in woken.into_values().flatten() {
            self.wake(id);
        }
    }

    fn wake(&mut self, id: u64) {
        let Some((missing, _)) = self.waiting.get_mut(&id) else {
            return;
        };
        *missing -= 1;
        if *missing == 0
            && let Some((_, then)) = self.waiting.remove(&id)
        {
            self.ready.push(then);
        }
    }

    /// When the next commit is to start.
    pub(crate) fn next_flush(&self) -> Option<Timestamp> {
        self.flush.first().map(|(at, _)| *at)
    }

    /// Since when the oldest commit has been under way.
    pub(crate) fn oldest_flight(&self) -> Option<Timestamp> {
        self.flying.first().map(|(since, _)| *since)
    }

    /// Counts the commits under way from now on: what was in doubt meanwhile was not performed, or its answer was held.
    pub(crate) fn restart_flights(&mut self, now: Timestamp) {
        let lanes: Vec<Lane> = std::mem::take(&mut self.flying)
            .into_iter()
            .map(|(_, lane)| lane)
            .collect();
        for lane in lanes {
            if let Some((_, since)) = self.lanes.get_mut(&lane).and_then(|of| of.flight.as_mut()) {
                *since = now;
                self.flying.insert((now, lane));
            }
        }
    }

    /// What is wrong with the counters; empty when nothing is.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (lane, of) in &self.lanes {
            if of.durable > of.written {
                out.push(format!(
                    "lane {}: durable {} beyond written {}",
                    lane.0, of.durable, of.written
                ));
            }
            if of.waits.keys().any(|v| *v <= of.durable) {
                out.push(format!("lane {}: something waits for what is durable", lane.0));
            }
            if of.written > of.durable && of.flush_at.is_none() && of.flight.is_none() {
                out.push(format!("lane {}: written, but no commit is due", lane.0));
            }
        }
        out
    }
}
