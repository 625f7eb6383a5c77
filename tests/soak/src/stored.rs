//! What is stored, read and written by plain CQL: heads of jobs and blocks of instances, by the names and field numbers
//! that docs and schema give them.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use echelon_tests_judge::StoredJob;

use crate::cql::{Cql, Row, applied, bigint, blob, string};
use crate::wire::Message;

/// Where the federation of a soak keeps its tables.
pub const KEYSPACE: &str = "soak";

/// A tenure's number stands above these bits of a stamp.
const SEQUENCE_BITS: u32 = 40;

/// All heads that there are.
#[derive(Debug, Clone, Default)]
pub struct Heads {
    /// Those that can be read.
    pub jobs: Vec<StoredJob>,
    /// Ids of those that cannot.
    pub unreadable: Vec<String>,
}

/// The row of a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    bucket: i64,
    job: Vec<u8>,
    version: i64,
    value: Vec<u8>,
}

/// The row of a block of instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    cluster: String,
    bucket: i64,
    job: Vec<u8>,
    group: String,
    number: i64,
    /// What is stored.
    pub value: Vec<u8>,
    /// The stamp of its write.
    pub stamp: i64,
}

impl Block {
    /// The job that it is of.
    #[must_use]
    pub fn job(&self) -> &[u8] {
        &self.job
    }

    /// The tenure in which it was written.
    #[must_use]
    pub const fn epoch(&self) -> i64 {
        self.stamp >> SEQUENCE_BITS
    }

    fn key(&self) -> String {
        format!(
            "cluster = '{}' AND bucket = {} AND job = {} AND \"group\" = '{}' AND block = {}",
            self.cluster,
            self.bucket,
            blob(&self.job),
            self.group,
            self.number
        )
    }
}

/// The storage.
#[derive(Debug, Clone)]
pub struct Stored {
    cql: Cql,
}

impl Stored {
    /// The one that these nodes hold.
    #[must_use]
    pub const fn new(nodes: Vec<SocketAddr>) -> Self {
        Self { cql: Cql::new(nodes) }
    }

    /// All heads.
    ///
    /// # Errors
    /// No node answers.
    pub fn heads(&self) -> Result<Heads> {
        let mut heads = Heads::default();
        for row in self.head_rows("")? {
            let id = job_id(&row.job);
            match stored_job(&row) {
                Ok(Some(job)) => heads.jobs.push(job),
                // it only bars its id
                Ok(None) => {}
                Err(_) => heads.unreadable.push(id),
            }
        }
        Ok(heads)
    }

    fn head_rows(&self, which: &str) -> Result<Vec<Head>> {
        let text = format!("SELECT bucket, job, version, value FROM {KEYSPACE}.heads {which}");
        let rows = self.cql.rows(&text)?;
        let head = |row: &Row| {
            Some(Head {
                bucket: bigint(row.first())?,
                job: row.get(1)?.clone()?,
                version: bigint(row.get(2))?,
                value: row.get(3)?.clone()?,
            })
        };
        rows.iter()
            .map(|row| head(row).context("a head without one of its columns"))
            .collect()
    }

    /// The head of the job with this name.
    ///
    /// # Errors
    /// No node answers, or there is none.
    pub fn head(&self, name: &str) -> Result<Head> {
        let rows = self.head_rows("")?;
        let found = rows.into_iter().find(|row| {
            let job = stored_job(row).ok().flatten();
            job.is_some_and(|job| job.job == name)
        });
        found.with_context(|| format!("no head of {name} is stored"))
    }

    /// Writes other bytes into a head, as one that must not change meanwhile.
    ///
    /// # Errors
    /// No node answers, or it has changed.
    pub fn put_head(&self, head: &Head, value: &[u8]) -> Result<()> {
        let text = format!(
            "UPDATE {KEYSPACE}.heads SET value = {} WHERE bucket = {} AND job = {} IF version = {}",
            blob(value),
            head.bucket,
            blob(&head.job),
            head.version
        );
        if !applied(&self.cql.rows(&text)?) {
            bail!("the head of {} changed meanwhile", job_id(&head.job));
        }
        Ok(())
    }

    /// Bytes of a head.
    #[must_use]
    pub fn value(head: &Head) -> &[u8] {
        &head.value
    }

    /// Blocks of a job at a cluster.
    ///
    /// # Errors
    /// No node answers.
    pub fn blocks(&self, cluster: &str, job: &[u8]) -> Result<Vec<Block>> {
        // slice rows stand at the last number
        let text = format!(
            "SELECT cluster, bucket, job, \"group\", block, value, writetime(value) FROM {KEYSPACE}.instances \
             WHERE cluster = '{cluster}' AND job = {} AND block < {} ALLOW FILTERING",
            blob(job),
            u32::MAX
        );
        let rows = self.cql.rows(&text)?;
        let block = |row: &Row| {
            Some(Block {
                cluster: string(row.first())?,
                bucket: bigint(row.get(1))?,
                job: row.get(2)?.clone()?,
                group: string(row.get(3))?,
                number: bigint(row.get(4))?,
                value: row.get(5)?.clone()?,
                stamp: bigint(row.get(6))?,
            })
        };
        rows.iter()
            .map(|row| block(row).context("a block without one of its columns"))
            .collect()
    }

    /// Writes other bytes into a block, as the last write of the tenure that wrote it: the next leader reads them.
    ///
    /// # Errors
    /// No node answers, or other bytes are there after it.
    pub fn put_block(&self, block: &Block, value: &[u8]) -> Result<()> {
        let stamp = block.stamp + 1;
        let text = format!(
            "UPDATE {KEYSPACE}.instances USING TIMESTAMP {stamp} SET value = {} WHERE {}",
            blob(value),
            block.key()
        );
        self.cql.rows(&text)?;
        let there = self.again(block)?;
        if there.value != value {
            bail!("a block of {} changed meanwhile", job_id(&block.job));
        }
        Ok(())
    }

    /// The same block as it is now.
    ///
    /// # Errors
    /// No node answers, or it is gone.
    pub fn again(&self, block: &Block) -> Result<Block> {
        let all = self.blocks(&block.cluster, &block.job)?;
        let same = |other: &Block| other.number == block.number && other.group == block.group;
        let found = all.into_iter().find(same);
        found.with_context(|| format!("a block of {} is gone", job_id(&block.job)))
    }

    /// The id of the cluster with this name.
    ///
    /// # Errors
    /// No node answers, or there is none.
    pub fn cluster(&self, name: &str) -> Result<String> {
        let rows = self
            .cql
            .rows(&format!("SELECT id, value FROM {KEYSPACE}.clusters"))?;
        for row in rows {
            let value = row.get(1).cloned().flatten().unwrap_or_default();
            // Cluster.name
            if Message::read(&value)?.text(2) == name {
                return string(row.first()).context("a cluster without an id");
            }
        }
        bail!("no cluster {name} is stored")
    }
}

/// The id of a job as its row has it.
#[must_use]
pub fn id_of(head: &Head) -> &[u8] {
    &head.job
}

/// A head as the judge needs it; none when it only bars its id.
fn stored_job(row: &Head) -> Result<Option<StoredJob>> {
    // Head: 1 job, 2 version, 3 void, 4 goal, 6 name
    let head = Message::read(&row.value)?;
    if head.all(1).last().copied() != Some(row.job.as_slice()) {
        bail!("a head of another job than its key says");
    }
    if head.number(3) != 0 {
        return Ok(None);
    }
    // Goal: 1 desired
    let desired = match head.message(4)?.number(1) {
        1 => "RUNNING",
        2 => "STOPPED",
        3 => "DELETED",
        number => bail!("the goal {number}"),
    };
    Ok(Some(StoredJob {
        job: head.text(6),
        id: job_id(&row.job),
        version: head.number(2),
        desired: desired.to_owned(),
    }))
}

/// 16 bytes as the API writes the id of a job: 26 digits of Crockford's base 32.
#[must_use]
pub fn job_id(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let number = bytes
        .iter()
        .fold(0u128, |number, byte| number << 8 | u128::from(*byte));
    let digit = |place: u32| {
        let digit = usize::try_from(number >> (5 * place) & 31).unwrap_or(0);
        DIGITS.get(digit).map_or('?', |digit| char::from(*digit))
    };
    (0..26).rev().map(digit).collect()
}

/// Reasons of the latest runs of a block by their instances' numbers.
///
/// # Errors
/// The bytes are no block.
pub fn reasons(block: &[u8]) -> Result<Vec<(u64, u64)>> {
    // Block: 6 instances; InstanceRecord: 1 number, 3 run; Run: 5 reason; Reason: 1 code
    let block = Message::read(block)?;
    let mut found = Vec::new();
    for record in block.all(6) {
        let record = Message::read(record)?;
        let code = record.message(3)?.message(5)?.number(1);
        found.push((record.number(1), code));
    }
    Ok(found)
}

/// A block in which the latest run of every instance has this reason.
///
/// # Errors
/// The bytes are no block, or one without a run.
pub fn with_reason(block: &[u8], code: u64) -> Result<Vec<u8>> {
    use crate::wire::Value;
    let mut block = Message::read(block)?;
    let mut n_changed = 0;
    for (field, value) in &mut block.fields {
        let Value::Bytes(bytes) = value else { continue };
        if *field != 6 {
            continue;
        }
        let mut record = Message::read(bytes)?;
        if record.all(3).is_empty() {
            continue;
        }
        let mut run = record.message(3)?;
        let mut reason = run.message(5)?;
        reason.set_number(1, code);
        run.set_message(5, &reason);
        record.set_message(3, &run);
        *bytes = record.bytes();
        n_changed += 1;
    }
    if n_changed == 0 {
        bail!("a block without a run");
    }
    Ok(block.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Value;

    fn message(fields: Vec<(u64, Value)>) -> Message {
        Message { fields }
    }

    fn row(job: u8, value: &Message) -> Head {
        Head {
            bucket: 3,
            job: vec![job; 16],
            version: 4,
            value: value.bytes(),
        }
    }

    #[test]
    fn a_head_is_read_by_its_field_numbers() {
        let goal = message(vec![(1, Value::Number(2))]);
        let mut head = message(vec![
            (1, Value::Bytes(vec![1; 16])),
            (2, Value::Number(4)),
            (4, Value::Bytes(goal.bytes())),
            (6, Value::Bytes(b"batch-7".to_vec())),
        ]);
        let read = stored_job(&row(1, &head)).unwrap().unwrap();
        assert_eq!(
            (read.job.as_str(), read.version, read.desired.as_str()),
            ("batch-7", 4, "STOPPED")
        );
        assert!(stored_job(&row(2, &head)).is_err());
        head.set_number(3, 1);
        assert_eq!(stored_job(&row(1, &head)).unwrap(), None);
    }

    #[test]
    fn an_id_is_written_as_the_api_writes_it() {
        assert_eq!(job_id(&[0; 16]), "0".repeat(26));
        assert_eq!(job_id(&[0xff; 16]), format!("7{}", "z".repeat(25)));
        assert_eq!(job_id(&33u128.to_be_bytes()), format!("{}11", "0".repeat(24)));
    }

    #[test]
    fn the_reason_of_each_run_is_changed_and_nothing_else() {
        let reason = message(vec![(1, Value::Number(60)), (3, Value::Bytes(b"why".to_vec()))]);
        let run = message(vec![
            (2, Value::Number(1)),
            (5, Value::Bytes(reason.bytes())),
            (3, Value::Number(5)),
        ]);
        let record = |number: u64, run: Option<&Message>| {
            let mut record = message(vec![(1, Value::Number(number))]);
            if let Some(run) = run {
                record.set_message(3, run);
            }
            (6, Value::Bytes(record.bytes()))
        };
        let block = message(vec![
            (2, Value::Bytes(b"main".to_vec())),
            record(4, Some(&run)),
            record(5, None),
        ]);
        let changed = with_reason(&block.bytes(), 60_000).unwrap();
        assert_eq!(reasons(&changed).unwrap(), [(4, 60_000), (5, 0)]);
        let back = with_reason(&changed, 60).unwrap();
        assert_eq!(reasons(&back).unwrap(), [(4, 60), (5, 0)]);
        let kept = Message::read(&back).unwrap();
        assert_eq!(kept.text(2), "main");
        assert!(with_reason(&message(vec![record(5, None)]).bytes(), 60_000).is_err());
    }
}
