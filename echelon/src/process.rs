//! What the roles of one process share: the end, the clock, the conditions, storage and membership.

use anyhow::{Context, Result, bail};
use echelon_cli::exit::Exit;
use echelon_cli::output;
use echelon_core_model::store::TroubleKind;
use echelon_io_credit::Credit;
use echelon_io_membership::{Membership, MembershipError, Timeouts};
use echelon_io_process::config::{Common, ConfigError};
use echelon_io_process::http::Admin;
use echelon_io_process::metrics::{LATENCY_S, MetricError};
use echelon_io_process::shutdown::End;
use echelon_io_process::{Clock, ContactWatch, Contacts, Metrics, Readiness, Shutdown, descriptors, logs};
use echelon_io_storage::{
    Bounded, Durability, Finding, Observation, Observed, Store, StoreError, WRITE_BYTES, open_checked,
    panics_are_contained, without_login,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// This build's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that this build was made from; `unknown` outside git.
pub const COMMIT: &str = env!("ECHELON_COMMIT");

/// Both, for people.
pub const BUILD: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("ECHELON_COMMIT"),
    ")"
);

/// How often a storage that does not answer yet is asked again at the start.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// A process that has begun.
#[derive(Clone)]
pub struct Process {
    /// Its time.
    pub clock: Clock,
    /// Its conditions.
    pub readiness: Readiness,
    /// Its end.
    pub shutdown: Shutdown,
}

/// What a role needs, before it is watched.
#[derive(Debug)]
pub struct Needs {
    membership: ContactWatch,
    storage: ContactWatch,
}

impl Process {
    /// Begins logging and listening for signals. From here on a panic anywhere ends the process.
    ///
    /// # Errors
    /// The log filter is wrong, or the system refuses signals.
    pub fn begin(common: &Common) -> Result<Self> {
        watch_panics();
        logs::init(&common.log, common.log_format)?;
        descriptors::raise();
        let process = Self::within(Shutdown::new(Duration::from_secs(common.grace_s.into())));
        process.shutdown.on_signals()?;
        let watching = process.clock.clone().watch(process.shutdown.token());
        process.shutdown.spawn(watching);
        Ok(process)
    }

    /// One whose end is somebody else's.
    #[must_use]
    pub fn within(shutdown: Shutdown) -> Self {
        Self {
            clock: Clock::new(),
            readiness: Readiness::default(),
            shutdown,
        }
    }

    /// Serves metrics and conditions, where a port is given.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn serve_admin(&self, listen: Option<SocketAddr>, metrics: Vec<Metrics>) -> Result<()> {
        let Some(listen) = listen else {
            return Ok(());
        };
        let admin = Admin {
            metrics,
            readiness: self.readiness.clone(),
        };
        let (address, serving) = admin.serve(listen, self.shutdown.token()).await?;
        tracing::info!(%address, "metrics and health");
        self.shutdown.spawn(serving);
        Ok(())
    }

    /// What a role needs that needs both: it is not ready before both have answered.
    ///
    /// # Errors
    /// The metrics' names are taken: a mistake in this program.
    pub fn needs(&self, metrics: &Metrics) -> Result<Needs, MetricError> {
        let condition = |name: &str, reason: &str| self.readiness.condition(name, reason);
        Ok(Needs {
            membership: ContactWatch::of_membership(
                condition("membership", "the membership servers have not answered yet"),
                metrics,
            )?,
            storage: ContactWatch::of_storage(
                condition("storage", "the storage was not opened yet"),
                metrics,
            )?,
        })
    }

    /// Watches what a role needs from now on.
    #[must_use]
    pub fn watch(&self, needs: Needs, membership: Arc<dyn Membership>, store: Arc<dyn Store>) -> Contacts {
        let contacts = Contacts {
            membership: needs.membership.contact(),
            storage: needs.storage.contact(),
        };
        let meets = needs.membership.keep(self.clock.clone(), move || {
            let membership = membership.clone();
            async move { membership.answers().await }
        });
        let stores = needs.storage.keep(self.clock.clone(), move || {
            let store = store.clone();
            async move { store.answers().await }
        });
        let stop = self.shutdown.token();
        self.shutdown.spawn(stop.clone().run_until_cancelled_owned(meets));
        self.shutdown.spawn(stop.run_until_cancelled_owned(stores));
        contacts
    }

    /// Opens a storage of this build's level and observes it. It waits for one that does not answer or is not set up yet.
    ///
    /// # Errors
    /// The URL is wrong, the storage is of another level, or the process ends before the storage answers.
    pub async fn storage(&self, url: &str, metrics: &Metrics) -> Result<Arc<dyn Store>> {
        let stop = self.shutdown.token();
        let opened = self
            .readiness
            .condition("storage", "the storage was not opened yet");
        loop {
            match open_checked(url).await {
                Ok(store) => {
                    tell_doubts(&store.durability().await);
                    return Ok(observed(store, metrics, &self.readiness)?);
                }
                Err(error) if error.is_retryable() => {
                    opened.not_ready(&error.chain());
                    tracing::warn!(
                        error = error.chain(),
                        "the storage cannot be used yet; trying again"
                    );
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("open the storage {}", without_login(url)));
                }
            }
            let waited = stop.run_until_cancelled(tokio::time::sleep(ASK_EVERY)).await;
            if waited.is_none() {
                bail!("stopped before the storage {} answered", without_login(url));
            }
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// Not everything ended within the grace.
    pub async fn ended(&self) -> Result<()> {
        told(self.shutdown.finished().await)
    }
}

/// Tells how a process ended.
///
/// # Errors
/// Not everything ended within the grace.
pub fn told(end: End) -> Result<()> {
    match end {
        End::Drained => {
            tracing::info!("ended");
            Ok(())
        }
        End::Abandoned { n_tasks } => bail!("ended with {n_tasks} tasks still at work"),
    }
}

/// The membership of a URL.
///
/// # Errors
/// The URL is wrong.
pub fn membership(url: &str, timeouts: Timeouts) -> Result<Arc<dyn Membership>> {
    Ok(echelon_io_membership::open(url, timeouts)?)
}

/// Logs what of a storage is not known to be durable.
pub fn tell_doubts(durability: &Durability) {
    for Finding {
        property,
        standing,
        text,
    } in durability.doubts()
    {
        tracing::warn!(
            property,
            ?standing,
            "an acknowledged change may be lost: {text}; `echelon doctor` shows all of it"
        );
    }
}

/// The metrics of a role of this build.
///
/// # Errors
/// A label's name is not Prometheus': a mistake in this program.
pub fn metrics_of(labels: &[(&str, &str)]) -> Result<Metrics, MetricError> {
    Metrics::new(labels, VERSION, COMMIT)
}

/// A store that tells a role's metrics about each operation. While it takes no changes the process is not
/// ready.
///
/// # Errors
/// The metrics' names are taken: a mistake in this program.
pub fn observed(
    store: Arc<dyn Store>,
    metrics: &Metrics,
    readiness: &Readiness,
) -> Result<Arc<dyn Store>, MetricError> {
    let seconds = metrics.histograms(
        "echelon_storage_operation_seconds",
        "How long an operation on storage took, by its kind and what became of it.",
        LATENCY_S,
        &["operation", "outcome"],
    )?;
    let rows = metrics.counter(
        "echelon_storage_rows_written_total",
        "Rows that were given to storage to write, retries included.",
    )?;
    let bytes = metrics.gauges(
        "echelon_storage_write_bytes",
        "Bytes of writes to storage: under way, and the limit from which on large ones wait.",
        &["amount"],
    )?;
    let credit = Credit::new(WRITE_BYTES);
    let gauge = |of: usize| i64::try_from(of).unwrap_or(i64::MAX);
    bytes.with_label_values(&["limit"]).set(gauge(credit.bound()));
    let (under_way, seen_credit) = (bytes.with_label_values(&["under_way"]), credit.clone());
    let takes_changes = readiness.condition("storage-changes", "no change was tried yet");
    takes_changes.ready();
    let observer = move |seen: Observation<'_>| {
        match seen.error.map(refuses_changes) {
            None if seen.writes > 0 => takes_changes.ready(),
            Some(Some(why)) => takes_changes.not_ready(&why),
            None | Some(None) => {}
        }
        under_way.set(gauge(seen_credit.under_way()));
        seconds
            .with_label_values(&[seen.operation, seen.outcome.word()])
            .observe(seen.took.as_secs_f64());
        rows.inc_by(u64::try_from(seen.writes).unwrap_or_default());
    };
    Ok(Arc::new(Observed::new(Bounded::new(store, credit), observer)))
}

/// Why a storage takes no changes at all, if that is what an error says.
fn refuses_changes(error: &StoreError) -> Option<String> {
    match error {
        StoreError::Unavailable {
            kind: TroubleKind::Full,
            ..
        } => Some(format!("storage is full, make room for it: {}", error.chain())),
        StoreError::File { .. } => Some(error.chain()),
        _ => None,
    }
}

/// A panic is a broken rule of this program; what goes on after one cannot be trusted. So it is told and ends the process,
/// whichever thread or task it was in; what was running is adopted by the next process.
pub fn watch_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // What a damaged storage file makes its library do is an error there, with a text of its own.
        if panics_are_contained() {
            return;
        }
        tell(panic);
        output::remark("echelon: a panic ends this process; please report it with the lines above");
        std::process::abort();
    }));
}

/// The exit code of an error of a role.
#[must_use]
pub fn exit_of(error: &anyhow::Error) -> Exit {
    let is_input = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<ConfigError>()
            || cause.is::<logs::LogError>()
            || matches!(cause.downcast_ref(), Some(MembershipError::Url { .. }))
            || matches!(cause.downcast_ref(), Some(StoreError::Url { .. }))
            || cause.is::<crate::roles::WrongOption>()
    };
    let is_away = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(StoreError::Unavailable { .. }))
    };
    if error.chain().any(is_input) {
        Exit::Wrong
    } else if error.chain().any(is_away) {
        Exit::Unavailable
    } else {
        Exit::Failed
    }
}

/// Names this process among all: host, process id and chance.
#[must_use]
pub fn unique_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_default();
    format!(
        "{}-{}-{:08x}",
        host.trim(),
        std::process::id(),
        rand::random::<u32>()
    )
}
