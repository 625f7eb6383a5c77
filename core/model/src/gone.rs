//! Runs whose agent is known to be gone, which is more than silence: when such a run counts as ended.
//!
//! Two facts say so. An operator has marked the agent as gone. The master tells it to end if it can be
//! reached, and an agent that ends kills its executors within its shutdown grace. Or a new agent has
//! registered at its address. The old id never comes back, and its executors end by themselves once their
//! recovery timeout is over. Mesos tells frameworks neither of these times. Of an agent that was replaced
//! they are read from the flags of the agent that is now at its address. What is not known of them counts as
//! what agents have by default. A margin is added.

use crate::spec::{JobKind, OnSilence};
use crate::time::Span;

/// `--executor_shutdown_grace_period` of an agent, where its operators have not set it.
pub const EXECUTOR_SHUTDOWN_GRACE: Span = Span::seconds(5);
/// `--recovery_timeout` of an agent, where its operators have not set it.
/// For so long executors that checkpoint wait for their agent.
pub const RECOVERY_TIMEOUT: Span = Span::minutes(15);
/// What the way of a message and the end of a container may take.
pub const GONE_MARGIN: Span = Span::seconds(10);

/// How an agent is known to be gone. The larger one outweighs the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GoneCause {
    /// A new agent has registered at its address.
    Replaced,
    /// An operator has marked it as gone.
    Operator,
}

/// What the flags of an agent say of the end of its executors. `None`: not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTimes {
    /// `--recovery_timeout`.
    pub recovery: Option<Span>,
    /// `--executor_shutdown_grace_period`.
    pub shutdown: Option<Span>,
}

impl AgentTimes {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        recovery: None,
        shutdown: None,
    };
    /// The longest time that is taken from a flag. A longer one counts as this.
    pub const MOST: Span = Span::minutes(28 * 24 * 60);
}

/// That the agent of a run is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// How that is known.
    pub cause: GoneCause,
    /// For how long the cluster had been observed in sum when it became known.
    pub observed_at: Span,
    /// How soon its executors end.
    pub times: AgentTimes,
}

impl Gone {
    /// How much longer the run is waited for, by the `on_gone` of its job.
    /// `observed` is for how long its cluster has been observed in sum.
    /// `None`: until an operator says that its host never returns.
    #[must_use]
    pub fn left(&self, on_gone: Option<OnSilence>, kind: JobKind, observed: Span) -> Option<Span> {
        let waits = self.waits(on_gone, kind)?;
        let passed = observed.0.saturating_sub(self.observed_at.0);
        Some(Span(waits.0.saturating_sub(passed)))
    }

    /// Whether the flags of agents may still change how long a run is waited for.
    #[must_use]
    pub fn lacks_times(&self, on_gone: Option<OnSilence>) -> bool {
        on_gone.is_none() && self.cause == GoneCause::Replaced && self.times == AgentTimes::UNKNOWN
    }

    /// For how long a run is waited for after its agent is known to be gone; `None`: for ever.
    /// To wait means to wait for an operator, so that word ends the wait of all kinds.
    fn waits(&self, on_gone: Option<OnSilence>, kind: JobKind) -> Option<Span> {
        let grace = self.times.shutdown.unwrap_or(EXECUTOR_SHUTDOWN_GRACE);
        let shutdown = grace.0.saturating_add(GONE_MARGIN.0);
        match (on_gone, self.cause) {
            (Some(OnSilence::Replace(after)), _) => Some(after),
            (Some(OnSilence::Wait) | None, GoneCause::Operator) => Some(Span(shutdown)),
            (Some(OnSilence::Wait), GoneCause::Replaced) => None,
            (None, GoneCause::Replaced) => match kind {
                JobKind::Stateful => None,
                JobKind::Batch | JobKind::Service | JobKind::Daemon => {
                    let recovery = self.times.recovery.unwrap_or(RECOVERY_TIMEOUT);
                    Some(Span(recovery.0.saturating_add(shutdown)))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(cause: GoneCause, on_gone: Option<OnSilence>, kind: JobKind) -> Option<Span> {
        let gone = Gone {
            cause,
            observed_at: Span::minutes(60),
            times: AgentTimes::UNKNOWN,
        };
        gone.left(on_gone, kind, Span::minutes(60))
    }

    #[test]
    fn what_is_known_of_the_flags_counts_and_the_usual_time_for_the_rest() {
        let waits = |cause, recovery: Option<u64>, shutdown: Option<u64>, on_gone| {
            let gone = Gone {
                cause,
                observed_at: Span::ZERO,
                times: AgentTimes {
                    recovery: recovery.map(Span::seconds),
                    shutdown: shutdown.map(Span::seconds),
                },
            };
            (
                gone.left(on_gone, JobKind::Service, Span::ZERO),
                gone.lacks_times(on_gone),
            )
        };
        let seconds = |of| Some(Span::seconds(of));
        let (replaced, marked) = (GoneCause::Replaced, GoneCause::Operator);
        assert_eq!(waits(replaced, None, None, None), (seconds(915), true));
        assert_eq!(
            waits(replaced, Some(3600), Some(60), None),
            (seconds(3670), false)
        );
        assert_eq!(waits(replaced, Some(0), None, None), (seconds(15), false));
        assert_eq!(waits(replaced, None, Some(60), None), (seconds(970), false));
        assert_eq!(waits(marked, Some(3600), Some(60), None), (seconds(70), false));
        assert_eq!(waits(marked, None, None, None), (seconds(15), false));
        let minute = Some(OnSilence::Replace(Span::minutes(1)));
        assert_eq!(waits(replaced, None, None, minute), (seconds(60), false));
        assert_eq!(waits(replaced, None, None, Some(OnSilence::Wait)), (None, false));
    }

    #[test]
    fn an_operators_word_ends_every_wait_and_a_new_agent_that_of_what_keeps_no_data() {
        let (grace, recovery) = (Some(Span::seconds(15)), Some(Span::seconds(15 * 60 + 15)));
        for kind in [JobKind::Batch, JobKind::Service, JobKind::Daemon] {
            assert_eq!(left(GoneCause::Operator, None, kind), grace);
            assert_eq!(left(GoneCause::Replaced, None, kind), recovery);
        }
        assert_eq!(left(GoneCause::Operator, None, JobKind::Stateful), grace);
        assert_eq!(left(GoneCause::Replaced, None, JobKind::Stateful), None);
        let waits = Some(OnSilence::Wait);
        assert_eq!(left(GoneCause::Operator, waits, JobKind::Service), grace);
        assert_eq!(left(GoneCause::Replaced, waits, JobKind::Service), None);
        let minute = Some(OnSilence::Replace(Span::minutes(1)));
        for cause in [GoneCause::Operator, GoneCause::Replaced] {
            assert_eq!(left(cause, minute, JobKind::Stateful), Some(Span::minutes(1)));
        }
    }

    #[test]
    fn observed_time_counts_from_when_it_became_known() {
        let gone = Gone {
            cause: GoneCause::Operator,
            observed_at: Span::seconds(100),
            times: AgentTimes::UNKNOWN,
        };
        let left = |observed| gone.left(None, JobKind::Service, Span::seconds(observed));
        assert_eq!(left(90), Some(Span::seconds(15)));
        assert_eq!(left(110), Some(Span::seconds(5)));
        assert_eq!(left(115), Some(Span::ZERO));
        assert_eq!(left(500), Some(Span::ZERO));
    }
}
