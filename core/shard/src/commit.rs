//! Commits: the writes of a lane made from the picture as it is now, at most one commit a lane under way. A block is cloned
//! once a commit, however many of its instances changed.

use crate::event::Effect;
use crate::journal::{Dirt, Lane};
use crate::ops::Outcome;
use crate::own_unread::OwnRow;
use crate::purpose::Purpose;
use crate::refused::GroupRow;
use crate::{Phase, Shard};
use echelon_core_model::Epoch;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::instance::Block;
use echelon_core_model::store::{Batch, Mark, Op, OpId, RawKey, ShardKey, Stamp, Write};
use std::collections::BTreeMap;

/// A batch stays below 1 MiB in every backend: it is cut here, by the upper bounds of its rows, unless one row alone is larger.
const BYTES_A_COMMIT: usize = 768 * 1024;

/// Writes of a commit, with their bytes.
#[derive(Debug, Default)]
struct Filling {
    writes: Vec<Write>,
    bytes: usize,
}

impl Filling {
    /// Whether another write may follow.
    const fn has_room(&self) -> bool {
        self.bytes < BYTES_A_COMMIT
    }

    /// Takes a write, unless it would make the batch too large. The first is always taken.
    fn take(&mut self, write: Write) -> Option<Write> {
        let bytes = self.bytes + write.weight();
        if bytes > BYTES_A_COMMIT && !self.writes.is_empty() {
            self.bytes = BYTES_A_COMMIT;
            return Some(write);
        }
        self.bytes = bytes;
        self.writes.push(write);
        None
    }
}

impl Shard {
    /// Starts every commit that is due.
    pub(crate) fn start_commits(&mut self) {
        while let Some((lane, dirt)) = self.journal.next_due(self.now) {
            let writes = self.writes_of(lane, dirt);
            if writes.is_empty() {
                self.on_committed(lane);
            } else {
                self.commit(lane, writes);
            }
        }
    }

    /// Commits writes of a lane under the next stamp.
    pub(crate) fn commit(&mut self, lane: Lane, writes: Vec<Write>) {
        self.commit_as(Purpose::Commit(lane), writes);
    }

    /// Commits writes under the next stamp.
    pub(crate) fn commit_as(&mut self, purpose: Purpose, writes: Vec<Write>) {
        self.sequence += 1;
        let batch = Batch {
            owner: self.role(),
            stamp: Stamp {
                epoch: self.epoch,
                sequence: self.sequence,
            },
            writes,
        };
        self.ask(Op::Commit(batch), purpose);
    }

    fn writes_of(&mut self, lane: Lane, mut dirt: Dirt) -> Vec<Write> {
        if lane == Lane::OWN {
            return self.own_writes();
        }
        if lane == Lane::HEARTBEAT {
            let mark = self.mark();
            self.marking = mark.map(|mark| mark.stamp);
            let beat = Write::Heartbeat(self.heartbeat());
            return std::iter::once(beat).chain(mark.map(Write::Mark)).collect();
        }
        let mut filling = Filling::default();
        // With or before what they tell of.
        let mut events = std::mem::take(&mut dirt.events).into_iter();
        while filling.has_room()
            && let Some(event) = events.next()
        {
            if let Some(Write::Event(event)) = filling.take(Write::Event(event)) {
                dirt.events.push(event);
            }
        }
        dirt.events.extend(events);
        let mut ready = std::mem::take(&mut dirt.ready).into_iter();
        while filling.has_room()
            && let Some(write) = ready.next()
        {
            dirt.ready.extend(filling.take(write));
        }
        dirt.ready.extend(ready);
        while filling.has_room()
            && let Some(number) = dirt.rows.pop_first()
        {
            if !self.goes_into(lane, number, GroupRow::Slice) {
                continue;
            }
            let row = self.picture.groups.get(&number).map(|g| g.row.clone());
            if row.and_then(|row| filling.take(Write::Slice(row))).is_some() {
                dirt.rows.insert(number);
            }
        }
        while filling.has_room()
            && let Some(at) = dirt.blocks.pop_first()
        {
            if !self.goes_into(lane, at.0, GroupRow::Block(at.1)) {
                continue;
            }
            let block = self.block(at).cloned();
            if block
                .and_then(|block| filling.take(Write::Block(block)))
                .is_some()
            {
                dirt.blocks.insert(at);
            }
        }
        let mut writes = filling.writes;
        if writes.iter().any(|write| matches!(write, Write::Event(_))) {
            writes.push(Write::NoteEvents(lane.0));
        }
        let is_left = !dirt.ready.is_empty()
            || !dirt.rows.is_empty()
            || !dirt.blocks.is_empty()
            || !dirt.events.is_empty();
        if is_left {
            self.journal.put_back(lane, dirt);
        } else if dirt.seal {
            // Not before everything is written back: a seal hides what is not.
            writes.push(Write::Seal(lane.0));
        }
        writes
    }

    /// The rows of our own that have changed since they were last written; all of them, and the seal, in
    /// the first commit of a leadership. Our own row comes last.
    fn own_writes(&mut self) -> Vec<Write> {
        let rows = self.own_unread.rows(&self.own);
        let gone = self.own_stored.keys().filter(|key| !rows.contains_key(*key));
        let gone = gone.map(|key| (key.clone(), None));
        let changed = rows
            .iter()
            .filter(|(key, row)| self.own_stored.get(*key) != Some(*row));
        let changed = changed.map(|(key, row)| (key.clone(), Some(row.clone())));
        let changes: BTreeMap<ShardKey, Option<OwnRow>> = gone.chain(changed).collect();
        let mut filling = Filling::default();
        let mut is_left = false;
        for (key, row) in changes {
            let write = match &row {
                Some(OwnRow::Known(row)) => Write::Shard(key.clone(), (**row).clone()),
                Some(OwnRow::Raw(bytes)) => Write::Raw(RawKey::Shard(key.clone()), bytes.clone()),
                None => Write::RemoveShard(key.clone()),
            };
            is_left = !filling.has_room() || filling.take(write).is_some();
            if is_left {
                break;
            }
            match row {
                Some(row) => self.own_stored.insert(key, row),
                None => self.own_stored.remove(&key),
            };
        }
        if is_left {
            self.journal.put_back(Lane::OWN, Dirt::default());
        } else if !std::mem::replace(&mut self.own_sealed, true) {
            filling.writes.push(Write::SealShard);
        }
        filling.writes
    }

    pub(crate) fn block(&self, (number, block): (u32, u32)) -> Option<&Block> {
        Some(&self.picture.groups.get(&number)?.blocks.get(&block)?.block)
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            cluster: self.config.cluster.clone(),
            epoch: self.epoch,
            at: self.now,
            signs: self.signs(),
            trouble: self.trouble(),
            loss: self.mass_loss(),
            no_manager_since: self.no_manager_since(),
            address: self.config.address.clone(),
        }
    }

    /// How new storage is when the next commit is durable. Where there is one, our own row and the framework id are stored.
    fn mark(&self) -> Option<Mark> {
        let is_stored = self.phase == Phase::Serving && !self.is_frozen();
        is_stored.then(|| Mark {
            stamp: Stamp {
                epoch: self.epoch,
                sequence: self.sequence + 1,
            },
            control: self.known_switches(),
            at: self.now,
            settled: Epoch(0),
        })
    }

    /// The mark is durable: membership, which no backup contains, is told.
    pub(crate) fn tell_mark(&mut self) {
        self.out.extend(self.marking.take().map(Effect::Mark));
    }

    /// Writes the sign of life when it is due.
    pub(crate) fn beat(&mut self) {
        if self.epoch_taken() && self.now >= self.beat_at {
            self.beat_at = self.now.plus(self.config.timing.heartbeat);
            self.journal
                .touch(Lane::HEARTBEAT, self.now, echelon_core_model::time::Span::ZERO);
        }
    }

    /// Asks storage for something; the answer comes back with its purpose.
    pub(crate) fn ask(&mut self, op: Op, purpose: Purpose) -> OpId {
        self.ops.start(op, purpose, self.now, &mut self.out)
    }

    /// Takes an answer of storage in.
    pub(crate) fn on_storage(&mut self, outcome: Outcome<Purpose>) {
        match outcome {
            Outcome::Done {
                purpose,
                since,
                result,
            } => self.on_done(purpose, since, *result),
            Outcome::Again { purpose, trouble } => {
                if matches!(purpose, Purpose::Confirm) {
                    self.suspended = true;
                }
                self.storage_trouble = Some((self.now, trouble));
            }
            Outcome::Refused { purpose, op, refusal } => self.on_op_refused(purpose, *op, &refusal),
            Outcome::Unknown => {}
        }
    }
}
