//! What the cluster tells of tasks: applied to the record that knows the task, acknowledged when the effect is durable. Tasks
//! that no record knows are strangers.

use crate::Shard;
use crate::effects::Then;
use crate::kill::Target;
use crate::picture::{At, RunAt};
use crate::starts::fault_of;
use echelon_core_hosts::{self as hosts, Call, TaskState, TaskStatus};
use echelon_core_jobs::{Heard, News, OlderFate, Policy, Told, Whom, hear, settle, settle_older};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::gone::GoneCause;
use echelon_core_model::{HostId, MemberId, RunState, SidecarName};

impl Shard {
    /// Takes in what the cluster tells while the shard serves.
    pub(crate) fn on_told(&mut self, event: hosts::Event) {
        let Some(event) = self.served_or_held(event) else {
            return;
        };
        match event {
            hosts::Event::Update(status) => self.on_update(status),
            hosts::Event::Operation(status) => self.on_operation(&status),
            hosts::Event::Operated(call) => self.on_operated(call),
            hosts::Event::CallFailed { call, refused, why } => self.on_call_failed(call, refused, &why),
            hosts::Event::Unlisted { why } => self.on_unlisted(why),
            event => self.hosts_event(&event),
        }
    }

    pub(crate) fn on_update(&mut self, status: TaskStatus) {
        if self.is_reconcile_end(&status.task) {
            return;
        }
        let Ok(member) = status.task.parse::<MemberId>() else {
            // Not our naming: never touched. It is acknowledged, since its agent would repeat it for ever (R99).
            self.acknowledge(&status, None);
            return;
        };
        self.host_seen(&status);
        let instance = &member.run.instance;
        let group = self.picture.group(instance.job, &instance.group);
        if group.is_some_and(|g| g.set_aside.is_some()) {
            self.on_task_aside(&member, &status);
            return;
        }
        let run = self.picture.run_at(&member.run);
        match run.filter(|r| self.picture.run(*r).is_some()) {
            Some(run) => self.on_known(run, member.sidecar, &status),
            None => self.on_stranger(member, &status),
        }
    }

    /// An update about a run that is in its instance's record.
    fn on_known(&mut self, run: RunAt, sidecar: Option<SidecarName>, status: &TaskStatus) {
        if hosts::was_launched_before(status) {
            self.on_launched_before(run, status);
            return;
        }
        self.follow_host(run, status);
        self.reconciled(run, sidecar.as_ref());
        let news = News {
            of: sidecar.map_or(Whom::Main, Whom::Sidecar),
            ..news(status)
        };
        if news.told.is_proof_of_life() {
            self.forget_gone(run);
        }
        let failed = self.failed_start(run, status);
        self.take_in_news(run, &news);
        if status.state == TaskState::GoneByOperator && !news.told.is_proof_of_death() {
            self.note_gone(run, GoneCause::Operator);
        }
        if let Some(failed) = failed {
            self.note_failed_start(run, failed);
        }
        self.acknowledge(status, Some(run));
    }

    /// The cluster refuses a launch because it knows a task of this id. No id is launched twice, so that task
    /// was launched by a leader of which storage knows nothing any more. It may live: the cluster is asked
    /// where. Nothing of the refusal is stored, so it is acknowledged at once.
    fn on_launched_before(&mut self, run: RunAt, status: &TaskStatus) {
        self.freeze(format!(
            "Mesos has had task {} since before storage knows of it",
            status.task
        ));
        self.acknowledge(status, None);
        // Where that task is the master does not say. Asked with the agent of the refused launch it would answer that the
        // agent does not know it, which would count as an end.
        if status.uuid.is_none() {
            self.edit(run.0, |record| {
                let found = record
                    .run
                    .as_mut()
                    .filter(|r| (r.generation, r.number) == (run.1, run.2));
                if let Some(found) = found {
                    found.host = HostId::new("");
                }
            });
            self.account(run);
        }
        self.reconcile_soon(run);
    }

    /// An intent whose task runs elsewhere than it was to be launched: an earlier leader, of which storage
    /// knows nothing, launched it.
    fn follow_host(&mut self, run: RunAt, status: &TaskStatus) {
        let Some(host) = status.host.clone().filter(|_| is_alive(status)) else {
            return;
        };
        let known = self.picture.run(run);
        let unknown = HostId::new("");
        if known.is_none_or(|r| r.host == host || (r.state != RunState::Launching && r.host != unknown)) {
            return;
        }
        let hostname = self.hosts.host(&host).map_or(host.to_string(), |h| h.hostname);
        self.edit(run.0, |record| {
            let found = record
                .run
                .as_mut()
                .filter(|r| (r.generation, r.number) == (run.1, run.2));
            if let Some(found) = found {
                found.host = host;
                found.hostname = hostname.into();
            }
        });
        self.account(run);
    }

    /// Applies what is known of a run to its instance's record, with all that follows.
    pub(crate) fn take_in_news(&mut self, run: RunAt, news: &News) {
        let (at, generation, number) = run;
        let of_main = news.of == Whom::Main;
        let policy = self.policy(at.0);
        let now = self.now;
        // A look first: most repetitions change nothing, and then nothing is to be written.
        let tried = self.picture.record(at).cloned();
        let heard = tried.map_or(Heard::Nothing, |mut r| {
            hear(&mut r, (generation, number), news, policy.as_ref(), now)
        });
        if !matches!(heard, Heard::Nothing | Heard::Unknown) {
            self.edit(at, |r| hear(r, (generation, number), news, policy.as_ref(), now));
        }
        match heard {
            Heard::OlderAlive => self.on_older_alive(run, news),
            Heard::OlderEnded(older) => {
                self.note_older(at, &older);
                self.keep_log(at, &older);
            }
            Heard::Latest => self.on_latest(run, of_main),
            Heard::Older | Heard::Nothing | Heard::Unknown => {}
        }
        self.account(run);
    }

    /// The latest run is in another state.
    fn on_latest(&mut self, run: RunAt, of_main: bool) {
        self.end_pod(run, of_main);
        let now = self.now;
        let ended = self.picture.run(run).filter(|r| r.ended_at == Some(now)).cloned();
        if let Some(ended) = ended {
            self.keep_log(run.0, &ended);
        }
    }

    /// Where a member has brought its pod's end, the rest of it is killed; anew when the main task is dead, since until then only
    /// that one was.
    fn end_pod(&mut self, run: RunAt, of_main: bool) {
        let found = self.picture.run(run);
        if found.is_some_and(|r| r.state == RunState::Stopping && r.ending.is_some()) {
            if of_main {
                self.kills.restart(&Target::Run(run));
            }
            self.kill_when_stored(run);
        }
    }

    /// A run that was given up lives: it is adopted when the newer one is a mere intent and the instance has no volume, else stopped. While
    /// its grace is not known neither is done: it is asked about again when the spec is read.
    fn on_older_alive(&mut self, run: RunAt, news: &News) {
        let (at, generation, number) = run;
        let Some(grace) = self.grace(at) else {
            return;
        };
        let newest = self.picture.record(at).and_then(|r| r.run.as_ref());
        let newest = newest.map(|r| (at, r.generation, r.number));
        // What an instance with a volume has a newer run for was given up with its volume, and the newer run makes another one.
        let holds = self.picture.record(at).is_some_and(|r| r.volume.is_some());
        let unsent = !holds && newest.is_some_and(|n| self.credit.is_unsent(&n));
        let now = self.now;
        let fate = self.edit(at, |r| settle_older(r, (generation, number), unsent, grace, now));
        match fate {
            Some(OlderFate::Adopted) => {
                if let Some(dropped) = newest {
                    self.forget_launch(dropped);
                }
                // What it says of the run's probes counts from now on.
                let policy = self.policy(at.0);
                self.edit(at, |r| hear(r, (generation, number), news, policy.as_ref(), now));
            }
            Some(OlderFate::Stopped) => {
                if let Some(older) = self.picture.run(run).cloned() {
                    self.note_older(at, &older);
                }
                self.kill_when_stored(run);
            }
            Some(OlderFate::Unknown) | None => {}
        }
    }

    /// Acknowledges an update as soon as everything written about its instance so far is durable.
    pub(crate) fn acknowledge(&mut self, status: &TaskStatus, run: Option<RunAt>) {
        let (Some(uuid), Some(host)) = (status.uuid, status.host.clone()) else {
            return;
        };
        let call = Call::Acknowledge {
            task: status.task.clone(),
            host,
            uuid,
        };
        let lane = run.and_then(|(at, ..)| Some(self.picture.groups.get_mut(&at.0)?.cell(at.1).lane));
        let point = lane.map(|l| self.journal.point(l));
        self.journal.when_durable(point, Then::Call(call));
    }

    /// How failed runs of a group are tried again; `None` while its spec is not read.
    pub(crate) fn policy(&mut self, group: u32) -> Option<Policy> {
        let jitter = self.random.next();
        let group = self.picture.groups.get(&group)?;
        let (job, spec) = (group.spec.as_ref()?, group.group_spec()?);
        Some(Policy {
            kind: job.kind,
            retry: spec.retry,
            platform_retry: spec.platform_retry,
            restart: spec.restart,
            gang: job
                .gang
                .as_ref()
                .map_or(OnMemberFailure::Member, |g| g.on_failure),
            healthy_after: self.config.timing.healthy_after,
            jitter,
        })
    }

    /// Decides what the end of a run means that was stored before the job's spec was read.
    pub(crate) fn settle_end(&mut self, at: At) {
        if self.picture.record(at).is_some_and(|r| r.unsettled)
            && let Some(policy) = self.policy(at.0)
        {
            self.edit(at, |r| settle(r, &policy));
        }
    }
}

/// A status in the words of a run's life.
fn news(status: &TaskStatus) -> News {
    let told = match status.state {
        TaskState::Staging | TaskState::Starting => Told::Preparing,
        TaskState::Running => Told::Running,
        TaskState::Killing => Told::Ending,
        TaskState::Finished => Told::Succeeded,
        TaskState::Failed => Told::Failed,
        // Its executor killed it for its health: nobody asked for that.
        TaskState::Killed if status.healthy == Some(false) => Told::Failed,
        TaskState::Killed => Told::Killed,
        TaskState::Error => Told::Invalid,
        TaskState::Dropped => Told::Dropped,
        TaskState::Gone => Told::Gone,
        // An agent says it of what it has killed, the master of what the agent may still have to kill.
        TaskState::GoneByOperator if status.uuid.is_some() => Told::Gone,
        TaskState::GoneByOperator => Told::Silent,
        // None of these is proof of death (R102, R104, R109).
        TaskState::Lost | TaskState::Unreachable | TaskState::Unknown => Told::Silent,
    };
    News {
        of: Whom::Main,
        told,
        reason: hosts::reason_of(status),
        exit_code: exit_code(status),
        healthy: status.healthy,
        ready: status.ready,
        fault: fault_of(status),
        at: status.at,
    }
}

/// Whether the cluster says that the task is there.
pub(crate) fn is_alive(status: &TaskStatus) -> bool {
    news(status).told.is_proof_of_life()
}

/// Whether the cluster says that nothing is left of a task, or that nobody will hear of it again.
pub(crate) fn is_dead(status: &TaskStatus) -> bool {
    status.state == TaskState::GoneByOperator || news(status).told.is_proof_of_death()
}

/// The exit status, which Mesos tells only inside a sentence.
fn exit_code(status: &TaskStatus) -> Option<i32> {
    if status.state == TaskState::Finished {
        return Some(0);
    }
    let (_, number) = status.message.split_once("exited with status ")?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
