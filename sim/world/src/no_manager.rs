//! A world in which all resource managers are dead for longer than grants hold.
//! What waits keeps waiting, and nothing is stopped.

use crate::client::{Asked, User};
use crate::faults::Fault;
use crate::options::Options;
use crate::process::Who;
use crate::shares::pool_of;
use crate::world::{BEGIN, Item, Outcome, World};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{Answer, Query, Role};
use echelon_core_model::{Epoch, JobId, Span, Timestamp};
use echelon_core_resource_manager::Event;
use echelon_core_testkit::build::JobBuilder;

/// What became of work that waited when the resource managers died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abandoned {
    /// Instances of it that lived then, with those of which the grant was under way.
    pub before: u64,
    /// The same just before they returned.
    pub meanwhile: u64,
    /// And in the end.
    pub after: u64,
    /// Whether one of them led in between: a fault may bring a process back early.
    pub led_meanwhile: bool,
    /// Instances of a service that lived when the resource managers died, and just before they returned.
    pub granted: [u64; 2],
    /// How the world ended.
    pub outcome: Outcome,
}

/// Those without a reservation take everything before.
const OTHERS_COME: Span = Span::seconds(10);
/// Then the reserved pool's work waits.
const RESERVED_COME: Span = Span::seconds(20);
const MANAGERS_DIE: Span = Span::seconds(30);
/// What was granted as they died has begun by then.
const UNDER_WAY: Span = Span::seconds(10);
/// The others end when no resource manager is there any more to grant their room.
const OTHERS_RUN: Span = Span::seconds(150);
const MANAGERS_AWAY: Span = Span::minutes(5);
const END: Span = Span::minutes(14);

impl World {
    /// The epoch of resource managers that is stored.
    fn manager_epoch(&self) -> Epoch {
        match self.store.read(&Query::Leadership(Role::ResourceManager)) {
            Answer::Leadership(stored) => stored.epoch,
            _ => Epoch::default(),
        }
    }

    /// Tells every resource manager of every job, as gateways do.
    fn hint_at_all(&mut self) {
        let jobs: Vec<JobId> = self.users.0.iter().filter_map(|u| u.job).collect();
        let lives: Vec<(usize, u64)> = self.managers.iter().map(|p| p.life).enumerate().collect();
        for who in lives {
            for job in &jobs {
                self.tell_manager(who, self.now, Event::Hint(*job));
            }
        }
    }

    /// Plays a world in which all resource managers die, for longer than grants hold, while the first pool's work
    /// waits behind that of the second.
    #[must_use]
    pub fn abandoned(seed: u64, options: Options) -> Abandoned {
        let cores = u32::try_from(options.clusters * options.hosts * 4).unwrap_or(u32::MAX);
        let mut world = Self::new(seed, options);
        let runtime = OTHERS_RUN.0.to_string();
        let (first, second) = (pool_of(&world.options, 0), pool_of(&world.options, 1));
        let steady = JobBuilder::service("steady", 2).pool(&second).spread().build();
        let others = JobBuilder::batch("others", cores - 2).env("SIM_RUNTIME_MS", &runtime);
        let others = others.pool(&second).spread().build();
        let each = cores / u32::try_from(world.options.clusters.max(1)).unwrap_or(u32::MAX);
        // Bound to clusters, they wait where there is no room, and not nowhere.
        let waits = world.clusters.iter().map(|c| {
            let job = JobBuilder::service(&format!("reserved-{}", c.id), each);
            (job.only(&[c.id.as_str()]).pool(&first).build(), RESERVED_COME)
        });
        let before = [(steady, OTHERS_COME), (others, OTHERS_COME)];
        let jobs: Vec<(JobSpec, Span)> = before.into_iter().chain(waits).collect();
        let known = world.users.0.len();
        for (spec, at) in jobs {
            let n = world.users.0.len();
            world.users.0.push(User::new(spec, [Asked::Create]));
            world.queue.plan(BEGIN.plus(at), Item::User(n));
        }
        let gone = BEGIN.plus(MANAGERS_DIE);
        // A hint may be lost, and all heads are read once a minute: too late for this.
        while world.now < gone {
            world.run_until(world.now.plus(Span::seconds(1)).min(gone));
            world.hint_at_all();
        }
        for index in 0..world.options.managers {
            let crash = Fault::Crash(Who::Manager(index), MANAGERS_AWAY);
            world.queue.plan(gone, Item::Fault(crash));
        }
        let lives = |world: &Self, users: std::ops::Range<usize>| -> u64 {
            let jobs = world.users.0.get(users).unwrap_or_default();
            let jobs = jobs.iter().filter_map(|u| u.job);
            jobs.map(|job| world.live_instances(job)).sum()
        };
        let live_at = |world: &mut Self, at: Timestamp| {
            world.run_until(at);
            let all = world.users.0.len();
            (lives(world, known + 2..all), lives(world, known..known + 1))
        };
        let epoch = world.manager_epoch();
        let (before, granted) = live_at(&mut world, gone.plus(UNDER_WAY));
        let (meanwhile, still) = live_at(&mut world, gone.plus(Span(MANAGERS_AWAY.0 - 1)));
        let led_meanwhile = world.manager_epoch() != epoch;
        let (after, _) = live_at(&mut world, BEGIN.plus(END));
        world.judge_end();
        Abandoned {
            before,
            meanwhile,
            led_meanwhile,
            after,
            granted: [granted, still],
            outcome: world.outcome(),
        }
    }
}
