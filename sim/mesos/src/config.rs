//! What a simulated cluster is made of: the master's flags, the agents' shapes and how tasks are run.

use crate::bundle::Bundle;
use echelon_core_model::time::Span;
use echelon_proto::mesos::v1::Attribute;

/// The flags of the simulated master and of all its agents. `Default` has the values of a real master.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the master says that it listens; part of SUBSCRIBED and of redirects.
    pub hostname: String,
    /// Its IPv4 address.
    pub ip: [u8; 4],
    /// Its port.
    pub port: u16,
    /// Time between two batches of offers (`--allocation_interval`, 1 s).
    pub allocation_interval: Span,
    /// How long an offer stays open (`--offer_timeout`, for ever).
    pub offer_timeout: Option<Span>,
    /// Time between two HEARTBEATs; 15 s in a real master, not configurable there (rule R24).
    pub heartbeat: Span,
    /// Time without contact after which an agent is unreachable (`--agent_ping_timeout` times
    /// `--max_agent_ping_timeouts`, 75 s).
    pub agent_timeout: Span,
    /// Time that agents have to return after a master failover (`--agent_reregister_timeout`, 10 min).
    pub agent_reregister_timeout: Span,
    /// Agents return within this time after a new master has finished its recovery, each at a random moment.
    pub agent_reregister_spread: Span,
    /// How long executors of a framework that checkpoints wait for their agent (`--recovery_timeout`, 15
    /// min).
    pub recovery_timeout: Span,
    /// How long an executor that has to end may take (`--executor_shutdown_grace_period`, 5 s).
    pub executor_shutdown_grace: Span,
    /// Who runs tasks.
    pub executors: Executors,
    /// Whether changes are handed out as records to keep ([`crate::Output::Store`]).
    pub durable: bool,
}

/// Who runs tasks.
#[derive(Debug, Clone)]
pub enum Executors {
    /// Nobody: tasks live in virtual time, see [`Virtual`].
    Virtual(Virtual),
    /// Whoever carries out [`crate::Output::Launch`] and [`crate::Output::Kill`], and reports what comes of it.
    External,
}

/// Tasks without processes. A task says how it lives by environment variables of its command, or labels of the same
/// name: `SIM_RUNTIME_MS` or `SIM_ENDS_AT_MS` (a moment), `SIM_EXIT_CODE`, `SIM_IGNORES_TERM=1` (then only SIGKILL ends
/// it), and `SIM_SKIPS_STARTING=1` (its first update is TASK_RUNNING).
#[derive(Debug, Clone)]
pub struct Virtual {
    /// From LAUNCH to TASK_STARTING.
    pub start_delay: Span,
    /// How long a task runs that does not say it; `None` is for ever.
    pub runtime: Option<Span>,
    /// From SIGTERM to the end of a task that obeys it.
    pub term_delay: Span,
}

/// What an agent is started with.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// Its host's name.
    pub hostname: String,
    /// Its address.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// All it has.
    pub resources: Bundle,
    /// Its attributes, in order.
    pub attributes: Vec<Attribute>,
    /// Whether command tasks have an executor that obeys the grace of a KILL (`--http_command_executor`, rule R85).
    pub http_command_executor: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hostname: "127.0.0.1".to_owned(),
            ip: [127, 0, 0, 1],
            port: 5050,
            allocation_interval: Span::seconds(1),
            offer_timeout: None,
            heartbeat: Span::seconds(15),
            agent_timeout: Span::seconds(75),
            agent_reregister_timeout: Span::minutes(10),
            agent_reregister_spread: Span::seconds(1),
            recovery_timeout: Span::minutes(15),
            executor_shutdown_grace: Span::seconds(5),
            executors: Executors::Virtual(Virtual::default()),
            durable: false,
        }
    }
}

impl Default for Virtual {
    fn default() -> Self {
        Self {
            start_delay: Span::millis(100),
            runtime: None,
            term_delay: Span::millis(50),
        }
    }
}

impl AgentSpec {
    /// An agent without attributes.
    #[must_use]
    pub fn new(hostname: impl Into<String>, resources: Bundle) -> Self {
        Self {
            hostname: hostname.into(),
            ip: "127.0.0.1".to_owned(),
            port: 5051,
            resources,
            attributes: Vec::new(),
            http_command_executor: false,
        }
    }
}
