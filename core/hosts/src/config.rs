//! How long offers are held and refused, and for whom hosts are. The shell chooses; `Config::usual` is what it starts from.

use echelon_core_model::Span;
use echelon_core_model::cluster::GpuHosts;

/// Times and rules of the host manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// An offer older than this is declined unless it is spoken for, so that other frameworks can use the room (R62).
    pub hold: Span,
    /// The same for one that is spoken for, and while placement is at work: no offer is ever held longer.
    pub hold_most: Span,
    /// How long room is refused of which nobody knows that it is of no use: what is left of an offer that was used, or was
    /// not looked at in time.
    pub refuse_rest: Span,
    /// How long room is refused that nothing of the present demand fits into. More room breaks through (R66), and another
    /// demand revives.
    pub refuse_misfit: Span,
    /// How long room is refused while nothing is wanted.
    pub refuse_idle: Span,
    /// Without demand for this long, offers are suppressed, if they could be revived at once.
    pub idle: Span,
    /// At most one revival in this time (law 8).
    pub revive_gap: Span,
    /// While the same demand waits offers are revived again after this, doubled up to `look`, since a call may be lost (R12).
    pub revive_again: Span,
    /// An idle shard has a look at all hosts after this: new ones are told by offers only.
    pub look: Span,
    /// Services leave a host this long before its planned maintenance, as far as their `max_unavailable` allows.
    pub lead: Span,
    /// Batch instances, which may end by themselves, leave this long before.
    pub last_call: Span,
    /// What was answered about maintenance may be asked again after this.
    pub ask_again: Span,
    /// The same while instances wait to be granted and the master does not list its agents, since no more is granted than the
    /// capacity that was seen. Doubled up to `look`.
    pub look_for_capacity: Span,
    /// Between two lists of all agents while instances wait for room.
    pub list: Span,
    /// The same while none do.
    pub list_idle: Span,
    /// Who may use hosts that have GPUs.
    pub gpu_hosts: GpuHosts,
    /// A host not heard of for this long after a new subscription, without tasks of ours, is forgotten.
    pub forget: Span,
    /// Most hosts of a cluster. Offers of further hosts are declined.
    pub most_hosts: usize,
}

impl Config {
    /// Times for a cluster with an allocation interval of about a second.
    #[must_use]
    pub const fn usual() -> Self {
        Self {
            hold: Span::seconds(1),
            hold_most: Span::seconds(5),
            refuse_rest: Span::seconds(1),
            refuse_misfit: Span::minutes(5),
            refuse_idle: Span::minutes(60),
            idle: Span::seconds(2),
            revive_gap: Span::seconds(5),
            revive_again: Span::minutes(1),
            look: Span::minutes(5),
            lead: Span::minutes(30),
            last_call: Span::minutes(2),
            ask_again: Span::minutes(1),
            look_for_capacity: Span::seconds(15),
            list: Span::seconds(15),
            list_idle: Span::minutes(1),
            gpu_hosts: GpuHosts::Kept,
            forget: Span::minutes(5),
            most_hosts: 262_144,
        }
    }
}
