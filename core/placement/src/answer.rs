//! What placement answers: a host for each instance that fits, a typed reason with numbers for the others, and a report
//! for those who want to know how it came about.

use echelon_core_model::{GroupName, HostId, InstanceId, JobId, RangeSet, Reason};
use std::fmt;

/// The answer to a problem. Judged by `check`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Copied from the problem.
    pub token: u64,
    /// Hosts for instances, in the order in which they were served.
    pub choices: Vec<Choice>,
    /// Why the others have none: an entry for each bound instance, and at most one more a group, in the order in which groups were
    /// served.
    pub unplaced: Vec<Unplaced>,
}

/// A host for an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// The instance.
    pub instance: InstanceId,
    /// Its host.
    pub host: HostId,
    /// Its ports there, in the order of its group's wishes.
    pub ports: Vec<u16>,
}

/// Instances of a group that found no host. They share one reason, since they share shape and constraints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unplaced {
    /// The job.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// The instances.
    pub numbers: RangeSet,
    /// Why: with the scarce kind, what is needed and the most that a host has left of it.
    pub reason: Reason,
    /// What was in the way, host by host.
    pub hosts: Obstacles,
}

/// What keeps an instance from hosts: each host is counted once, at the first obstacle in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Obstacles {
    /// All hosts.
    pub hosts: u32,
    /// Hosts that are in another host pool.
    pub host_pool: u32,
    /// Hosts that break a constraint.
    pub constraint: u32,
    /// Hosts that are kept for work with GPUs.
    pub kept: u32,
    /// Hosts that are to be empty for planned maintenance.
    pub maintenance: u32,
    /// Hosts that are far from what the group wants to be near to.
    pub affinity: u32,
    /// Hosts that are near to what it wants to be away from, or to what wants to be away from it.
    pub anti_affinity: u32,
    /// Hosts that it would share with others where one of both wants them for itself.
    pub exclusive: u32,
    /// Hosts where, or in whose rack or zone, as many of the group are as may be.
    pub max_per: u32,
    /// Hosts that lend too little for work that runs on what is lent.
    pub slack: u32,
    /// Hosts that are too small even when empty.
    pub capacity: u32,
    /// Hosts that other tasks of ours fill.
    pub room: u32,
    /// Hosts with enough room by our count, but without the ports.
    pub ports: u32,
    /// Hosts that tasks of other frameworks fill.
    pub used_by_others: u32,
    /// Hosts with enough room, which is offered to other frameworks.
    pub offered_to_others: u32,
    /// Hosts with enough room by our count, of which too little is offered at the moment.
    pub offer: u32,
}

impl Obstacles {
    /// Hosts with enough room by our count and the ports, which is not offered to us.
    #[must_use]
    pub const fn not_offered(&self) -> u32 {
        self.offer + self.offered_to_others + self.used_by_others
    }
}

/// How an answer came about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Report {
    /// Instances asked for.
    pub items: usize,
    /// Instances placed.
    pub placed: usize,
    /// Of these, on hosts that they should have avoided, since no other fitted.
    pub avoided_used: usize,
    /// Hosts looked at.
    pub hosts: usize,
    /// What was wrong with the problem itself; the rest of it was solved.
    pub problems: Vec<Flaw>,
}

/// What was wrong with a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// A host is listed twice; the later entry was dropped.
    HostTwice(HostId),
    /// A group is listed twice; the later entry was dropped.
    GroupTwice(JobId, GroupName),
    /// An instance is listed twice; it was placed once.
    ItemTwice(InstanceId),
}

impl fmt::Display for Obstacles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hosts,
            host_pool,
            constraint,
            kept,
            maintenance,
            affinity,
            anti_affinity,
            exclusive,
            max_per,
            slack,
            capacity,
            room,
            ports,
            used_by_others,
            offered_to_others,
            offer,
        } = self;
        write!(f, "{hosts} {}", if *hosts == 1 { "host" } else { "hosts" })?;
        let parts = [
            (host_pool, "in another host pool"),
            (constraint, "break a constraint"),
            (kept, "kept for work with GPUs"),
            (maintenance, "in maintenance"),
            (affinity, "far from what it wants to be near to"),
            (anti_affinity, "near to what it is kept away from"),
            (exclusive, "shared with others"),
            (max_per, "with as many of it as may be there"),
            (slack, "lend too little"),
            (capacity, "too small"),
            (room, "full"),
            (ports, "without the ports"),
            (used_by_others, "used by other frameworks"),
            (offered_to_others, "offered to other frameworks"),
            (offer, "not offered"),
        ];
        let mut sign = ": ";
        for (n, what) in parts.into_iter().filter(|(n, _)| **n > 0) {
            write!(f, "{sign}{n} {what}")?;
            sign = ", ";
        }
        Ok(())
    }
}
