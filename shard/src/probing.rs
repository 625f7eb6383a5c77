//! Whether this process reaches its Mesos, asked again and again, also while it stands by: who cannot should not lead.

use echelon_io_mesos::Probe;
use echelon_io_process::Shutdown;
use std::time::Duration;
use tokio::sync::mpsc;

/// Several questions fit into the time after which a leader without contact gives way.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// Asks until the shutdown begins; each answer of a master is told.
pub(crate) fn begin(probe: Probe, shutdown: &Shutdown) -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel(1);
    let stop = shutdown.token();
    shutdown.spawn(async move {
        stop.run_until_cancelled(ask(probe, tell)).await;
    });
    told
}

async fn ask(mut probe: Probe, tell: mpsc::Sender<()>) {
    let mut reached = true;
    loop {
        match probe.ask().await {
            Ok(()) => {
                if !std::mem::replace(&mut reached, true) {
                    tracing::info!("Mesos is reached again");
                }
                if tell.send(()).await.is_err() {
                    return;
                }
            }
            Err(why) => {
                if std::mem::replace(&mut reached, false) {
                    tracing::warn!(%why, "no master of Mesos is reached");
                }
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}
