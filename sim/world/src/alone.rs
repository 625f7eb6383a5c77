//! Invariant 15: parts of pool reservations sum to no more than the reservation, and a shard that hears no resource manager begins
//! nothing outside its parts. And a world in which all resource managers are dead for longer than grants hold.

use crate::client::{Asked, User};
use crate::faults::Fault;
use crate::invariants::Broken;
use crate::mesos::ClusterWorld;
use crate::options::Options;
use crate::process::Who;
use crate::shares::{pool_of, reservation};
use crate::world::{BEGIN, Item, Outcome, World};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query, Role};
use echelon_core_model::{JobId, Resources, Span, Timestamp};
use echelon_core_resource_manager as rm;
use echelon_core_shard::Shard;
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeMap;

/// What pools had at clusters, by index, when their shards were alone at first.
pub(crate) type AtFirst = BTreeMap<(usize, u64), BTreeMap<String, Resources>>;

/// What became of a pool's reserved work in a world without resource managers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// Instances of it that lived when the resource managers died.
    pub before: u64,
    /// The same just before they returned.
    pub alone: u64,
    /// And in the end.
    pub after: u64,
    /// How the world ended.
    pub outcome: Outcome,
}

/// Those without a reservation take everything before.
const OTHERS_COME: Span = Span::seconds(10);
/// Then the reserved pool's work waits.
const RESERVED_COME: Span = Span::seconds(20);
/// It is known by then, and has its parts.
const PARTS_GIVEN: Span = Span::seconds(110);
/// The others end when no resource manager is there any more to grant their room.
const OTHERS_RUN: Span = Span::seconds(150);
const MANAGERS_AWAY: Span = Span::minutes(5);
const END: Span = Span::minutes(14);

impl World {
    /// The shard that leads a cluster: whose epoch is stored.
    fn leader<'a>(&self, cluster: &'a ClusterWorld) -> Option<&'a Shard> {
        let query = Query::Leadership(Role::Shard(cluster.id.clone()));
        let Answer::Leadership(stored) = self.store.read(&query) else {
            return None;
        };
        let mut shards = cluster.shards.iter().filter_map(|p| p.driver.as_ref());
        shards.find(|s| s.epoch() == stored.epoch)
    }

    pub(crate) fn judge_reservations(&mut self) {
        if self.options.reserved == 0 {
            return;
        }
        let reservation = reservation(&self.options);
        let mut found = Vec::new();
        let tree = self.tree();
        let is_moved = self
            .trees
            .founded
            .values()
            .any(|p| tree.pools.get(&p.path).is_none_or(|now| now.id != p.id));
        for path in tree.pools.keys() {
            let parts: Vec<Resources> = self.clusters.iter().map(|c| self.part_of(c, path)).collect();
            let sum = parts.iter().fold(Resources::ZERO, |sum, p| sum.plus(*p));
            if !sum.fits(reservation) {
                found.push(format!("parts of {path} sum to {sum}, reserved is {reservation}"));
            }
        }
        for (at, cluster) in self.clusters.iter().enumerate() {
            let Some(leader) = self.leader(cluster) else {
                continue;
            };
            let key = (at, leader.epoch().0);
            if !leader.is_alone() {
                self.alone.remove(&key);
                continue;
            }
            // While that is not known it begins nothing either.
            let Some(here) = leader.pools_here() else {
                continue;
            };
            let first = self.alone.entry(key).or_insert_with(|| {
                let active = here.iter().map(|p| (p.path.clone(), p.active));
                active.collect()
            });
            for pool in here {
                let most = pool
                    .part
                    .max_each(first.get(&pool.path).copied().unwrap_or_default());
                // A job that is changed has its pool's new path from then on: what it has comes from another path.
                if !pool.active.fits(most) && !is_moved {
                    let what = format!(
                        "{}: {} has {} of {most} alone",
                        cluster.id, pool.path, pool.active
                    );
                    found.push(what);
                }
            }
        }
        let found = found.into_iter().map(|what| Broken { invariant: 15, what });
        self.broken.extend(found);
    }

    /// The most that the leader of a cluster, or the next one, may make of a pool. What an older leader holds that does not know yet
    /// that it is none is of no use to it: storage refuses what it decides.
    fn part_of(&self, cluster: &ClusterWorld, path: &str) -> Resources {
        let stored = match self.store.read(&Query::Shard(cluster.id.clone())) {
            Answer::Shard(row) => row.parts.of(path),
            _ => Resources::ZERO,
        };
        let held = self.leader(cluster).map(|s| s.pool_parts().of(path));
        stored.max_each(held.unwrap_or_default())
    }

    /// Tells every resource manager of every job, as gateways do.
    fn hint_at_all(&mut self) {
        let jobs: Vec<JobId> = self.users.0.iter().filter_map(|u| u.job).collect();
        let lives: Vec<(usize, u64)> = self.managers.iter().map(|p| p.life).enumerate().collect();
        for who in lives {
            for job in &jobs {
                self.tell_manager(who, self.now, rm::Event::Hint(*job));
            }
        }
    }

    /// Whether every cluster has a part of a pool.
    fn has_parts(&self, path: &str) -> bool {
        self.clusters.iter().all(|c| !self.part_of(c, path).is_zero())
    }

    /// Plays a world in which the first pool's work waits behind others' when all resource managers die, for longer than grants hold.
    #[must_use]
    pub fn abandoned(seed: u64, options: Options) -> Abandoned {
        let cores = u32::try_from(options.clusters * options.hosts * 4).unwrap_or(u32::MAX);
        let mut world = Self::new(seed, options);
        let runtime = OTHERS_RUN.0.to_string();
        let others = JobBuilder::batch("others", cores).env("SIM_RUNTIME_MS", &runtime);
        let others = others.pool(&pool_of(&world.options, 1)).spread().build();
        let path = pool_of(&world.options, 0);
        let each = cores / u32::try_from(world.options.clusters.max(1)).unwrap_or(u32::MAX);
        // Bound to clusters, they wait where there is no room, and not nowhere.
        let waits = world.clusters.iter().map(|c| {
            let job = JobBuilder::service(&format!("reserved-{}", c.id), each);
            (job.only(&[c.id.as_str()]).pool(&path).build(), RESERVED_COME)
        });
        let jobs: Vec<(JobSpec, Span)> = std::iter::once((others, OTHERS_COME)).chain(waits).collect();
        let first = world.users.0.len() + 1;
        for (spec, at) in jobs {
            let n = world.users.0.len();
            world.users.0.push(User::new(spec, [Asked::Create]));
            world.queue.plan(BEGIN.plus(at), Item::User(n));
        }
        let live_at = |world: &mut Self, at: Timestamp| {
            world.run_until(at);
            let reserved = world.users.0.iter().skip(first).filter_map(|u| u.job);
            reserved.map(|job| world.live_instances(job)).sum()
        };
        // As soon as parts are given: those who are entitled to room are not kept waiting for long.
        while world.broken.is_empty() && !world.has_parts(&path) && world.now < BEGIN.plus(PARTS_GIVEN) {
            world.run_until(world.now.plus(Span::seconds(1)));
            world.hint_at_all();
        }
        let gone = world.now;
        for index in 0..world.options.managers {
            let crash = Fault::Crash(Who::Manager(index), MANAGERS_AWAY);
            world.queue.plan(gone, Item::Fault(crash));
        }
        let before = live_at(&mut world, gone);
        let alone = live_at(&mut world, gone.plus(Span(MANAGERS_AWAY.0 - 1)));
        let after = live_at(&mut world, BEGIN.plus(END));
        world.judge_end();
        Abandoned {
            before,
            alone,
            after,
            outcome: world.outcome(),
        }
    }
}
