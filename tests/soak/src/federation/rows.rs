//! Rows that are written by hand: while no process of a cluster's shard runs, so that the next leader is the first that reads them.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use echelon_tests::http;
use echelon_tests_judge::Event;
use serde_json::Value;

use super::Federation;
use crate::client::{list_of, text};
use crate::cql::blob;
use crate::expect::expect;
use crate::stored::{Block, Head, Stored, id_of, reasons, with_reason};
use crate::world::{Target, World};

/// A reason's number that no build has.
const UNKNOWN: u64 = 60_000;

/// No message begins like that.
const GARBAGE: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0x07];

/// What the API says of a row that cannot be read.
const ROW_UNREAD: &str = "ROW_UNREAD";

/// A row before it was written by hand.
pub(super) enum Written {
    Block { of: String, good: Block },
    Head { of: String, good: Head },
}

impl Federation {
    fn stored(&self) -> Stored {
        Stored::new(self.cassandra.addresses())
    }

    /// Both processes of a shard's cluster.
    fn shards_of(target: &Target) -> Result<[String; 2]> {
        let cluster = target.cluster.as_deref().context("no cluster is hit")?;
        Ok([1, 2].map(|number| format!("shard-{cluster}-{number}")))
    }

    fn kill_all(&mut self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| self.server(name)?.kill())
    }

    /// Starts processes again, side by side, and waits until they are ready.
    fn start_all(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            self.server(name)?.start_again()?;
        }
        for name in names {
            let process = self.processes.get_mut(name);
            process
                .with_context(|| format!("no process {name}"))?
                .wait_until_ready()?;
        }
        Ok(())
    }

    /// The service of a turn that has a block with runs at the cluster: its name and the block.
    fn service_at(&self, cluster: &str, turn: u32) -> Result<(String, Block)> {
        let stored = self.stored();
        let id = stored.cluster(cluster)?;
        for place in 0..4 {
            let name = format!("service-{}", (turn + place) % 4);
            let head = stored.head(&name)?;
            for block in stored.blocks(&id, id_of(&head))? {
                if reasons(&block.value)?.iter().any(|(_, code)| *code > 0) {
                    return Ok((name, block));
                }
            }
        }
        bail!("no service has stored runs at {cluster}")
    }

    fn expect(&self, what: &str, look: impl FnMut() -> Result<(bool, String)>) -> Result<()> {
        expect(&self.recorder, what, look)
    }

    /// Writes a reason that no build knows into stored runs, and has the shard's next leader read it.
    pub(super) fn write_unknown_codes(&mut self, target: &Target) -> Result<()> {
        let shards = Self::shards_of(target)?;
        let cluster = target.cluster.clone().unwrap_or_default();
        self.kill_all(&shards)?;
        let (of, good) = self.service_at(&cluster, self.turn / 2)?;
        let bad = with_reason(&good.value, UNKNOWN)?;
        self.stored().put_block(&good, &bad)?;
        println!("             reason {UNKNOWN} in a block of {of} at {cluster}");
        self.written.push(Written::Block { of, good });
        self.start_all(&shards)
    }

    /// Looks whether these runs are still there, shown, and kept by the new leader.
    pub(super) fn check_unknown_codes(&mut self, target: &Target) -> Result<()> {
        let cluster = target.cluster.clone().unwrap_or_default();
        for written in std::mem::take(&mut self.written) {
            let Written::Block { of, good } = written else {
                continue;
            };
            let stored = self.stored();
            let n_runs = reasons(&good.value)?.iter().filter(|(_, code)| *code > 0).count();
            let what = format!("a new leader has written the block of {of} again, with the unknown reason");
            self.expect(&what, || {
                let now = stored.again(&good)?;
                let codes = reasons(&now.value)?;
                let n_kept = codes.iter().filter(|(_, code)| *code == UNKNOWN).count();
                let seen = format!(
                    "epoch {} after {}, {n_kept} of {n_runs} runs",
                    now.epoch(),
                    good.epoch()
                );
                Ok((now.epoch() > good.epoch() && n_kept == n_runs, seen))
            })?;
            let gateway = self.gateways();
            let what = format!("instances of {of} at {cluster} are shown with the number {UNKNOWN}");
            self.expect(&what, || {
                let (status, body) = http::get(one(&gateway)?, &format!("/v1/jobs/{of}/instances"))?;
                let answer: Value = serde_json::from_str(&body)?;
                let is_shown = |instance: &Value| {
                    let run = instance.get("run").unwrap_or(instance);
                    [instance, run].iter().any(|at| {
                        at.get("reason")
                            .and_then(|reason| reason.get("number"))
                            .and_then(Value::as_u64)
                            == Some(UNKNOWN)
                    })
                };
                let mut all = list_of(&answer, "instances");
                all.retain(|instance| text(instance, "cluster") == cluster);
                let n_shown = all.iter().filter(|instance| is_shown(instance)).count();
                let seen = format!("{status}, {n_shown} of {} instances", all.len());
                Ok((n_shown == n_runs, seen))
            })?;
        }
        Ok(())
    }

    /// Writes bytes that nothing can read into a block of one service and the head of another, and has a new
    /// leader of the shard and one of the resource managers read them.
    pub(super) fn write_unreadable_rows(&mut self, target: &Target) -> Result<()> {
        let shards = Self::shards_of(target)?;
        let cluster = target.cluster.clone().unwrap_or_default();
        self.kill_all(&shards)?;
        self.read_from = self.logs_of(&shards)?;
        let (of, good) = self.service_at(&cluster, self.turn / 2)?;
        self.spoils(&of, "instances")?;
        self.stored().put_block(&good, &GARBAGE)?;
        let mut other = self.service_at(&cluster, self.turn / 2 + 1)?.0;
        if other == of {
            other = self.service_at(&cluster, self.turn / 2 + 2)?.0;
        }
        let head = self.stored().head(&other)?;
        self.spoils(&other, "heads")?;
        self.stored().put_head(&head, &GARBAGE)?;
        println!(
            "             bytes without meaning in a block of {of} and the head of {other} at {cluster}"
        );
        self.written.push(Written::Block { of, good });
        self.written.push(Written::Head {
            of: other,
            good: head,
        });
        let manager = self.leader("manager")?;
        self.server(&manager)?.kill()?;
        self.start_all(&[&shards[..], &[manager]].concat())
    }

    /// Logs of processes, and how long they are now.
    fn logs_of(&mut self, names: &[String]) -> Result<Vec<(PathBuf, usize)>> {
        let mut logs = Vec::new();
        for name in names {
            let log = self.server(name)?.log().to_owned();
            let length = usize::try_from(fs::metadata(&log)?.len())?;
            logs.push((log, length));
        }
        Ok(logs)
    }

    fn spoils(&self, job: &str, table: &str) -> Result<()> {
        let (job, table) = (job.to_owned(), table.to_owned());
        self.recorder.tell(Event::SpoilsRow { job, table }).map(|_| ())
    }

    /// Looks whether rows that cannot be read were told and kept, and puts the good ones back.
    pub(super) fn put_rows_back(&mut self, target: &Target) -> Result<()> {
        let shards = Self::shards_of(target)?;
        let (stored, gateways) = (self.stored(), self.gateways());
        let written = std::mem::take(&mut self.written);
        let logs = std::mem::take(&mut self.read_from);
        for row in &written {
            let (of, table, id) = match row {
                Written::Block { of, good } => (of, "instances", good.job()),
                Written::Head { of, good } => (of, "heads", id_of(good)),
            };
            // as the product writes keys for people
            let id = blob(id).trim_start_matches("0x").to_owned();
            self.expect(&format!("the shard's log names the row of {of}"), || {
                let told = |line: &&str| {
                    line.contains(&format!("of table {table} cannot be read")) && line.contains(&id)
                };
                for (log, from) in &logs {
                    let text = fs::read_to_string(log)?;
                    let text = text.get(*from..).unwrap_or_default();
                    if let Some(line) = text.lines().rev().find(told) {
                        return Ok((true, line.to_owned()));
                    }
                }
                Ok((false, format!("no line about {id}")))
            })?;
            match row {
                Written::Block { good, .. } => {
                    self.expect(
                        &format!("a new leader has kept the bytes of the block of {of}"),
                        || {
                            let now = stored.again(good)?;
                            let seen =
                                format!("{:?} of epoch {} after {}", now.value, now.epoch(), good.epoch());
                            Ok((now.value == GARBAGE && now.epoch() > good.epoch(), seen))
                        },
                    )?;
                    self.expect(&format!("{of} is shown with {ROW_UNREAD}"), || {
                        let (status, body) = http::get(one(&gateways)?, &format!("/v1/jobs/{of}"))?;
                        Ok((status == 200 && body.contains(ROW_UNREAD), body))
                    })?;
                }
                Written::Head { .. } => {
                    self.expect(
                        &format!("a question for {of} is refused with {ROW_UNREAD}"),
                        || {
                            let (status, body) = http::get(one(&gateways)?, &format!("/v1/jobs/{of}"))?;
                            Ok((status != 200 && body.contains(ROW_UNREAD), body))
                        },
                    )?;
                }
            }
        }
        self.kill_all(&shards)?;
        for row in &written {
            match row {
                Written::Block { good, .. } => stored.put_block(&stored.again(good)?, &good.value)?,
                Written::Head { good, .. } => stored.put_head(good, Stored::value(good))?,
            }
        }
        let manager = self.leader("manager")?;
        self.server(&manager)?.kill()?;
        self.start_all(&[&shards[..], &[manager]].concat())?;
        for row in written {
            let (Written::Block { of, .. } | Written::Head { of, .. }) = row;
            self.expect(&format!("{of} is shown whole again"), || {
                let (status, body) = http::get(one(&gateways)?, &format!("/v1/jobs/{of}"))?;
                let is_whole = status == 200 && !body.contains(ROW_UNREAD);
                Ok((is_whole, body))
            })?;
            self.recorder.tell(Event::RowBack { job: of })?;
        }
        Ok(())
    }
}

fn one(gateways: &[SocketAddr]) -> Result<SocketAddr> {
    gateways.first().copied().context("there is no gateway")
}
