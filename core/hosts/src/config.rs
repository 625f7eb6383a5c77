//! How long offers are held and refused. The shell chooses; `Config::usual` is what it starts from.

use echelon_core_model::Span;

/// Times of the host manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// An unused offer older than this is declined, so that other frameworks can use the room (R62).
    pub hold: Span,
    /// How long the rest of an offer that was used is refused.
    pub refuse_rest: Span,
    /// How long room is refused that nothing of the present demand fits into.
    pub refuse_misfit: Span,
    /// How long room is refused while nothing is wanted.
    pub refuse_idle: Span,
    /// Without demand for this long, offers are suppressed.
    pub idle: Span,
    /// At most one revival in this time (law 8).
    pub revive_gap: Span,
    /// While there is demand offers are revived again after this, since a call may be lost (R12).
    pub revive_again: Span,
    /// An idle shard has a look at all hosts after this: new ones are told by offers only.
    pub look: Span,
    /// Services leave a host this long before its planned maintenance, as far as their `max_unavailable` allows.
    pub lead: Span,
    /// Batch instances, which may end by themselves, leave this long before.
    pub last_call: Span,
    /// What was answered about maintenance may be asked again after this.
    pub ask_again: Span,
    /// A host not heard of for this long after a new subscription, without tasks of ours, is forgotten.
    pub forget: Span,
}

impl Config {
    /// Times for a cluster with an allocation interval of about a second.
    #[must_use]
    pub const fn usual() -> Self {
        Self {
            hold: Span::seconds(5),
            refuse_rest: Span::seconds(1),
            refuse_misfit: Span::seconds(5),
            refuse_idle: Span::minutes(60),
            idle: Span::seconds(10),
            revive_gap: Span::seconds(5),
            revive_again: Span::minutes(1),
            look: Span::minutes(5),
            lead: Span::minutes(30),
            last_call: Span::minutes(2),
            ask_again: Span::minutes(1),
            forget: Span::minutes(5),
        }
    }
}
