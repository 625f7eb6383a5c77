//! Shards that are cut off from resource managers and from storage at the moment when work is granted to
//! them, while they go on. What they write then is lost or comes late, and what is ordered of them comes
//! late. Beside that leaders of both roles die. What has not begun goes to the other cluster under the
//! start lease, and agents are asked whether anything ever began at both.

use crate::client::{Asked, User};
use crate::faults::Fault;
use crate::invariants::Broken;
use crate::options::Options;
use crate::process::Who;
use crate::world::{BEGIN, Item, Outcome, World};
use echelon_core_model::store::{Answer, Query};
use echelon_core_model::{InstanceId, JobId, MemberId, Span, Timestamp};
use echelon_core_testkit::build::JobBuilder;
use std::collections::{BTreeMap, BTreeSet};

/// When the first job comes, and how long after it each further one.
const FIRST: Span = Span::seconds(30);
const EACH: Span = Span::seconds(200);
const ROUNDS: u32 = 3;
/// Agents are asked this often.
const LOOK: Span = Span::millis(50);

/// What came of a world in which shards were cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silenced {
    /// Instances that moved to the other cluster.
    pub moved: u64,
    /// How often starts were forbidden at a cluster.
    pub forbidden: u64,
    /// Instances that live in the end.
    pub living: u64,
    /// How the world ended.
    pub outcome: Outcome,
}

impl World {
    /// Plays a world in which a shard is cut off as each job comes.
    #[must_use]
    pub fn silenced(seed: u64, options: Options) -> Silenced {
        let mut world = Self::new(seed, options);
        for round in 0..ROUNDS {
            let at = BEGIN.plus(Span(FIRST.0 + u64::from(round) * EACH.0));
            let job = JobBuilder::service(&format!("web-{round}"), 6).spread().build();
            let user = world.users.0.len();
            world.users.0.push(User::new(job, [Asked::Create]));
            world.queue.plan(at, Item::User(user));
            world.plan_silence(at);
        }
        let end = BEGIN.plus(Span(FIRST.0 + u64::from(ROUNDS + 1) * EACH.0));
        let mut begun: BTreeMap<InstanceId, BTreeSet<usize>> = BTreeMap::new();
        while world.now < end && world.broken.is_empty() {
            world.run_until(world.now.plus(LOOK));
            world.note_begun(&mut begun);
        }
        let twice = begun.iter().filter(|(_, clusters)| clusters.len() > 1);
        let twice: Vec<Broken> = twice
            .map(|(instance, clusters)| Broken {
                invariant: 1,
                what: format!("{instance} began at {clusters:?}"),
            })
            .collect();
        world.broken.extend(twice);
        world.judge_end();
        let jobs: Vec<JobId> = world.users.0.iter().filter_map(|u| u.job).collect();
        let forbidden = match world.store.read(&Query::StartBans) {
            Answer::StartBans(row) => row.clusters.values().map(|ban| ban.number).sum(),
            _ => 0,
        };
        Silenced {
            moved: jobs.iter().map(|job| world.moved_of(*job)).sum(),
            forbidden,
            living: jobs.iter().map(|job| world.live_instances(*job)).sum(),
            outcome: world.outcome(),
        }
    }

    /// A cut around the moment when a job is granted, and leaders that die meanwhile.
    fn plan_silence(&mut self, at: Timestamp) {
        let cluster = self.dice.silences.index(self.options.clusters);
        let from = at.plus(self.dice.silences.span(Span::ZERO, Span::millis(700)));
        // Shorter than the lease, about as long as a manager waits, and longer.
        let (least, most) = match self.dice.silences.below(3) {
            0 => (Span::seconds(5), Span::seconds(60)),
            1 => (Span::seconds(66), Span::seconds(80)),
            _ => (Span::seconds(80), Span::seconds(120)),
        };
        let span = self.dice.silences.span(least, most);
        self.queue.plan(from, Item::Fault(Fault::CutOff(cluster, span)));
        let around_end = from.plus(Span(span.0.saturating_sub(12_000)));
        let deaths = [
            (Who::Manager(0), around_end),
            (Who::Manager(1), around_end),
            (Who::Shard { cluster, index: 0 }, from),
            (Who::Shard { cluster, index: 1 }, around_end),
        ];
        for (who, first) in deaths {
            let is_there = match who {
                Who::Manager(index) => index < self.options.managers,
                Who::Shard { index, .. } => index < self.options.shards,
            };
            if is_there && self.dice.silences.chance(300) {
                let when = first.plus(self.dice.silences.span(Span::ZERO, Span::seconds(20)));
                let away = self.dice.silences.span(Span::millis(100), Span::seconds(5));
                self.queue.plan(when, Item::Fault(Fault::Crash(who, away)));
            }
        }
    }

    /// Which instances agents run now, and where.
    fn note_begun(&self, begun: &mut BTreeMap<InstanceId, BTreeSet<usize>>) {
        for (cluster, of) in self.clusters.iter().enumerate() {
            for (_, task) in of.mesos.live_tasks() {
                if let Ok(member) = task.as_str().parse::<MemberId>() {
                    begun.entry(member.run.instance).or_default().insert(cluster);
                }
            }
        }
    }

    /// How many instances of a job were assigned a second time.
    fn moved_of(&self, job: JobId) -> u64 {
        let Answer::Assignments(_, all) = self.store.read(&Query::Assignment(job)) else {
            return 0;
        };
        let ranges = all.iter().flat_map(|a| a.groups.values().flatten());
        let moved = ranges.filter(|r| r.generation.0 > 1);
        moved.map(|r| r.range.count()).sum()
    }
}
