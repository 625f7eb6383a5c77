//! The truth about each cluster over time: which others its site reaches, whether its Mesos works, and which
//! of its hosts are there.

use super::LOOK;
use crate::process::Who;
use crate::sites::Site;
use crate::world::World;
use echelon_core_model::store::Role;
use echelon_core_model::{Span, Timestamp};
use echelon_core_shard::Mode;

/// Two silences with less time between them may be one to others: what was sent at the end of the first comes
/// up to five seconds late, and a heartbeat is written each three seconds.
const ONE_SILENCE: Span = Span::seconds(10);
/// A host that falls silent is out of reach for Mesos after this time at the latest.
const MESOS_PATIENCE: Span = Span::seconds(75);

/// What is true of a cluster at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClusterTruth {
    /// Its site does not reach storage and membership both ways.
    pub(crate) is_cut: bool,
    /// Its site and that of the leading resource manager reach each other both ways. So it is while none
    /// leads.
    pub(crate) is_heard: bool,
    /// A process leads its shard, and is alive.
    pub(crate) is_led: bool,
    /// That process drives the cluster, after it has read what it must know.
    pub(crate) is_driven: bool,
    /// That process is subscribed to Mesos, or was a moment ago.
    pub(crate) is_subscribed: bool,
    /// Its leading master answers.
    pub(crate) has_master: bool,
    /// A host is there.
    pub(crate) has_agents: bool,
    /// All hosts are there.
    pub(crate) is_whole: bool,
    /// Its link to the resource manager is slow, or carries nothing.
    pub(crate) is_slow: bool,
    /// Its shard has got no answer of storage to something that it asked a moment ago.
    pub(crate) is_unanswered: bool,
}

impl ClusterTruth {
    /// Whether it has no shard, no Mesos or no storage to learn from what runs there.
    pub(crate) const fn is_out_of_sight(self) -> bool {
        self.is_cut || !self.is_led || !self.has_master
    }

    /// Whether it is cut off or without Mesos, as the product promises to see it. A shard without a
    /// subscription is without Mesos: it hears nothing and can stop nothing, although the master is back.
    pub(crate) const fn is_silent(self) -> bool {
        self.is_out_of_sight() || !self.is_subscribed
    }

    /// Whether it can start work, and the leading resource manager hears that over a stream.
    pub(crate) const fn is_good_and_heard(self) -> bool {
        self.is_good() && self.is_heard
    }

    /// Whether it can start work, as far as it alone is concerned.
    pub(crate) const fn is_good(self) -> bool {
        !self.is_silent()
    }
}

/// A time in which a cluster was silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Silence {
    from: Timestamp,
    /// `None`: it still is.
    until: Option<Timestamp>,
}

/// What was true of a cluster over time.
#[derive(Debug)]
pub(crate) struct ClusterCourse {
    /// When its row was stored.
    pub(crate) added_at: Timestamp,
    /// Each truth with the moment since when it is so, in order.
    truths: Vec<(Timestamp, ClusterTruth)>,
    silences: Vec<Silence>,
}

impl ClusterCourse {
    /// Of a cluster that is added now.
    pub(crate) const fn new(now: Timestamp) -> Self {
        Self {
            added_at: now,
            truths: Vec::new(),
            silences: Vec::new(),
        }
    }

    fn note(&mut self, truth: ClusterTruth, now: Timestamp) {
        if self.truths.last().is_none_or(|(_, last)| *last != truth) {
            self.truths.push((now, truth));
        }
        match self.silences.last_mut() {
            Some(last) if truth.is_silent() => {
                if last.until.is_some_and(|until| now.since(until) < ONE_SILENCE) {
                    last.until = None;
                } else if last.until.is_some() {
                    self.begin_silence(now);
                }
            }
            Some(last) => last.until = last.until.or(Some(now)),
            None if truth.is_silent() => self.begin_silence(now),
            None => {}
        }
    }

    /// What is true now, as it was noted last.
    pub(crate) fn last(&self) -> Option<ClusterTruth> {
        self.truths.last().map(|(_, truth)| *truth)
    }

    fn begin_silence(&mut self, now: Timestamp) {
        self.silences.push(Silence {
            from: now,
            until: None,
        });
    }

    /// Whether something was true at a moment of a time, the ends of which belong to it.
    pub(crate) fn was(&self, from: Timestamp, to: Timestamp, what: impl Fn(ClusterTruth) -> bool) -> bool {
        let next = self.truths.iter().skip(1).map(|(at, _)| *at);
        let ends = next.chain([Timestamp(u64::MAX)]);
        let mut pieces = self.truths.iter().zip(ends);
        pieces.any(|((begin, truth), end)| *begin <= to && end >= from && what(*truth))
    }

    /// For how long its shard could have subscribed by now, and has not.
    pub(crate) fn unsubscribed_for(&self, now: Timestamp) -> Span {
        let latest = self.truths.iter().rev();
        let missing = latest.take_while(|(_, truth)| !truth.is_out_of_sight() && !truth.is_subscribed);
        missing.last().map_or(Span::ZERO, |(since, _)| now.since(*since))
    }

    /// Whether the cluster was silent for so long, by a given moment, in a silence that was not over for
    /// longer than `after`.
    pub(crate) fn was_silent_for(&self, long: Span, after: Span, now: Timestamp) -> bool {
        let mut silences = self.silences.iter();
        silences.any(|silence| {
            let until = silence.until.unwrap_or(now).min(now);
            // The truth is noted now and then.
            let length = until.since(silence.from).plus_span(LOOK);
            length >= long && now.since(until) <= after
        })
    }
}

/// Since when the resource manager is led by the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ManagerCourse {
    leader: Option<(usize, u64)>,
    since: Timestamp,
}

impl ManagerCourse {
    /// For how long the same process has led; `None`: none leads.
    pub(crate) fn led_for(&self, now: Timestamp) -> Option<Span> {
        self.leader.map(|_| now.since(self.since))
    }
}

/// A sum of two spans.
trait SpanSum {
    fn plus_span(self, other: Self) -> Self;
}

impl SpanSum for Span {
    fn plus_span(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl World {
    /// Notes what is true of each cluster now.
    pub(crate) fn note_courses(&mut self) {
        let now = self.now;
        let truths: Vec<ClusterTruth> = (0..self.clusters.len())
            .map(|cluster| self.cluster_truth(cluster))
            .collect();
        self.federation.subscribed.clear();
        self.federation.unanswered.clear();
        for (course, truth) in self.federation.courses.iter_mut().zip(truths) {
            course.note(truth, now);
        }
        let leader = self.leading_manager();
        let known = &mut self.federation.manager;
        if known.leader != leader {
            *known = ManagerCourse { leader, since: now };
        }
    }

    /// The resource manager's process that leads, has read everything and is not paused.
    pub(crate) fn leading_manager(&self) -> Option<(usize, u64)> {
        let (who, life) = self.election(&Role::ResourceManager)?.found()?;
        let Who::Manager(index) = who else {
            return None;
        };
        let process = self.managers.get(index).filter(|p| p.life == life)?;
        let leads = process.driver.as_ref()?.leading().is_some();
        (leads && process.pause_at(self.now).is_none()).then_some((index, life))
    }

    fn cluster_truth(&self, cluster: usize) -> ClusterTruth {
        let Some(c) = self.clusters.get(cluster) else {
            return ClusterTruth::default();
        };
        let found = self.election(&self.shard_role(cluster)).and_then(|e| e.found());
        let leader = found.and_then(|(who, life)| {
            let Who::Shard { index, .. } = who else {
                return None;
            };
            let process = c.shards.get(index).filter(|p| p.life == life)?;
            let awake = process.pause_at(self.now).is_none();
            let driver = process.driver.as_ref().filter(|_| awake)?;
            Some((driver, (index, life)))
        });
        let connection = leader.and_then(|(_, of)| c.connections.get(&of));
        let away_for = |agent: &str| self.facts.away_since(agent).map(|since| self.now.since(since));
        let is_there = |agent: &str| away_for(agent).is_none_or(|span| span < MESOS_PATIENCE);
        let manager = self.leading_manager().map(|(index, _)| Who::Manager(index));
        let is_heard = manager.is_none_or(|who| self.are_joined(self.site_of(who), Site::Cluster(cluster)));
        ClusterTruth {
            is_cut: self.is_cut_off(cluster),
            is_heard,
            is_led: leader.is_some_and(|(driver, _)| driver.mode() != Mode::Follower),
            is_driven: leader.is_some_and(|(driver, _)| driver.mode() == Mode::Serving),
            is_subscribed: connection.is_some_and(|connection| connection.stream.is_some())
                || self.federation.subscribed.contains(&cluster),
            has_master: self.has_master(cluster),
            has_agents: c.mesos.agent_ids().any(|agent| is_there(agent.as_str())),
            is_whole: c
                .mesos
                .agent_ids()
                .all(|agent| away_for(agent.as_str()).is_none()),
            is_slow: self.is_link_slow(cluster),
            is_unanswered: self.federation.unanswered.contains(&cluster),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Span = Span::minutes(2);
    const SETTLES: Span = Span::minutes(2);

    fn well() -> ClusterTruth {
        ClusterTruth {
            is_heard: true,
            is_led: true,
            is_driven: true,
            is_subscribed: true,
            has_master: true,
            has_agents: true,
            is_whole: true,
            ..ClusterTruth::default()
        }
    }

    #[test]
    fn a_silence_ends_when_the_shard_is_subscribed_again() {
        let at = |second: u64| Timestamp(1).plus(Span::seconds(second));
        let mut course = ClusterCourse::new(at(0));
        course.note(well(), at(0));
        let lost = ClusterTruth {
            is_subscribed: false,
            has_master: false,
            ..well()
        };
        course.note(lost, at(10));
        let has_master = ClusterTruth {
            has_master: true,
            ..lost
        };
        course.note(has_master, at(125));
        assert!(!course.was_silent_for(AFTER, SETTLES, at(125)));
        // The shard has not been without a subscription by its own fault for longer.
        assert_eq!(course.unsubscribed_for(at(130)), Span::seconds(5));
        course.note(well(), at(138));
        assert_eq!(course.unsubscribed_for(at(139)), Span::ZERO);
        assert!(course.was_silent_for(AFTER, SETTLES, at(138)));
        // What was replaced is stopped in time from then on.
        assert!(course.was_silent_for(AFTER, SETTLES, at(258)));
        assert!(!course.was_silent_for(AFTER, SETTLES, at(259)));
    }
}
