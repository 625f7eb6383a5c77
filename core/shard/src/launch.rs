//! From a durable intent to the call that launches it, and what becomes of intents whose call was never sent, refused or
//! not answered.

use crate::Shard;
use crate::event::Effect;
use crate::given::Given;
use crate::picture::{At, RunAt};
use echelon_core_hosts::{self as hosts, Call, Launch, Need, TaskStatus};
use echelon_core_jobs::{News, Told, Whom, hear};
use echelon_core_model::instance::Run;
use echelon_core_model::sharing::AgentState;
use echelon_core_model::{HostId, Reason, ReasonCode, Resources, RunState};
use std::collections::BTreeSet;

impl Shard {
    /// Launches intents that are durable now, with one call for the host. What has been overtaken is left out.
    pub(crate) fn launch(&mut self, host: &HostId, runs: &[RunAt]) {
        self.hosts.let_go(host);
        let due: Vec<RunAt> = runs.iter().copied().filter(|r| self.credit.settle(r)).collect();
        let first: BTreeSet<RunAt> = runs
            .iter()
            .copied()
            .filter(|r| self.take_first_start(*r))
            .collect();
        // From now on they are watched as what is between two states.
        self.picture.agenda.extend(due.iter().map(|(at, ..)| *at));
        let (unstored, due): (Vec<RunAt>, Vec<RunAt>) =
            due.into_iter().partition(|run| self.is_group_refused(run.0.0));
        unstored
            .into_iter()
            .for_each(|run| self.drop_launch(run, "storage refuses a row of its group"));
        // The intent was written under the start lease, and the launch leaves only under it, too.
        let may_start_new = self.may_start_new();
        let (lapsed, due): (Vec<RunAt>, Vec<RunAt>) = due
            .into_iter()
            .partition(|run| first.contains(run) && !may_start_new);
        lapsed
            .into_iter()
            .for_each(|run| self.drop_launch(run, "the start lease had lapsed"));
        self.make_peers(&due);
        let launches: Vec<Launch> = due.iter().filter_map(|r| self.launch_of(*r)).collect();
        let (launches, volumeless): (Vec<Launch>, Vec<Launch>) = launches
            .into_iter()
            .partition(|l| self.hosts.has_volume_for(host, l));
        let (volumeless, due) = self.split_off(due, &volumeless);
        volumeless
            .into_iter()
            .for_each(|run| self.drop_launch(run, "its volume was not offered"));
        if due.is_empty() {
            return;
        }
        let call = if self.may_act() && self.contact.subscribed {
            self.hosts.accept(host, launches, self.now)
        } else {
            None
        };
        let Some(call) = call else {
            due.into_iter()
                .for_each(|run| self.drop_launch(run, "its offer was gone"));
            self.placing.hungrier(self.now, self.config.timing.commit_delay);
            return;
        };
        self.credit.hand_over(call.weight());
        self.out.push(Effect::Cluster(call));
        // What is to be stopped before it was sent has certainly no task.
        let (due, overtaken): (Vec<RunAt>, Vec<RunAt>) = due.into_iter().partition(|r| {
            self.picture
                .run(*r)
                .is_none_or(|run| run.state == RunState::Launching)
        });
        overtaken
            .into_iter()
            .for_each(|run| self.drop_launch(run, "it was not wanted any more"));
        due.iter().for_each(|run| self.note_start(*run));
        let timeout = self.now.plus(self.config.timing.launch_timeout);
        self.launch_due.extend(due.into_iter().map(|run| (timeout, run)));
    }

    /// Runs whose launches are named, and the others.
    fn split_off(&self, runs: Vec<RunAt>, named: &[Launch]) -> (Vec<RunAt>, Vec<RunAt>) {
        runs.into_iter().partition(|run| {
            let task = self.picture.task(*run);
            task.is_some_and(|t| named.iter().any(|l| l.task == t))
        })
    }

    fn launch_of(&self, run: RunAt) -> Option<Launch> {
        let (at, ..) = run;
        let found = self.picture.run(run).filter(|r| r.state == RunState::Launching)?;
        let group = self.picture.groups.get(&at.0)?;
        let spec = group.spec.as_ref()?;
        let of = self.picture.group_spec_of(group, found.spec_version)?;
        let task = self.picture.task(run)?;
        let drives = spec.rules.driver.as_ref() == Some(&of.name);
        let driver = drives.then(|| self.drivers.variables(group.job()));
        let given = Given {
            cluster: &self.config.name,
            job: spec,
            group: of,
            run: found,
            task: &task,
            peers: self.peers.get(&group.job()),
            driver: driver.as_ref(),
        };
        let (runtime, sidecars) = (given.runtime(&of.runtime_of(at.1), None), given.sidecars());
        Some(Launch {
            name: format!("{}.{}.{}", spec.name, group.name(), at.1),
            discovery: format!("{}.{}", group.name(), spec.name),
            runtime,
            sidecars,
            ports: found.ports.to_vec(),
            resources: of.resources,
            revocable: found.revocable_room(),
            reserved: Vec::new(),
            volume: self.task_volume(at, of),
            grace: of.grace,
            max_run: of.max_run,
            labels: spec.labels.clone(),
            task,
        })
    }

    /// An intent of which the cluster certainly has no task: the instance tries again.
    fn drop_launch(&mut self, run: RunAt, why: &str) {
        let (at, generation, number) = run;
        let news = News {
            of: Whom::All,
            told: Told::Dropped,
            reason: Reason::new(ReasonCode::LaunchDropped).at(why),
            exit_code: None,
            healthy: None,
            ready: None,
            fault: None,
            at: None,
        };
        let launching = self
            .picture
            .run(run)
            .is_some_and(|r| matches!(r.state, RunState::Launching | RunState::Stopping));
        if launching {
            let (policy, now) = (self.policy(at.0), self.now);
            self.edit(at, |r| hear(r, (generation, number), &news, policy.as_ref(), now));
        }
        self.account(run);
    }

    /// An intent that was dropped for an older run: nothing of it was or will be sent.
    pub(crate) fn forget_launch(&mut self, run: RunAt) {
        self.credit.settle(&run);
        self.take_first_start(run);
        self.picture.agenda.insert(run.0);
        self.account(run);
    }

    /// A call was refused or got lost.
    pub(crate) fn on_call_failed(&mut self, call: Call, refused: bool, why: &str) {
        // Kills and reconciliations repeat themselves; updates that were not acknowledged come again.
        let launches: &[Launch] = match &call {
            Call::Accept { launches, .. } => launches,
            _ => &[],
        };
        for launch in launches {
            let Some(run) = self
                .picture
                .run_at(&launch.task)
                .filter(|r| self.picture.run(*r).is_some())
            else {
                continue;
            };
            if refused {
                self.drop_launch(run, why);
            } else {
                self.reconcile_soon(run);
            }
        }
        let why = why.to_owned();
        self.hosts_event(&hosts::Event::CallFailed { call, why, refused });
    }

    /// Asks about launches of which nothing was heard in time.
    pub(crate) fn chase_launches(&mut self) {
        while let Some((due, run)) = self
            .launch_due
            .first()
            .copied()
            .filter(|(due, _)| *due <= self.now)
        {
            self.launch_due.remove(&(due, run));
            if self
                .picture
                .run(run)
                .is_some_and(|r| r.state == RunState::Launching)
            {
                self.reconcile_soon(run);
            }
        }
    }

    /// Feeds the host manager. New room is a reason to place; a host that is heard again may know of its silent runs.
    pub(crate) fn hosts_event(&mut self, event: &hosts::Event) {
        self.hosts.on_event(event, self.now);
        if let hosts::Event::Agents { agents, .. } = event {
            // Nothing else announces an agent that came back to a new master while offers are suppressed.
            for agent in agents.iter().filter(|a| a.state == AgentState::Active) {
                self.losses.note_there(&agent.hostname, self.now);
                // An offer may have let its capacity look larger than it is.
                self.note_offered_again(&agent.host);
                for run in self.silent.remove(&agent.host).unwrap_or_default() {
                    self.reconcile_soon(run);
                }
            }
            // A host that is smaller than was believed may not hold all that we believe alive there.
            for agent in agents {
                self.note_offered_again(&agent.host);
            }
        }
        self.look_at_replaced();
        if let hosts::Event::Offers(offers) = event {
            self.placing.hungrier(self.now, self.config.timing.commit_delay);
            for offer in offers {
                self.losses.note_there(&offer.hostname, self.now);
                self.note_offered_again(&offer.host);
                self.note_volumes_seen(&offer.host, &offer.reserved);
                for run in self.silent.remove(&offer.host).unwrap_or_default() {
                    self.reconcile_soon(run);
                }
            }
        }
    }

    /// Notes whether a host offers capacity of runs that we believe alive: Mesos gives it back when a task has died,
    /// and tells of that when it can. While the host is away nothing new is known of that.
    fn note_offered_again(&mut self, host: &HostId) {
        match self.hosts.offers_again(host) {
            Some(true) => {
                self.offered_again.insert(host.clone());
            }
            Some(false) => {
                self.offered_again.remove(host);
            }
            None => {}
        }
    }

    /// Lets the host manager know of an update, and keeps in mind whose host is silent.
    pub(crate) fn host_seen(&mut self, status: &TaskStatus) {
        self.hosts_event(&hosts::Event::Update(status.clone()));
    }

    /// Counts a run's room on its host while it may be alive, and no longer.
    pub(crate) fn account(&mut self, run: RunAt) {
        let Some(task) = self.picture.task(run) else {
            return;
        };
        let Some(found) = self.picture.run(run) else {
            self.hosts.release(&task, self.now);
            return;
        };
        let away = matches!(found.state, RunState::Unreachable | RunState::Lost);
        if found.may_have_task() && found.reason.code == ReasonCode::HostUnreachable {
            self.losses.note_silent(&found.hostname);
        }
        if away || found.has_silent_member() {
            self.silent.entry(found.host.clone()).or_default().insert(run);
        }
        if !found.may_have_task() {
            self.hosts.release(&task, self.now);
            return;
        }
        let (host, version) = (found.host.clone(), found.spec_version);
        let (revocable, ports, pod) = (
            found.revocable_room(),
            found.ports.clone(),
            !found.members.is_empty(),
        );
        let shape = self.shape(run.0, found);
        self.note_volume_in_use(run);
        match shape {
            Some(shape) => {
                // Members of a pod end one by one.
                let need = Need::new(shape, shape.in_kinds_of(revocable), &ports);
                let need = if pod { need.of_pod() } else { need };
                self.hosts.adopt(&task, &host, &need, self.now);
            }
            None => self.read_spec(task.instance.job, version),
        }
    }

    fn shape(&self, at: At, run: &Run) -> Option<Resources> {
        let group = self.picture.groups.get(&at.0)?;
        let spec = self.picture.group_spec_of(group, run.spec_version)?;
        Some(spec.room_left(run))
    }

    /// Counts every run of an instance.
    pub(crate) fn account_all(&mut self, at: At) {
        let runs = self
            .picture
            .record(at)
            .into_iter()
            .flat_map(|r| r.run.iter().chain(&r.older));
        let runs: Vec<RunAt> = runs.map(|r| (at, r.generation, r.number)).collect();
        runs.into_iter().for_each(|run| self.account(run));
    }

    /// Counts the live runs of a group that have a spec version.
    pub(crate) fn account_group(&mut self, number: u32, version: u32) {
        let Some(group) = self.picture.groups.get(&number).filter(|g| g.served) else {
            return;
        };
        let live = group
            .records()
            .flat_map(|(n, r)| r.live_runs().map(move |run| (n, run)));
        let of_version = live.filter(|(_, run)| run.spec_version == version);
        let runs: Vec<RunAt> = of_version
            .map(|(n, r)| ((number, n), r.generation, r.number))
            .collect();
        let sent = runs
            .into_iter()
            .filter(|r| !self.credit.is_unsent(r))
            .collect::<Vec<_>>();
        let runs = sent.iter().filter_map(|run| self.picture.run(*run));
        let hosts: BTreeSet<HostId> = runs.map(|run| run.host.clone()).collect();
        sent.into_iter().for_each(|run| self.account(run));
        // What was offered while they were not counted may have been theirs.
        hosts.iter().for_each(|host| self.note_offered_again(host));
    }
}
