//! A new leader of the resource managers over the same storage, until it has read everything. No shard is there.

use crate::bench::{DEADLINE, wall_ms};
use anyhow::{Result, bail};
use echelon_cli::output;
use echelon_core_model::Timestamp;
use echelon_core_model::store::Stamp;
use echelon_core_resource_manager::{Config, Effect, Event, ResourceManager};
use echelon_io_storage::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How a takeover went.
#[derive(Debug, Clone, Copy)]
pub(super) struct Takeover {
    /// Until it led.
    pub(super) took: Duration,
    /// Jobs that it holds in memory.
    pub(super) jobs: usize,
    /// Jobs of which it keeps only that they have ended.
    pub(super) ended: usize,
}

/// Has one take the leadership over.
pub(super) async fn take_over(store: Arc<dyn Store>) -> Result<Takeover> {
    let began = Instant::now();
    let (inbox, mut inputs) = mpsc::unbounded_channel();
    let mut manager = ResourceManager::new(Config::new("bench", 1));
    let mut events = vec![Event::Elected {
        published: Stamp::default(),
    }];
    loop {
        let (now, mut effects) = (Timestamp(wall_ms()), Vec::new());
        for event in events.drain(..) {
            manager.step(event, now, &mut effects);
        }
        if manager.leading().is_some() {
            let facts = &manager.picture().facts;
            return Ok(Takeover {
                took: began.elapsed(),
                jobs: facts.jobs.len(),
                ended: facts.ended.len(),
            });
        }
        for effect in effects {
            match effect {
                Effect::Storage(id, op) => {
                    let (store, inbox) = (Arc::clone(&store), inbox.clone());
                    tokio::spawn(async move {
                        // The loop is gone only when the measurement ends.
                        drop(inbox.send(Event::Storage(id, store.perform(op).await)));
                    });
                }
                Effect::StepDown { why } => bail!("the resource manager gave up: {why}"),
                Effect::Alarm(alarm) => output::remark(&alarm),
                _ => {}
            }
        }
        if began.elapsed() > DEADLINE {
            bail!("no resource manager leads within {} s", DEADLINE.as_secs());
        }
        let wake = manager.next_wake().unwrap_or(now);
        tokio::select! {
            _ = inputs.recv_many(&mut events, 64) => {}
            () = tokio::time::sleep(Duration::from_millis(wake.since(now).0.max(1))) => events.push(Event::Wake),
        }
    }
}
