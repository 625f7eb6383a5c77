//! Worlds of 2 to 6 clusters in which several things go wrong, and what must be true of all of them. Clusters
//! are cut off, lose their Mesos or all of their machines, one or several at a time. Meanwhile operators
//! drain, cordon, add and remove clusters, users change their jobs, and leaders die.
//!
//! Each cluster is at a site of its own, and storage and membership at a central one. Resource managers and
//! gateways are at any of them. Partitions divide two of these sites, one way or both ways (`sites.rs`).
//!
//! The clock of each process is set wrong by up to 10 s, and goes too fast or too slow by up to 1 %
//! (`clocks.rs`). Shards report changes 20 to 200 ms apart, another distance in each world.
//!
//! The judges read what agents ran, and what the world did. They read no record of the product, with one
//! exception: what it shows to people is compared with the truth.
//!
//! | judge | file |
//! | --- | --- |
//! | each run that did not end by itself has a cause | `disruption.rs` |
//! | no act of ours makes more of a service unavailable than it allows | `availability.rs` |
//! | nothing goes to and fro between clusters | `moves.rs` |
//! | the shown health of a cluster is true, and shards subscribe in time | `health.rs` |
//! | a partition holds nothing back that could run elsewhere | `starts.rs` |
//! | each instance that is to run does so in the end, once, and results count once | `rest.rs` |

mod availability;
mod course;
mod disruption;
mod health;
mod history;
mod jobs;
mod mesos_loss;
mod moves;
mod operators;
mod outages;
mod partitions;
mod rest;
mod starts;

use crate::client::Asked;
use crate::dice::Dice;
use crate::invariants::Broken;
use crate::options::Options;
use crate::world::{BEGIN, Outcome, World};
use course::ClusterCourse;
use course::ManagerCourse;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::{InstanceId, Span, Timestamp};
use history::RunHistory;
use outages::SlowLink;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) use mesos_loss::ProbedMaster;

/// How often the world's truth is noted and the shown health is looked at.
const LOOK: Span = Span::millis(250);
/// Fewest and most clusters at first.
const FEWEST_CLUSTERS: usize = 2;
const MOST_CLUSTERS: usize = 6;
/// How far apart the reports of changes are, which no safety may depend on.
const LEAST_APART: Span = Span::millis(20);
const MOST_APART: Span = Span::millis(201);

/// What is noted to judge by.
#[derive(Debug, Default)]
pub(crate) struct FederationNotes {
    /// Whether the world is such a one.
    is_federated: bool,
    runs: RunHistory,
    courses: Vec<ClusterCourse>,
    manager: ManagerCourse,
    asks: Vec<UserAsk>,
    desired: Vec<DesiredSpan>,
    /// Clusters at which a process has subscribed since the truth was noted last.
    subscribed: BTreeSet<usize>,
    /// Clusters of which a shard's process has got no answer of storage since then.
    unanswered: BTreeSet<usize>,
    /// Instances that were ended since their users wanted fewer.
    withdrawn: BTreeSet<InstanceId>,
    /// Instances that a restart or a scale-down has ended, where a restart was not allowed to: what it would have broken.
    doubtful: BTreeMap<InstanceId, String>,
    /// Users whose jobs lack an instance that could run, and since when.
    lacking: BTreeMap<usize, Timestamp>,
    slow_links: BTreeMap<usize, SlowLink>,
    /// When a cluster is added; `None`: none is.
    added_at: Option<Timestamp>,
    /// When the last thing that was planned is over.
    last_change: Timestamp,
    figures: FederationFigures,
}

/// Something that a user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UserAsk {
    user: usize,
    /// How many of its requests were acknowledged before.
    number: usize,
    /// When it asked for it last.
    repeated_at: Timestamp,
    asked: Asked,
}

/// For how long an operator wanted something of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DesiredSpan {
    cluster: usize,
    desired: DesiredState,
    from: Timestamp,
    until: Option<Timestamp>,
}

/// How much of what is judged has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FederationFigures {
    /// Instances that began at a second cluster.
    pub moved: u64,
    /// Runs that did not end by themselves, each with a cause.
    pub disrupted: u64,
    /// Of these, runs of services whose end was judged by `max_unavailable`.
    pub voluntary: u64,
    /// Times that a shown health was judged.
    pub health: u64,
    /// Of these, times that it was another one than healthy.
    pub unhealthy: u64,
    /// Of these, times that only heartbeats in storage showed how the cluster was.
    pub unheard: u64,
    /// Partitions between two sites.
    pub partitions: u64,
    /// Clusters that were added.
    pub added: u64,
    /// Clusters that were removed for good.
    pub removed: u64,
}

/// What came of such a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FederationEnd {
    /// How much of what is judged has happened.
    pub figures: FederationFigures,
    /// How the world ended.
    pub outcome: Outcome,
}

/// The number of clusters, and the distance between reports, are drawn, if the world is such a one.
pub(crate) fn drawn(options: Options, dice: &mut Dice) -> Options {
    if !options.federated {
        return options;
    }
    let more = dice.federation.index(MOST_CLUSTERS - FEWEST_CLUSTERS + 1);
    Options {
        clusters: FEWEST_CLUSTERS + more,
        report_apart: dice.reports.span(LEAST_APART, MOST_APART),
        ..options
    }
}

impl World {
    /// Plays a seed from beginning to end.
    #[must_use]
    pub fn federated(seed: u64, options: Options) -> FederationEnd {
        let mut world = Self::new(seed, options);
        world.federation.is_federated = true;
        world.found_federation();
        while world.broken.is_empty() && world.now < world.federation_end() {
            world.run_until(world.now.plus(LOOK));
            world.note_courses();
            world.judge_health();
            world.judge_starts();
        }
        if world.broken.is_empty() {
            world.judge_rest();
            world.judge_moves();
        }
        world.judge_end();
        FederationEnd {
            figures: world.federation.figures,
            outcome: world.outcome(),
        }
    }

    /// By then everything must have come to rest.
    fn federation_end(&self) -> Timestamp {
        self.last_change().plus(self.options.settle)
    }

    /// When something was last done to the world, as far as it is planned.
    fn last_change(&self) -> Timestamp {
        let faults_end = BEGIN.plus(self.options.faulty);
        let last = self.federation.last_change.max(faults_end);
        self.last_answer.map_or(last, |at| at.max(last))
    }

    /// Something that no judge allows.
    fn break_rule(&mut self, invariant: u8, what: String) {
        self.broken.push(Broken { invariant, what });
    }
}

impl FederationNotes {
    /// A user asks for something, perhaps not for the first time.
    pub(crate) fn note_ask(&mut self, user: usize, number: usize, asked: Asked, at: Timestamp) {
        if !self.is_federated {
            return;
        }
        let mut known = self.asks.iter_mut();
        if let Some(ask) = known.find(|ask| (ask.user, ask.number) == (user, number)) {
            ask.repeated_at = at;
            return;
        }
        self.asks.push(UserAsk {
            user,
            number,
            repeated_at: at,
            asked,
        });
    }

    /// A partition between two sites begins.
    pub(crate) const fn note_partition(&mut self) {
        self.figures.partitions += 1;
    }

    /// A process of a cluster's shard gets no answer of storage, and asks again.
    pub(crate) fn note_unanswered(&mut self, cluster: usize) {
        self.unanswered.insert(cluster);
    }

    /// A process of a cluster's shard is subscribed to Mesos.
    pub(crate) fn note_subscribed(&mut self, cluster: usize) {
        self.subscribed.insert(cluster);
    }

    /// Notes what an operator wants of a cluster from now on.
    pub(crate) fn note_desired(&mut self, cluster: usize, desired: DesiredState, now: Timestamp) {
        let open = self.desired.iter_mut();
        for span in open.filter(|span| span.cluster == cluster && span.until.is_none()) {
            span.until = Some(now);
        }
        self.desired.push(DesiredSpan {
            cluster,
            desired,
            from: now,
            until: None,
        });
    }

    /// What an operator wants of a cluster, last.
    fn desired_of(&self, cluster: usize) -> DesiredState {
        let spans = self.desired.iter().rev();
        let last = spans.into_iter().find(|span| span.cluster == cluster);
        last.map_or(DesiredState::Active, |span| span.desired)
    }
}
