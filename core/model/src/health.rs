//! The health of a cluster: what is observed of it. What operators want of it is its desired state, which is a
//! value of its own. A draining cluster can be cut off.
//!
//! The leader of the resource manager judges each cluster and stores the result. Everything else shows the
//! stored value and never computes another one.

use crate::bucket::fnv1a;
use crate::platform::PlatformCause;
use crate::time::{Span, Timestamp};
use std::fmt;

/// How a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Health {
    /// Its shard has not reported yet.
    #[default]
    Joining,
    /// It takes work.
    Healthy,
    /// It was in a bad state, and the hold that damps flapping is not over.
    Recovering,
    /// Something is wrong. The causes decide whether it takes new work.
    Degraded,
    /// Its shard does not reach a leading master of Mesos.
    WithoutMesos,
    /// Mesos has no active agent there.
    WithoutAgents,
    /// Its shard reaches neither the resource manager nor storage.
    CutOff,
    /// It was cut off or without Mesos for so long that its instances may be replaced elsewhere.
    Lost,
}

impl Health {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::Joining,
        Self::Healthy,
        Self::Recovering,
        Self::Degraded,
        Self::WithoutMesos,
        Self::WithoutAgents,
        Self::CutOff,
        Self::Lost,
    ];

    /// The word of API, command line and metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Healthy => "healthy",
            Self::Recovering => "recovering",
            Self::Degraded => "degraded",
            Self::WithoutMesos => "without-mesos",
            Self::WithoutAgents => "without-agents",
            Self::CutOff => "cut-off",
            Self::Lost => "lost",
        }
    }

    /// Whether nothing can be learned there about what runs.
    #[must_use]
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::WithoutMesos | Self::CutOff | Self::Lost)
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a cluster is not simply healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HealthCause {
    /// Its shard has not sent a full report yet.
    NoReport,
    /// Neither its shard's stream nor its heartbeats in storage are read.
    ShardSilent,
    /// Its shard's stream is silent, while its heartbeats in storage change.
    StreamSilent,
    /// Its shard is frozen: what it sees cannot be right.
    ShardFrozen,
    /// The subscription to Mesos ended a moment ago. A failover of the master looks like this.
    MesosFailover,
    /// The shard is not subscribed to Mesos.
    NotSubscribed,
    /// The subscription stands, and the master answers nothing.
    MesosHung,
    /// Mesos lists no active agent.
    NoAgents,
    /// So many agents of so many are out of Mesos' reach.
    AgentsUnreachable {
        /// Out of reach.
        unreachable: u32,
        /// Known.
        of: u32,
    },
    /// The shard's oldest commit has waited for storage for too long.
    StorageSlow,
    /// Its Mesos master is that of another cluster, so its hosts are counted there.
    SameMaster,
    /// Many starts fail there by the platform, and do not elsewhere.
    StartsFail {
        /// The median share of starts that failed, over groups of starts, in percent.
        percent: u32,
        /// What most of the groups that fail there fail by.
        by: PlatformCause,
    },
}

impl HealthCause {
    /// Most causes of one health.
    pub const MOST: usize = 16;

    /// Its stable number and its two figures.
    #[must_use]
    pub const fn parts(self) -> (u32, u32, u32) {
        match self {
            Self::NoReport => (1, 0, 0),
            Self::ShardSilent => (2, 0, 0),
            Self::StreamSilent => (3, 0, 0),
            Self::ShardFrozen => (4, 0, 0),
            Self::MesosFailover => (5, 0, 0),
            Self::NotSubscribed => (6, 0, 0),
            Self::MesosHung => (7, 0, 0),
            Self::NoAgents => (8, 0, 0),
            Self::AgentsUnreachable { unreachable, of } => (9, unreachable, of),
            Self::StorageSlow => (10, 0, 0),
            Self::SameMaster => (11, 0, 0),
            Self::StartsFail { percent, by } => (12, percent, by.number()),
        }
    }

    /// The cause with this number and these figures.
    #[must_use]
    pub const fn of_parts(number: u32, figure: u32, of: u32) -> Option<Self> {
        Some(match number {
            1 => Self::NoReport,
            2 => Self::ShardSilent,
            3 => Self::StreamSilent,
            4 => Self::ShardFrozen,
            5 => Self::MesosFailover,
            6 => Self::NotSubscribed,
            7 => Self::MesosHung,
            8 => Self::NoAgents,
            9 => Self::AgentsUnreachable {
                unreachable: figure,
                of,
            },
            10 => Self::StorageSlow,
            11 => Self::SameMaster,
            12 => match PlatformCause::from_number(of) {
                Some(by) if figure <= 100 => Self::StartsFail { percent: figure, by },
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Its figures for people: so many of so many.
    #[must_use]
    pub const fn figures(self) -> (u32, u32) {
        match self {
            Self::StartsFail { percent, .. } => (percent, 100),
            other => {
                let (_, count, of) = other.parts();
                (count, of)
            }
        }
    }

    /// The word of the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoReport => "no-report",
            Self::ShardSilent => "shard-silent",
            Self::StreamSilent => "stream-silent",
            Self::ShardFrozen => "shard-frozen",
            Self::MesosFailover => "mesos-failover",
            Self::NotSubscribed => "not-subscribed",
            Self::MesosHung => "mesos-hung",
            Self::NoAgents => "no-agents",
            Self::AgentsUnreachable { .. } => "agents-unreachable",
            Self::StorageSlow => "storage-slow",
            Self::SameMaster => "same-master",
            Self::StartsFail { .. } => "starts-fail",
        }
    }

    /// Whether it is about starts that fail, whatever its figures.
    #[must_use]
    pub const fn is_of_starts(&self) -> bool {
        matches!(self, Self::StartsFail { .. })
    }

    /// Whether a degraded cluster with this cause takes new work all the same.
    #[must_use]
    pub const fn new_work(self) -> NewWork {
        match self {
            Self::AgentsUnreachable { .. } | Self::StorageSlow => NewWork::Taken,
            Self::StartsFail { .. } => NewWork::LastResort,
            Self::NoReport
            | Self::ShardSilent
            | Self::StreamSilent
            | Self::ShardFrozen
            | Self::MesosFailover
            | Self::NotSubscribed
            | Self::MesosHung
            | Self::NoAgents
            | Self::SameMaster => NewWork::Refused,
        }
    }
}

impl fmt::Display for HealthCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReport => f.write_str("its shard has not reported yet"),
            Self::ShardSilent => f.write_str("neither its shard's stream nor its heartbeats are read"),
            Self::StreamSilent => {
                f.write_str("its shard's stream to the resource manager is silent; its heartbeats are read")
            }
            Self::ShardFrozen => f.write_str("its shard is frozen, run `echelon storage resume`"),
            Self::MesosFailover => f.write_str("the subscription to Mesos ended a moment ago"),
            Self::NotSubscribed => f.write_str("its shard is not subscribed to Mesos"),
            Self::MesosHung => f.write_str("the Mesos master does not answer"),
            Self::NoAgents => f.write_str("Mesos has no active agent"),
            Self::AgentsUnreachable { unreachable, of } => {
                write!(f, "{unreachable} of {of} agents are unreachable")
            }
            Self::StorageSlow => f.write_str("its shard waits for storage"),
            Self::SameMaster => f.write_str("its Mesos master is that of another cluster"),
            Self::StartsFail { percent, by } => write!(f, "{percent} % of starts fail there, mostly by {by}"),
        }
    }
}

/// Whether a cluster takes work that it has not got yet, the most ready first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NewWork {
    /// It does.
    Taken,
    /// Only where no other cluster may take it.
    LastResort,
    /// It does not: nothing would begin there.
    Refused,
}

/// What is stored of a cluster's health.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterHealth {
    /// How it is.
    pub health: Health,
    /// Why, the worst first. Empty while it is healthy.
    pub causes: Vec<HealthCause>,
    /// Since when it is so.
    pub since: Timestamp,
    /// When it was last judged by evidence.
    pub as_of: Timestamp,
    /// Counts the times at which it became cut off or without Mesos. An operator's command about one of these
    /// times names it.
    pub silence: u64,
    /// How long it has been cut off or without Mesos this time, as leaders have measured it in sum. The time in
    /// `doubted` and the time for which an operator has declared it alive are not part of it.
    pub waited: Span,
    /// How long this silence was not counted, since the resource manager doubted its own observation.
    pub doubted: Span,
    /// When the last heartbeat before this silence was written, by its shard's clock; none: none is known. Another
    /// one shows a new leader that the cluster was back meanwhile.
    pub heartbeat_at: Option<Timestamp>,
    /// When it last came out of a bad state.
    pub returned_at: Option<Timestamp>,
    /// How often the hold after a bad state is doubled.
    pub doublings: u32,
}

impl ClusterHealth {
    /// The hold after a first bad state.
    pub const FIRST_HOLD: Span = Span::seconds(15);
    /// The longest hold.
    pub const LONGEST_HOLD: Span = Span::minutes(10);
    /// A time without a bad state that takes one doubling back.
    pub const QUIET: Span = Span::minutes(10);
    /// Most doublings.
    pub const MOST_DOUBLINGS: u32 = 6;
    /// A judgement that is older than this is shown as unconfirmed.
    pub const CONFIRMED_FOR: Span = Span::seconds(15);

    /// The health of a cluster that has not reported yet.
    #[must_use]
    pub fn joining() -> Self {
        Self {
            causes: vec![HealthCause::NoReport],
            ..Self::default()
        }
    }

    /// Its present silence, if it is silent, with what was declared of that one.
    #[must_use]
    pub fn current_silence(&self, declared: Option<DeclaredHealth>) -> Option<CurrentSilence> {
        let declared = declared.filter(|declared| declared.silence == self.silence);
        self.health.is_silence().then_some(CurrentSilence {
            waited: self.waited,
            declared: declared.map(|declared| declared.as_what),
        })
    }

    /// How long the hold after a bad state is.
    #[must_use]
    pub fn hold(&self) -> Span {
        let doublings = self.doublings.min(Self::MOST_DOUBLINGS);
        let hold = Self::FIRST_HOLD.0.saturating_mul(1 << doublings);
        Span(hold.min(Self::LONGEST_HOLD.0))
    }

    /// Until when it takes work only where no other cluster may.
    #[must_use]
    pub fn hold_until(&self) -> Option<Timestamp> {
        let returned_at = self.returned_at.filter(|_| self.health == Health::Recovering);
        returned_at.map(|at| at.plus(self.hold()))
    }

    /// Whether it takes new work.
    #[must_use]
    pub fn new_work(&self) -> NewWork {
        match self.health {
            Health::Healthy => NewWork::Taken,
            Health::Recovering => NewWork::LastResort,
            Health::Degraded => {
                let causes = self.causes.iter().map(|cause| cause.new_work());
                causes.max().unwrap_or(NewWork::Taken)
            }
            Health::Joining
            | Health::WithoutMesos
            | Health::WithoutAgents
            | Health::CutOff
            | Health::Lost => NewWork::Refused,
        }
    }

    /// The causes in a sentence; empty while it is healthy.
    #[must_use]
    pub fn cause(&self) -> String {
        let causes: Vec<String> = self.causes.iter().map(ToString::to_string).collect();
        causes.join("; ")
    }
}

impl fmt::Display for ClusterHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.causes.is_empty() {
            write!(f, "{}", self.health)
        } else {
            write!(f, "{}, {}", self.health, self.cause())
        }
    }
}

/// Which Mesos master leads a cluster: a hash of the id that the master drew when it started. Two clusters with
/// the same one have the same hosts, whatever the addresses of their masters look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MasterId(pub u64);

impl MasterId {
    /// Of the id that a master reports.
    #[must_use]
    pub fn of(id: &str) -> Self {
        Self(fnv1a(id.as_bytes()))
    }
}

/// What a shard observes of itself and its cluster. It is sent with each report and stored with each
/// heartbeat. Times are ages by the shard's own clock at that moment, so clocks of other machines do not
/// matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShardSigns {
    /// Whether the subscription to Mesos stands.
    pub subscribed: bool,
    /// For how long that has been so; since this leader began, where nothing has changed since then.
    pub subscription_age: Span,
    /// How long ago the master last sent an event; none: never to this leader.
    pub event_age: Option<Span>,
    /// How long ago a leading master last answered its health endpoint; none: never to this leader.
    pub answer_age: Option<Span>,
    /// How many questions in a row it has not answered since then.
    pub unanswered: u32,
    /// The agents of the cluster; none: they are not known yet.
    pub agents: Option<AgentCounts>,
    /// For how long the shard's oldest commit has waited for storage.
    pub commit_age: Span,
    /// The shard starts and kills nothing, since what it sees cannot be right.
    pub frozen: bool,
    /// Mesos has removed the shard's framework for good, as it was ordered: the cluster is removed.
    pub torn_down: bool,
    /// The master that led when the shard last subscribed; none: it has not yet, or the master does not say.
    pub master: Option<MasterId>,
}

/// How many agents a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentCounts {
    /// Those that Mesos reaches.
    pub active: u32,
    /// Those that it does not, and that are not forgotten.
    pub unreachable: u32,
}

impl ShardSigns {
    /// For so long a subscription that is gone, or a master that answers nothing, does not show that Mesos is away.
    pub const MESOS_SILENT_AFTER: Span = Span::seconds(8);
    /// Questions without an answer, one after the other, that show a hung master.
    pub const UNANSWERED: u32 = 2;

    /// Why its cluster is without Mesos, if it is.
    #[must_use]
    pub fn without_mesos(&self) -> Option<HealthCause> {
        let is_long = |age: Option<Span>| age.is_none_or(|age| age >= Self::MESOS_SILENT_AFTER);
        let is_hung =
            self.unanswered >= Self::UNANSWERED && is_long(self.event_age) && is_long(self.answer_age);
        if !self.subscribed && self.subscription_age >= Self::MESOS_SILENT_AFTER {
            Some(HealthCause::NotSubscribed)
        } else {
            (self.subscribed && is_hung).then_some(HealthCause::MesosHung)
        }
    }

    /// How long ago Mesos last confirmed what the shard shows; none: never to this leader.
    #[must_use]
    pub fn confirmed_age(&self) -> Option<Span> {
        let answered = self.answer_age.filter(|_| self.subscribed);
        answered.into_iter().chain(self.event_age).min()
    }

    /// The same, so much later, if nothing else was observed.
    #[must_use]
    pub fn later(self, by: Span) -> Self {
        let add = |age: Span| Span(age.0.saturating_add(by.0));
        Self {
            subscription_age: add(self.subscription_age),
            event_age: self.event_age.map(add),
            answer_age: self.answer_age.map(add),
            ..self
        }
    }

    /// The same without ages: what is reported at once when it changes.
    #[must_use]
    pub fn without_ages(self) -> Self {
        Self {
            subscription_age: Span::ZERO,
            event_age: None,
            answer_age: None,
            commit_age: Span::ZERO,
            ..self
        }
    }
}

/// What an operator has declared of a cluster that is cut off or without Mesos. It is of effect in one silence
/// only, so a command that comes late does not hold for a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeclaredHealth {
    /// The number of the silence.
    pub silence: u64,
    /// What was declared.
    pub as_what: Declaration,
}

/// The present silence of a cluster, as far as it decides when what runs there is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CurrentSilence {
    /// For how long it has been counted.
    pub waited: Span,
    /// What an operator has declared in it.
    pub declared: Option<Declaration>,
}

/// What operators declare of a silent cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Declaration {
    /// It is lost: what may be replaced is replaced without further waiting.
    Lost,
    /// It is lost and never returns. Of a cluster that is being removed all is given up, and no shard is
    /// waited for.
    NeverReturns,
    /// What runs there is alive: until then its silence is not counted.
    AliveUntil(Timestamp),
}

impl Declaration {
    /// Whether it says that the cluster is lost.
    #[must_use]
    pub const fn is_loss(self) -> bool {
        match self {
            Self::Lost | Self::NeverReturns => true,
            Self::AliveUntil(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_read_back() {
        for number in 1..=12 {
            let cause = HealthCause::of_parts(number, 3, 4).unwrap();
            let (n, figure, of) = cause.parts();
            assert_eq!(HealthCause::of_parts(n, figure, of), Some(cause));
            assert_eq!(n, number);
        }
        assert_eq!(HealthCause::of_parts(0, 0, 0), None);
        assert_eq!(HealthCause::of_parts(13, 0, 0), None);
        assert_eq!(HealthCause::of_parts(12, 101, 1), None);
        assert_eq!(HealthCause::of_parts(12, 50, 0), None);
    }

    #[test]
    fn a_hold_doubles_up_to_its_longest() {
        let hold = |doublings| {
            let health = ClusterHealth {
                doublings,
                ..ClusterHealth::default()
            };
            health.hold()
        };
        assert_eq!(hold(0), Span::seconds(15));
        assert_eq!(hold(2), Span::seconds(60));
        assert_eq!(hold(6), Span::minutes(10));
        assert_eq!(hold(u32::MAX), Span::minutes(10));
    }

    #[test]
    fn only_causes_that_stop_starts_refuse_new_work() {
        let degraded = |causes: &[HealthCause]| ClusterHealth {
            health: Health::Degraded,
            causes: causes.to_vec(),
            ..ClusterHealth::default()
        };
        let agents = HealthCause::AgentsUnreachable {
            unreachable: 3,
            of: 40,
        };
        let slow = HealthCause::StorageSlow;
        assert_eq!(degraded(&[agents, slow]).new_work(), NewWork::Taken);
        assert_eq!(
            degraded(&[agents, HealthCause::ShardFrozen]).new_work(),
            NewWork::Refused
        );
        assert_eq!(
            degraded(&[agents, slow]).cause(),
            "3 of 40 agents are unreachable; its shard waits for storage"
        );
    }

    #[test]
    fn a_cluster_where_starts_fail_is_a_last_resort() {
        let starts_fail = HealthCause::StartsFail {
            percent: 62,
            by: PlatformCause::Fetcher,
        };
        let degraded = |causes: &[HealthCause]| ClusterHealth {
            health: Health::Degraded,
            causes: causes.to_vec(),
            ..ClusterHealth::default()
        };
        let slow = HealthCause::StorageSlow;
        assert_eq!(degraded(&[slow, starts_fail]).new_work(), NewWork::LastResort);
        let frozen = HealthCause::ShardFrozen;
        assert_eq!(degraded(&[starts_fail, frozen]).new_work(), NewWork::Refused);
        let shown = starts_fail.to_string();
        assert_eq!(shown, "62 % of starts fail there, mostly by the fetcher of files");
        assert_eq!(starts_fail.figures(), (62, 100));
    }
}
