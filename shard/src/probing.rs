//! Whether this process reaches its Mesos, asked again and again, also while it stands by: one that cannot should not
//! lead. A leader learns by it that its master hangs.

use echelon_core_shard::ProbeAnswer;
use echelon_io_mesos::{MasterAnswer, Probe};
use echelon_io_process::Shutdown;
use std::time::Duration;
use tokio::sync::mpsc;

/// Between an answer, or a question without one, and the next question. With three seconds for an answer a master that
/// hangs misses two of them within ten seconds.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// What came of one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeReport {
    /// Whether any master has answered: there is a way to Mesos.
    pub(crate) is_reached: bool,
    /// Whether the leading one has.
    pub(crate) answer: ProbeAnswer,
}

/// Asks until the shutdown begins, and tells what came of each question.
pub(crate) fn begin(probe: Probe, shutdown: &Shutdown) -> mpsc::Receiver<ProbeReport> {
    let (tell, told) = mpsc::channel(1);
    let stop = shutdown.token();
    shutdown.spawn(async move {
        stop.run_until_cancelled(ask(probe, tell)).await;
    });
    told
}

async fn ask(mut probe: Probe, tell: mpsc::Sender<ProbeReport>) {
    let mut was_reached = true;
    loop {
        let answer = probe.ask().await;
        match (&answer, was_reached) {
            (Ok(_), false) => tracing::info!("Mesos is reached again"),
            (Err(why), true) => tracing::warn!(%why, "no master of Mesos is reached"),
            _ => {}
        }
        was_reached = answer.is_ok();
        let probed = ProbeReport {
            is_reached: answer.is_ok(),
            answer: match answer {
                Ok(MasterAnswer::Leading) => ProbeAnswer::Answered,
                Ok(MasterAnswer::NotLeading) | Err(_) => ProbeAnswer::Missing,
            },
        };
        if tell.send(probed).await.is_err() {
            return;
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
