//! Commits: the writes of a lane made from the picture as it is now, at most one commit a lane under way. A block is cloned
//! once a commit, however many of its instances changed.

use crate::Shard;
use crate::journal::{Dirt, Lane};
use crate::ops::Outcome;
use crate::purpose::Purpose;
use echelon_core_model::cluster::Heartbeat;
use echelon_core_model::instance::Block;
use echelon_core_model::store::{Batch, Op, OpId, Stamp, Write};

/// A batch stays below 1 MiB in every backend. A record is at most about 1 KiB as stored, the longest messages included.
const RECORDS_A_COMMIT: usize = 768;

impl Shard {
    /// Starts every commit that is due.
    pub(crate) fn start_commits(&mut self) {
        while let Some((lane, dirt)) = self.journal.next_due(self.now) {
            let writes = self.writes_of(lane, dirt);
            if writes.is_empty() {
                self.journal.committed(lane, self.now);
                continue;
            }
            self.sequence += 1;
            let batch = Batch {
                owner: self.role(),
                stamp: Stamp {
                    epoch: self.epoch,
                    sequence: self.sequence,
                },
                writes,
            };
            self.ask(Op::Commit(batch), Purpose::Commit(lane));
        }
    }

    fn writes_of(&mut self, lane: Lane, mut dirt: Dirt) -> Vec<Write> {
        if lane == Lane::OWN {
            return vec![Write::Shard(self.own.clone())];
        }
        if lane == Lane::HEARTBEAT {
            return vec![Write::Heartbeat(self.heartbeat())];
        }
        let mut writes = std::mem::take(&mut dirt.ready);
        let mut records = writes.len() * 256;
        while let Some(number) = dirt.rows.pop_first() {
            let row = self.picture.groups.get(&number).map(|g| g.row.clone());
            writes.extend(row.map(Write::Slice));
            records += 8;
        }
        while records < RECORDS_A_COMMIT
            && let Some(at) = dirt.blocks.pop_first()
        {
            let block = self.block(at).cloned();
            records += block.as_ref().map_or(0, |b| b.instances.len());
            writes.extend(block.map(Write::Block));
        }
        let now = dirt.events.len().min(RECORDS_A_COMMIT);
        writes.extend(dirt.events.drain(..now).map(Write::Event));
        if !dirt.blocks.is_empty() || !dirt.events.is_empty() {
            self.journal.put_back(lane, dirt);
        } else if dirt.seal {
            // Not before everything is written back: a seal hides what is not.
            writes.push(Write::Seal(lane.0));
        }
        writes
    }

    pub(crate) fn block(&self, (number, block): (u32, u32)) -> Option<&Block> {
        Some(&self.picture.groups.get(&number)?.blocks.get(&block)?.block)
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            cluster: self.config.cluster.clone(),
            epoch: self.epoch,
            at: self.now,
            mesos_contact: self.contact.heard_at,
            trouble: self.contact.trouble(),
            loss: self.mass_loss(),
            alone: self.alone_from().filter(|at| self.now >= *at),
            address: self.config.address.clone(),
        }
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
            Outcome::Again { purpose, why } => {
                if matches!(purpose, Purpose::Confirm) {
                    self.suspended = true;
                }
                self.storage_trouble = Some(why);
            }
            Outcome::Unknown => {}
        }
    }
}
