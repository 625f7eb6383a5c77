//! The end of a process: the first signal asks its tasks to end within a grace, the second ends it at once.
//!
//! Tasks are spawned through [`Shutdown::spawn`], so that the end knows for whom it waits.

use std::time::Duration;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Exit status after a second signal, as a shell tells an interrupted program (128 + SIGINT).
pub const INTERRUPTED: i32 = 130;

/// SIGXFSZ.
const FILE_SIZE: i32 = 25;

/// One process's end; clones share it.
#[derive(Debug, Clone)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
    grace: Duration,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Every task ended by itself.
    Drained,
    /// The grace was over before these many tasks had ended.
    Abandoned {
        /// Tasks still running.
        n_tasks: usize,
    },
}

/// The system refuses to tell signals.
#[derive(Debug, Error)]
#[error("cannot listen for SIGINT and SIGTERM")]
pub struct SignalError(#[source] std::io::Error);

impl Shutdown {
    /// A shutdown that has not begun.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        Self {
            token: CancellationToken::new(),
            tasks: TaskTracker::new(),
            grace,
        }
    }

    /// Cancelled when the end begins.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Begins the end, as the first signal does.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Runs a task that the end waits for. It should end soon after [`Shutdown::token`] is cancelled.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.tasks.spawn(task)
    }

    /// Listens for SIGINT and SIGTERM from now on: the first begins the end, the second exits with [`INTERRUPTED`].
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn on_signals(&self) -> Result<(), SignalError> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalError)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(SignalError)?;
        // A file that may not grow any more is an error of the write then, and not the end of the process.
        drop(signal(SignalKind::from_raw(FILE_SIZE)).map_err(SignalError)?);
        let next = async move || {
            tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            }
        };
        // Not a tracked task: it must listen on while the tracked ones end.
        tokio::spawn(heed(self.clone(), next, |status| std::process::exit(status)));
        Ok(())
    }

    /// Waits until the end has begun, then until all tasks have ended or the grace is over.
    pub async fn finished(&self) -> End {
        self.token.cancelled().await;
        self.tasks.close();
        match tokio::time::timeout(self.grace, self.tasks.wait()).await {
            Ok(()) => End::Drained,
            Err(_) => End::Abandoned {
                n_tasks: self.tasks.len(),
            },
        }
    }
}

async fn heed(shutdown: Shutdown, mut next: impl AsyncFnMut() -> &'static str, exit: impl FnOnce(i32)) {
    let signal = next().await;
    tracing::info!(signal, grace = ?shutdown.grace, "ending; a second signal ends at once");
    shutdown.begin();
    let signal = next().await;
    tracing::warn!(signal, "ending at once");
    exit(INTERRUPTED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::{mpsc, oneshot};

    const GRACE: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn the_end_waits_for_tasks_within_the_grace() {
        let shutdown = Shutdown::new(GRACE);
        let token = shutdown.token();
        let (done, ended) = oneshot::channel();
        shutdown.spawn(async move {
            token.cancelled().await;
            tokio::time::sleep(GRACE / 2).await;
            done.send(()).unwrap();
        });
        shutdown.begin();
        assert_eq!(shutdown.finished().await, End::Drained);
        ended.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_end_is_abandoned_and_counted() {
        let shutdown = Shutdown::new(GRACE);
        shutdown.spawn(std::future::pending::<()>());
        shutdown.begin();
        assert_eq!(shutdown.finished().await, End::Abandoned { n_tasks: 1 });
    }

    #[tokio::test]
    async fn the_second_signal_ends_at_once() {
        let shutdown = Shutdown::new(GRACE);
        let (send, mut signals) = mpsc::channel(2);
        let (exit, mut exited) = oneshot::channel();
        let next = async move || signals.recv().await.unwrap();
        tokio::spawn(heed(shutdown.clone(), next, move |status| {
            exit.send(status).unwrap()
        }));
        assert!(!shutdown.token().is_cancelled());
        send.send("SIGTERM").await.unwrap();
        shutdown.token().cancelled().await;
        assert!(exited.try_recv().is_err(), "the first signal leaves the grace");
        send.send("SIGINT").await.unwrap();
        assert_eq!(exited.await.unwrap(), INTERRUPTED);
    }

    #[tokio::test]
    async fn a_real_signal_is_heard() {
        let shutdown = Shutdown::new(GRACE);
        shutdown.on_signals().unwrap();
        let pid = std::process::id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(shutdown.finished().await, End::Drained);
    }
}
