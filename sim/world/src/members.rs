//! Membership: one leader for each role, sessions that expire when a process is silent, and the highest epoch ever
//! published. What a deposed leader hears of it comes late; that is the point.

use crate::process::Who;
use echelon_core_model::store::Stamp;
use echelon_core_model::{Epoch, Span, Timestamp};
use std::collections::BTreeMap;

/// A process silent for longer is no member any more.
pub const SESSION: Span = Span::seconds(4);
/// A process that hears no answer for longer takes its leadership as lost.
pub const LEASE: Span = Span::millis(3200);

/// A candidate's session.
#[derive(Debug, Clone, Copy)]
struct Session {
    life: u64,
    /// Silent (dead or paused) since.
    silent_since: Option<Timestamp>,
    /// May not lead again before: it stepped down.
    not_before: Timestamp,
}

/// The election of one role.
#[derive(Debug, Default)]
pub struct Election {
    sessions: BTreeMap<Who, Session>,
    leader: Option<(Who, u64)>,
    published: Stamp,
    /// The leader that published its address, as others find it.
    found: Option<(Who, u64)>,
    /// When each process hears the last news that is on its way.
    heard_at: BTreeMap<Who, Timestamp>,
}

/// What an election tells processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It leads now.
    Elected(Who, u64),
    /// It cannot tell whether it still leads.
    Suspended(Who, u64),
    /// It leads on.
    Resumed(Who, u64),
    /// It leads no more.
    Deposed(Who, u64),
}

impl Told {
    /// Whom it is about, and who hears it.
    pub const fn who(self) -> Who {
        let (Self::Elected(who, _) | Self::Suspended(who, _) | Self::Resumed(who, _) | Self::Deposed(who, _)) =
            self;
        who
    }
}

impl Election {
    /// When a process hears news that would reach it at `soon`: never before what it was told earlier, since a session's
    /// events come in order. A process that heard of its election first and of its earlier end after it would stay a follower
    /// that all others take for the leader.
    pub fn in_order(&mut self, who: Who, soon: Timestamp) -> Timestamp {
        let at = self.heard_at.get(&who).map_or(soon, |last| soon.max(*last));
        self.heard_at.insert(who, at);
        at
    }

    /// A process joins, or joins again after a restart.
    pub fn join(&mut self, who: Who, life: u64, not_before: Timestamp) {
        self.sessions.insert(
            who,
            Session {
                life,
                silent_since: None,
                not_before,
            },
        );
    }

    /// A process died or was paused.
    pub fn silent(&mut self, who: Who, now: Timestamp) {
        if let Some(session) = self.sessions.get_mut(&who) {
            session.silent_since = Some(now);
        }
    }

    /// A paused process goes on; its session may be gone by now.
    pub fn heard(&mut self, who: Who) {
        if let Some(session) = self.sessions.get_mut(&who) {
            session.silent_since = None;
        }
    }

    /// Whether a process leads in this life.
    pub fn is_led_by(&self, who: Who, life: u64) -> bool {
        self.leader == Some((who, life))
    }

    /// A process whose connection was away for longer than its lease joins again, behind the others.
    pub fn rejoin(&mut self, who: Who, life: u64, now: Timestamp) {
        if self.leader.is_some_and(|(leader, _)| leader == who) {
            self.leader = None;
            self.found = None;
        }
        self.join(who, life, now.plus(Span::millis(500)));
    }

    /// The leader gives up and stays back for a while.
    pub fn step_down(&mut self, who: Who, life: u64, until: Timestamp) -> Option<Told> {
        let session = self.sessions.get_mut(&who).filter(|s| s.life == life)?;
        session.not_before = until;
        if self.leader != Some((who, life)) {
            return None;
        }
        self.leader = None;
        self.found = None;
        Some(Told::Deposed(who, life))
    }

    /// The leader published the epoch that it took.
    pub fn publish(&mut self, who: Who, life: u64, epoch: Epoch) {
        self.published = self.published.max(Stamp { epoch, sequence: 0 });
        if self.leader == Some((who, life)) {
            self.found = Some((who, life));
        }
    }

    /// The leader told that a write is durable.
    pub fn mark(&mut self, who: Who, life: u64, stamp: Stamp) {
        if self.leader == Some((who, life)) && stamp.epoch == self.published.epoch {
            self.published = self.published.max(stamp);
        }
    }

    /// The highest epoch ever published, with the newest write of it that was told to be durable.
    pub const fn published(&self) -> Stamp {
        self.published
    }

    /// Where others find the leader.
    pub const fn found(&self) -> Option<(Who, u64)> {
        self.found
    }

    /// Expires sessions and elects.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Told> {
        let mut told = Vec::new();
        let gone = |s: &Session| s.silent_since.is_some_and(|since| now.since(since) >= SESSION);
        if let Some((who, life)) = self.leader
            && self.sessions.get(&who).is_none_or(|s| gone(s) || s.life != life)
        {
            self.leader = None;
            self.found = None;
            told.push(Told::Deposed(who, life));
        }
        if self.leader.is_none() {
            let free = |s: &Session| s.silent_since.is_none() && s.not_before <= now;
            if let Some((who, s)) = self.sessions.iter().find(|(_, s)| free(s)) {
                self.leader = Some((*who, s.life));
                told.push(Told::Elected(*who, s.life));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_overtake_no_earlier_ones() {
        let mut election = Election::default();
        let (a, b) = (Who::Manager(0), Who::Manager(1));
        assert_eq!(election.in_order(a, Timestamp(400)), Timestamp(400));
        assert_eq!(election.in_order(a, Timestamp(300)), Timestamp(400));
        assert_eq!(election.in_order(b, Timestamp(300)), Timestamp(300));
        assert_eq!(election.in_order(a, Timestamp(500)), Timestamp(500));
    }

    #[test]
    fn a_silent_leader_is_replaced_after_its_session() {
        let mut election = Election::default();
        let (a, b) = (Who::Manager(0), Who::Manager(1));
        election.join(a, 1, Timestamp(0));
        election.join(b, 1, Timestamp(0));
        assert_eq!(election.tick(Timestamp(0)), [Told::Elected(a, 1)]);
        election.publish(a, 1, Epoch(3));
        election.silent(a, Timestamp(10));
        assert!(election.tick(Timestamp(SESSION.0)).is_empty());
        assert_eq!(
            election.tick(Timestamp(10 + SESSION.0)),
            [Told::Deposed(a, 1), Told::Elected(b, 1)]
        );
        assert_eq!((election.found(), election.published().epoch), (None, Epoch(3)));
    }
}
