//! Users: each submits a job through a gateway and later changes its mind. A gateway may die under a call; the user then
//! repeats the same request. What was acknowledged is remembered and judged at the end.

use crate::bounds::meets_bounds;
use crate::daemons;
use crate::gangs::as_gang;
use crate::homes::homes;
use crate::invariants::Broken;
use crate::pods::with_sidecars;
use crate::process::Who;
use crate::restarts::{Restarted, only, restarts};
use crate::rollouts::{NewVersion, edit, updates};
use crate::rules::with_rules;
use crate::sites::Site;
use crate::storage::Asker;
use crate::world::{BEGIN, Item, World};
use echelon_core_gateway::ApiError;
use echelon_core_gateway::call::{Call, CheckAnswer, Next};
use echelon_core_gateway::change::{Change, Wish, change_goal};
use echelon_core_gateway::create::{CreateJob, create_job};
use echelon_core_gateway::ending::end_instances;
use echelon_core_gateway::resource::JobRef;
use echelon_core_gateway::restart::restart_job;
use echelon_core_gateway::rollouts::{Steer, roll_back_job, steer};
use echelon_core_gateway::update::{scale_job, update_job};
use echelon_core_model::bucket::fnv1a;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::instance_limit::WantedInstances;
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{OpId, OpResult};
use echelon_core_model::{JobId, Span};
use echelon_core_testkit::build::JobBuilder;
use std::collections::VecDeque;
use std::fmt;

/// Who was refused a job asks again after this.
const NO_POOL: Span = Span::seconds(20);

/// All users.
#[derive(Debug, Default)]
pub struct Users(pub Vec<User>);

/// Something a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The job.
    Create,
    /// Another number of instances.
    Scale(u32),
    /// Another version of what runs, which may fail.
    Update(NewVersion),
    /// Something of the rollout that is under way.
    Steer(Steer),
    /// What ran before the last rollout.
    RollBack,
    /// Restarts of all instances, or of some.
    Restart(Restarted),
    /// The end of one instance, by its number.
    End(u32),
    /// Another goal.
    Goal(Wish),
}

/// One user with one job.
pub struct User {
    /// What the user submits.
    pub spec: JobSpec,
    /// What is still to be asked for, in order.
    pub plans: VecDeque<Asked>,
    /// The job, once it was acknowledged.
    pub job: Option<JobId>,
    /// What was acknowledged, in order.
    pub acknowledged: Vec<Asked>,
    call: Option<Call<Result<JobId, ApiError>>>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("job", &self.job)
            .field("acknowledged", &self.acknowledged)
            .finish_non_exhaustive()
    }
}

impl User {
    /// A user who will ask for these things in order.
    pub fn new(spec: JobSpec, plans: impl IntoIterator<Item = Asked>) -> Self {
        Self {
            spec,
            plans: plans.into_iter().collect(),
            job: None,
            acknowledged: Vec::new(),
            call: None,
        }
    }

    /// Storage was put back: what was acknowledged since is asked for again.
    pub(crate) fn rewind(&mut self, job: Option<JobId>, acknowledged: usize) {
        self.job = job;
        let lost = self
            .acknowledged
            .split_off(acknowledged.min(self.acknowledged.len()));
        lost.into_iter()
            .rev()
            .for_each(|asked| self.plans.push_front(asked));
    }
}

impl World {
    /// Thinks of users and of what they will ask for.
    pub(crate) fn plan_users(&mut self) {
        for n in 0..self.options.jobs {
            let user = if self.options.pressure {
                self.think_of_pressure(n)
            } else {
                let (spec, plans) = self.think(n);
                User::new(spec, plans)
            };
            self.users.0.push(user);
            let at = self.dice.users.span(Span::ZERO, Span(self.options.faulty.0 / 2));
            self.queue.plan(BEGIN.plus(at), Item::User(n));
        }
        if self.options.lasting > 0 {
            let spec = JobBuilder::service("lasting", self.options.lasting).build();
            let n = self.users.0.len();
            self.users.0.push(User::new(spec, [Asked::Create]));
            self.queue.plan(BEGIN.plus(Span::seconds(1)), Item::User(n));
        }
    }

    /// The pool of a user. Where pools are compared, each has as many.
    fn home(&mut self, n: usize) -> String {
        let homes = homes(&self.options);
        let home = if self.options.pools > 1 || homes.len() == 1 {
            n % homes.len()
        } else {
            self.dice.users.index(homes.len())
        };
        homes.get(home).cloned().unwrap_or_default()
    }

    fn think(&mut self, n: usize) -> (JobSpec, VecDeque<Asked>) {
        let plain = self.options.pools > 1;
        let tree = self.tree();
        let pool = self.home(n);
        let die = &mut self.dice.users;
        let most = u64::from(self.options.instances).max(1);
        let instances = u32::try_from(1 + die.below(most)).unwrap_or(1);
        let name = format!("job{n}");
        let daemons = self.options.daemons;
        if daemons > 0 && !plain && !self.trees.bounded && die.chance(daemons) {
            return daemons::think(&name, &pool, die);
        }
        let is_service = die.chance(400);
        // What is not served together is not drawn together.
        // Who takes a run over does not know its volume.
        let is_restored = self.options.faults.backups > 0;
        let is_stateful = is_service && die.chance(400) && !plain && !is_restored;
        let mut job = if is_stateful {
            let job = JobBuilder::stateful(&name, instances, 64);
            if die.chance(500) { job.reclaimed() } else { job }
        } else if is_service {
            JobBuilder::service(&name, instances)
        } else {
            let runtime = die.span(Span::seconds(1), Span::seconds(40));
            JobBuilder::batch(&name, instances).env("SIM_RUNTIME_MS", &runtime.0.to_string())
        };
        let is_gang = !is_service && die.chance(350);
        if !is_service && die.chance(250) {
            job = job.max_run(die.span(Span::seconds(5), Span::seconds(60)));
        }
        if die.chance(500) && !is_gang {
            job = job.spread();
        }
        if self.options.lent > 0 && die.chance(300) && !is_stateful {
            job = job.revocable();
        }
        if die.chance(300) && !is_gang {
            job = job.max_running(1 + instances / 2);
        }
        if !is_service && die.chance(200) {
            job = job.env("SIM_EXIT_CODE", "1").retry_limit(2);
        }
        if die.chance(300) && !plain {
            job = with_sidecars(job, is_service, die);
        }
        if is_gang {
            job = as_gang(job, die);
        }
        let mut plans = VecDeque::from([Asked::Create]);
        if is_service && die.chance(500) {
            plans.push_back(Asked::Scale(u32::try_from(die.below(most + 1)).unwrap_or(1)));
        }
        if is_service && die.chance(600) {
            plans.extend(updates(die));
        }
        plans.extend(restarts(instances, !is_gang, die));
        if die.chance(300) {
            plans.push_back(Asked::Goal(Wish::Stop));
        }
        if die.chance(200) {
            plans.push_back(Asked::Goal(Wish::Delete));
            // A retry that comes late, as from a queue: it must not make the job again.
            plans.push_back(Asked::Create);
        }
        job = job.pool(&pool);
        if self.trees.bounded {
            job = meets_bounds(job, &tree, die);
        }
        let mut spec = if plain {
            job.build()
        } else {
            with_rules(job.build(), n, die)
        };
        if self.options.faults.moves > 0 && die.chance(300) {
            let groups = spec.groups.iter_mut();
            groups.for_each(|group| group.siting.host_pool = HostPoolChoice::Any);
        }
        (spec, plans)
    }

    /// A user asks for the next thing, or for the same thing again.
    pub(crate) fn user_acts(&mut self, n: usize) {
        let now = self.now;
        if self.backups.are_stopped {
            return self.gateway_is_gone(n);
        }
        let chance = self.dice.users.bits();
        let Some(user) = self.users.0.get_mut(n) else {
            return;
        };
        let Some(asked) = user.plans.front().copied() else {
            // What it was told may still be lost.
            if self.may_put_back() {
                self.queue.plan(now.plus(Span::seconds(5)), Item::User(n));
            }
            return;
        };
        if user.call.is_some() {
            // The answer is under way; a pause of the call ends now.
            let next = user.call.as_mut().map(Call::on_pause);
            self.user_goes_on(n, next);
            return;
        }
        let job = user
            .job
            .map_or_else(|| JobRef::Name(user.spec.name.clone()), JobRef::Id);
        let change = Change {
            job,
            etag: String::new(),
        };
        let spec = user.spec.clone();
        self.federation.note_ask(n, user.acknowledged.len(), asked, now);
        let shown = self.sites.gateway(n).clock.shown(now);
        let (call, next) = Call::start(move |facts| async move {
            match asked {
                Asked::Create => {
                    let text = format!("{spec:?}");
                    let request = CreateJob {
                        request_id: format!("user{n}"),
                        origin: None,
                        hash: fnv1a(text.as_bytes()),
                        bytes: text.len(),
                        named: NamedFields::all_of(&spec),
                        violations: Vec::new(),
                        spec,
                    };
                    create_job(&facts, request, chance, shown).await
                }
                Asked::Scale(instances) => scale_job(&facts, change, None, instances, shown).await,
                Asked::Update(version) => update_job(&facts, change, edit(version), shown).await,
                Asked::Steer(steer_to) => steer(&facts, change, steer_to, shown).await,
                Asked::RollBack => roll_back_job(&facts, change, None, shown).await,
                Asked::Restart(some) => restart_job(&facts, change, &some.wish(), shown).await,
                Asked::End(number) => end_instances(&facts, change, (None, only(number)), shown).await,
                Asked::Goal(wish) => change_goal(&facts, change, wish, shown).await,
            }
            .map(|view| view.head.job)
        });
        user.call = Some(call);
        self.user_goes_on(n, Some(next));
    }

    /// Storage answered a user's gateway; one time in fifty the gateway has died meanwhile.
    pub(crate) fn user_hears(&mut self, n: usize, result: OpResult) {
        let dies = self.is_faulty() && self.dice.losses.chance(20);
        if dies || self.backups.are_stopped {
            return self.gateway_is_gone(n);
        }
        let Some(user) = self.users.0.get_mut(n) else {
            return;
        };
        let next = user.call.as_mut().map(|call| call.on(result));
        self.user_goes_on(n, next);
    }

    /// Nobody answers a user: the same is asked for again.
    fn gateway_is_gone(&mut self, n: usize) {
        if let Some(user) = self.users.0.get_mut(n) {
            user.call = None;
            self.queue.plan(self.now.plus(Span::seconds(1)), Item::User(n));
        }
    }

    fn user_goes_on(&mut self, n: usize, next: Option<Next<Result<JobId, ApiError>>>) {
        match next {
            None => {}
            Some(Next::Do(op)) => self.ask_storage(Asker::User(n), OpId(0), op),
            Some(Next::Wait(span)) => self.queue.plan(self.now.plus(span), Item::User(n)),
            Some(Next::Check(wanted)) => {
                let answer = self.check_instances(self.sites.gateway(n).site, &wanted);
                let user = self.users.0.get_mut(n);
                let next = user.and_then(|user| Some(user.call.as_mut()?.on_check(answer)));
                self.user_goes_on(n, next);
            }
            Some(Next::Done(Ok(job))) => self.user_is_answered(n, job),
            Some(Next::Done(Err(error))) => self.user_is_refused(n, &error),
        }
    }

    /// What the leading resource manager says to a gateway of instances that a job is to have.
    pub(crate) fn check_instances(&mut self, from: Site, wanted: &WantedInstances) -> CheckAnswer {
        let now = self.now;
        let all = 0..self.managers.len();
        let near: Vec<usize> = all
            .filter(|index| self.are_joined(from, self.site_of(Who::Manager(*index))))
            .collect();
        near.into_iter().find_map(|index| {
            let process = self.managers.get_mut(index)?;
            let shown = process.clock.shown(now);
            process.driver.as_mut()?.check_instances(wanted.clone(), shown)
        })
    }

    fn user_is_answered(&mut self, n: usize, job: JobId) {
        let pause = self
            .dice
            .users
            .span(Span::seconds(2), Span(self.options.faulty.0 / 2));
        let Some(user) = self.users.0.get_mut(n) else {
            return;
        };
        user.call = None;
        if let Some(before) = user.job.replace(job).filter(|before| *before != job) {
            let what = format!("user{n}: the request that made {before} made {job} too");
            self.broken.push(Broken { invariant: 2, what });
        }
        if let Some(asked) = user.plans.pop_front() {
            self.trace
                .line(self.now, &format!("user{n}: {asked:?} acknowledged for {job}"));
            user.acknowledged.push(asked);
            self.last_answer = Some(self.now);
            self.note_cause();
        }
        self.queue.plan(self.now.plus(pause), Item::User(n));
        for manager in 0..self.managers.len() {
            // A hint, to whoever listens; half of them are lost.
            let life = self.managers.get(manager).map_or(0, |p| p.life);
            let site = self.site_of(Who::Manager(manager));
            let is_lost = self.dice.losses.chance(500) || !self.reaches(self.sites.gateway(n).site, site);
            if !is_lost {
                self.tell_manager(
                    (manager, life),
                    self.now.plus(Span::millis(2)),
                    echelon_core_resource_manager::Event::Hint(job),
                );
            }
        }
    }

    fn user_is_refused(&mut self, n: usize, error: &ApiError) {
        let Some(user) = self.users.0.get_mut(n) else {
            return;
        };
        user.call = None;
        self.trace.line(
            self.now,
            &format!("user{n}: {:?}: {}", error.reason, error.message),
        );
        if error.is_retryable() {
            self.queue.plan(self.now.plus(Span::seconds(2)), Item::User(n));
        } else if user.job.is_none() {
            // Its pool is gone, goes, or allows too little: an operator will see to it.
            self.queue.plan(self.now.plus(NO_POOL), Item::User(n));
        } else {
            // The job has ended, or is ending: a truthful answer to a wish that came too late.
            user.plans.pop_front();
            self.queue.plan(self.now.plus(Span::seconds(2)), Item::User(n));
        }
    }
}
