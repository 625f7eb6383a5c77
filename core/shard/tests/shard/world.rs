//! The test language: a shard, a storage and a cluster in virtual time. Say what is wanted, let it run, look.

use crate::cluster::Cluster;
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::directive::{
    Directive, Grant, Order, OwnChanges, Report, ReportPart, SliceOrder, SliceReport,
};
use echelon_core_model::instance::{BlockKey, InstanceRecord, Run};
use echelon_core_model::job::{Desired, Goal, Head};
use echelon_core_model::log::{NoTail, Tail, Tails};
use echelon_core_model::restart::Restarts;
use echelon_core_model::rollout::Rollout;
use echelon_core_model::spec::JobSpec;
use echelon_core_model::store::{
    Answer, Consistency, Decision, Leadership, Op, OpFailure, OpId, OpResult, Query, Refusal, RefusedRow,
    RefusedWhy, Role, Stamp, Trouble, TroubleKind, Write,
};
use echelon_core_model::time::Span;
use echelon_core_model::{
    AssignedRange, Assignment, ClusterId, Epoch, Generation, GroupName, InstanceNumber, InstanceRange, JobId,
    MemberId, Releasing, RunState, TaskId, Timestamp, Version,
};
use echelon_core_placement::{Problem, place};
use echelon_core_shard::{
    Alarm, AskedTails, Config, Effect, Event, LinkId, Mode, Shard, Timing, check, check_sets,
};
use echelon_core_testkit::build::{job_id, main_group, shape};
use echelon_core_testkit::store::ModelStore;
use std::collections::VecDeque;

/// What storage does with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    Works,
    /// Nothing is answered until it works again.
    Stalls,
    /// Reads work, commits stall.
    StallsCommits,
    /// Everything fails, nothing is done.
    Fails,
    /// Everything is done, and the answer says that it failed.
    DoesAndFails,
    /// Nothing is done, for one reason.
    Troubled(TroubleKind),
}

/// Whether a write is refused.
pub type Judge = Box<dyn Fn(&Write) -> bool>;

pub struct World {
    pub shard: Shard,
    pub store: ModelStore,
    pub cluster: Cluster,
    pub storage: Storage,
    /// Writes that are refused for good.
    pub refuses: Option<Judge>,
    /// Reads of this bucket stall.
    pub slow_bucket: Option<u16>,
    /// Reads of the switches stall.
    pub slow_control: bool,
    /// Reads of specs stall.
    pub slow_specs: bool,
    /// Heartbeats stall.
    pub slow_heartbeats: bool,
    pub now: Timestamp,
    pub stalled: VecDeque<(OpId, Op)>,
    /// What agents say of logs; `None`: nothing.
    pub logs: Option<Tail>,
    /// Runs whose logs were asked for.
    pub fetched: Vec<AskedTails>,
    pub questions: VecDeque<Problem>,
    pub placement_works: bool,
    pub reports: Vec<Report>,
    pub alarms: Vec<Alarm>,
    pub stepped_down: Vec<String>,
    pub published: Stamp,
    pub calls: Vec<Call>,
    pub ops: Vec<Op>,
    pub link: LinkId,
    /// The epoch that its opener says it took.
    pub opened_by: Epoch,
    /// Streams that the shard has refused, and why.
    pub refused: Vec<(LinkId, String)>,
    pub sequence: u64,
    pub rm: Epoch,
    /// How the job is brought to a new version, and how far that reaches.
    pub rollout: Option<Rollout>,
    pub below: u32,
    /// Restarts of parts of the job.
    pub restarts: Option<Restarts>,
    pub trace: Vec<String>,
    pub events: VecDeque<Event>,
    /// How often the shard asked to be woken.
    pub wakes: u64,
}

pub fn c1() -> ClusterId {
    ClusterId::new("c1")
}

pub fn config(holder: &str) -> Config {
    Config {
        cluster: c1(),
        name: "east".to_owned(),
        holder: holder.to_owned(),
        address: "127.0.0.1:1".to_owned(),
        seed: 7,
        timing: Timing::default(),
        reserves: true,
        replaced_framework: None,
    }
}

pub fn job() -> JobId {
    job_id(1)
}

pub fn seconds(n: u64) -> Span {
    Span::seconds(n)
}

/// All of an output.
pub fn wrote(bytes: &[u8]) -> Tail {
    Tail::Read {
        bytes: bytes.into(),
        size: bytes.len() as u64,
    }
}

/// A range of this cluster at generation 1.
pub fn range(first: u32, last: u32) -> AssignedRange {
    AssignedRange {
        range: InstanceRange { first, last },
        cluster: c1(),
        generation: Generation(1),
        former: None,
        releasing: None,
    }
}

/// The same, marked to leave.
pub fn marked(range: AssignedRange, to: Option<&str>, count: Option<u64>) -> AssignedRange {
    let releasing = Releasing {
        to: to.map(ClusterId::new),
        why: if to.is_none() && count.is_none() {
            echelon_core_model::ReasonCode::ScaledDown
        } else {
            echelon_core_model::ReasonCode::Moved
        },
        count,
    };
    AssignedRange {
        releasing: Some(releasing),
        ..range
    }
}

impl World {
    /// A follower, an empty storage, and three hosts of four cores.
    pub fn new() -> Self {
        Self {
            shard: Shard::new(config("one")),
            store: ModelStore::new(),
            cluster: Cluster::of(3, shape(4, 4096)),
            storage: Storage::Works,
            refuses: None,
            slow_bucket: None,
            slow_control: false,
            slow_specs: false,
            slow_heartbeats: false,
            now: Timestamp(1_000_000),
            stalled: VecDeque::new(),
            logs: Some(wrote(b"hello\n")),
            fetched: Vec::new(),
            questions: VecDeque::new(),
            placement_works: true,
            reports: Vec::new(),
            alarms: Vec::new(),
            stepped_down: Vec::new(),
            published: Stamp::default(),
            calls: Vec::new(),
            ops: Vec::new(),
            link: LinkId(1),
            opened_by: Epoch(0),
            refused: Vec::new(),
            sequence: 0,
            rm: Epoch(1),
            rollout: None,
            below: u32::MAX,
            restarts: None,
            trace: Vec::new(),
            events: VecDeque::new(),
            wakes: 0,
        }
    }

    /// A leader that serves, with a resource manager connected.
    pub fn serving() -> Self {
        let mut w = Self::new();
        w.elect();
        w.run(seconds(1));
        assert_eq!(w.shard.mode(), Mode::Serving);
        w.connect();
        w
    }

    pub fn elect(&mut self) {
        let published = self.published;
        self.step(Event::Elected { published });
    }

    /// A resource manager that took the epoch `rm` opens a stream.
    pub fn connect(&mut self) {
        self.lead(self.rm);
        self.open(Leadership::taken(self.rm, "rm", 7));
    }

    /// A resource manager takes an epoch, unless it or a newer one is taken.
    pub fn lead(&mut self, epoch: Epoch) {
        let query = Query::Leadership(Role::ResourceManager);
        let Answer::Leadership(stored) = self.store.read(&query) else {
            panic!()
        };
        if stored.epoch < epoch {
            self.store.perform(Op::Decide(Decision::TakeEpoch {
                role: Role::ResourceManager,
                next: Leadership::taken(epoch, "rm", 7),
                expected: stored.epoch,
            }));
        }
    }

    /// A stream opens whose opener says that it took this.
    pub fn open(&mut self, taken: Leadership) {
        self.link = LinkId(self.link.0 + 1);
        self.opened_by = taken.epoch;
        self.step(Event::LinkOpened(self.link));
        let hello = Directive {
            epoch: taken.epoch,
            sequence: 0,
            order: Order::Hello(taken),
        };
        self.step(Event::Directive(self.link, hello));
    }

    /// The process dies; another one starts.
    pub fn crash(&mut self) {
        let holder = format!("after {}", self.now.0);
        self.shard = Shard::new(config(&holder));
        self.events.clear();
        self.stalled.clear();
        self.questions.clear();
        self.cluster.subscribed = false;
        self.cluster.out.clear();
        self.cluster.offers.clear();
    }

    /// Dies, starts, is elected and serves; the resource manager does not come back by itself.
    pub fn restart(&mut self) {
        self.crash();
        self.elect();
        self.run(seconds(1));
        assert_eq!(self.shard.mode(), Mode::Serving);
    }

    /// Stores a job whose goal is to run, as the first version or the next.
    pub fn store_job(&mut self, spec: &JobSpec) {
        self.store_head(spec, Goal::default());
    }

    pub fn store_head(&mut self, spec: &JobSpec, goal: Goal) {
        self.store_head_of(job(), spec, goal);
    }

    /// The same of any job.
    pub fn store_head_of(&mut self, job: JobId, spec: &JobSpec, goal: Goal) {
        let expected = match self.store.read(&Query::Head(job)) {
            Answer::Head(Some(h)) => Some(h.version),
            _ => None,
        };
        let version = expected.unwrap_or_default().next();
        let spec_version = u32::try_from(version.0).unwrap();
        let put = Decision::PutSpec {
            job,
            version: spec_version,
            spec: spec.clone(),
        };
        self.store.perform(Op::Decide(put));
        let head = Head {
            job,
            version,
            void: false,
            goal,
            spec_version,
            name: spec.name.clone(),
            pool: spec.pool.clone(),
            pool_id: None,
            kind: spec.kind,
            owner: String::new(),
            labels: spec.labels.clone(),
            instances: spec.instances(),
            updated_at: self.now,
            past_rollouts: Vec::new(),
            rollout: self.rollout,
            verdict: None,
            schedule: None,
            origin: None,
            restarts: self.restarts.clone().map(Box::new),
            spec_digest: None,
        };
        self.store
            .perform(Op::Decide(Decision::PutHead { head, expected }));
    }

    pub fn head_version(&self) -> Version {
        match self.store.read(&Query::Head(job())) {
            Answer::Head(Some(h)) => h.version,
            _ => Version(0),
        }
    }

    pub fn goal(&self) -> Goal {
        match self.store.read(&Query::Head(job())) {
            Answer::Head(Some(h)) => h.goal,
            _ => Goal::default(),
        }
    }

    /// Stores an assignment.
    pub fn assign(&mut self, ranges: &[AssignedRange]) {
        self.assign_groups(&[(main_group(), ranges)]);
    }

    /// Stores an assignment of several groups.
    pub fn assign_groups(&mut self, groups: &[(GroupName, &[AssignedRange])]) {
        self.assign_of(job(), groups);
    }

    /// The same of any job.
    pub fn assign_of(&mut self, job: JobId, groups: &[(GroupName, &[AssignedRange])]) {
        let mut assignment = Assignment::new(job);
        for (group, ranges) in groups {
            assignment.groups.insert(group.clone(), ranges.to_vec());
            for r in *ranges {
                assignment.holders.insert(r.cluster.clone(), r.generation);
            }
        }
        let partition = echelon_core_model::bucket::assignment_partition(job);
        let query = Query::Assignments(partition);
        let Answer::Assignments(mut last, _) = self.store.read(&query) else {
            panic!()
        };
        if last.epoch < self.rm {
            let raise = Decision::RaisePartition {
                partition,
                epoch: self.rm,
                expected: last.epoch,
            };
            self.store.perform(Op::Decide(raise));
            last = Stamp {
                epoch: self.rm,
                sequence: 0,
            };
        }
        let put = Decision::PutAssignments {
            partition,
            stamp: last.next(),
            put: vec![assignment],
            remove: Vec::new(),
        };
        let done = self.store.perform(Op::Decide(put));
        assert!(
            matches!(
                done,
                OpResult::Decided(echelon_core_model::store::Decided::Applied)
            ),
            "{done:?}"
        );
    }

    /// The resource manager orders ranges, with `active` granted at generation 1, from the stored head.
    pub fn order(&mut self, ranges: &[AssignedRange], active: u64) {
        self.order_at(ranges, &[(1, active)]);
    }

    pub fn order_at(&mut self, ranges: &[AssignedRange], grants: &[(u32, u64)]) {
        self.assign(ranges);
        self.send_order(ranges, grants, 1);
    }

    /// The same without storing an assignment, and with a part of `max_unavailable`.
    pub fn send_order(&mut self, ranges: &[AssignedRange], grants: &[(u32, u64)], max_unavailable: u32) {
        let order = self.slice_order(ranges, grants, max_unavailable);
        self.direct(Order::Slices(vec![order]));
    }

    /// An order that is not sent.
    pub fn slice_order(
        &mut self,
        ranges: &[AssignedRange],
        grants: &[(u32, u64)],
        max_unavailable: u32,
    ) -> SliceOrder {
        let ours: Vec<AssignedRange> = ranges.iter().filter(|r| r.cluster == c1()).cloned().collect();
        self.sequence += 1;
        let number = self.sequence;
        let grant = |active| Grant {
            epoch: self.rm,
            number,
            active,
            known: OwnChanges::default(),
            lease: seconds(30),
        };
        SliceOrder {
            rollout: self.rollout,
            update_below: self.below,
            restarts: self
                .restarts
                .as_ref()
                .map(|r| r.of_group(&main_group()))
                .unwrap_or_default(),
            job: job(),
            group: main_group(),
            head_version: self.head_version(),
            goal: self.goal(),
            spec_version: u32::try_from(self.head_version().0).unwrap(),
            ranges: ours,
            grants: grants.iter().map(|(g, n)| (Generation(*g), grant(*n))).collect(),
            max_unavailable,
            part_number: number,
        }
    }

    /// Over the last stream, or over one of its own when another epoch has opened that.
    pub fn direct(&mut self, order: Order) {
        if self.opened_by != self.rm {
            self.connect();
        }
        self.sequence += 1;
        let directive = Directive {
            epoch: self.rm,
            sequence: self.sequence,
            order,
        };
        self.step(Event::Directive(self.link, directive));
    }

    /// Sets the goal and lets the resource manager tell the shard.
    pub fn wish(&mut self, spec: &JobSpec, desired: Desired, restarts: u32) {
        self.store_head(spec, Goal { desired, restarts });
    }

    /// Feeds one event and carries out what follows at this moment.
    pub fn step(&mut self, event: Event) {
        self.events.push_back(event);
        self.drain();
    }

    pub fn drain(&mut self) {
        loop {
            if let Some(event) = self.events.pop_front() {
                self.feed(event);
                continue;
            }
            if let Some(event) = self.cluster.out.pop_front() {
                self.events.push_back(Event::Cluster(event));
                continue;
            }
            if self.placement_works
                && let Some(problem) = self.questions.pop_front()
            {
                let (answer, _) = place(&problem);
                let broken = echelon_core_placement::check(&problem, &answer);
                assert!(broken.is_empty(), "{broken:#?}");
                self.events.push_back(Event::Placed(answer));
                continue;
            }
            return;
        }
    }

    /// Feeds exactly one event; its effects are carried out, what they cause waits.
    pub fn feed(&mut self, event: Event) {
        let mut out = Vec::new();
        self.shard.step(event, self.now, &mut out);
        let mut broken = check(&self.shard);
        broken.extend(check_sets(&self.shard));
        assert!(broken.is_empty(), "{broken:#?}");
        out.into_iter().for_each(|e| self.carry_out(e));
    }

    fn carry_out(&mut self, effect: Effect) {
        crate::trace::note(&mut self.trace, &effect);
        match effect {
            Effect::Storage(id, op) => {
                self.ops.push(op.clone());
                self.operate(id, op);
            }
            Effect::Cluster(call) => {
                self.check_call(&call);
                self.cluster.call(&call);
                self.calls.push(call);
            }
            Effect::Report(_, report) => self.reports.push(report),
            Effect::Admit(_) => {}
            Effect::Refuse { link, why } => self.refused.push((link, why)),
            Effect::Place(problem) => self.questions.push_back(problem),
            Effect::FetchTails(asked) => self.fetch(asked),
            Effect::Publish(epoch) => self.published = self.published.max(Stamp { epoch, sequence: 0 }),
            Effect::Mark(stamp) => {
                self.check_mark(stamp);
                self.published = self.published.max(stamp);
            }
            Effect::StepDown { why } => self.stepped_down.push(why),
            Effect::Alarm(alarm) => self.alarms.push(alarm),
        }
    }

    /// What membership is told to be durable is.
    fn check_mark(&self, stamp: Stamp) {
        let Answer::Mark(mark) = self.store.read(&Query::Mark(self.role())) else {
            panic!()
        };
        assert!(mark.is_some_and(|mark| mark.stamp >= stamp), "{mark:?} {stamp:?}");
    }

    /// A read of logs arrives at the agent.
    pub fn fetch(&mut self, asked: AskedTails) {
        if let Some(run) = self.stored_run(&asked.run) {
            assert!(
                run.state.is_ended(),
                "{} is read before its end is stored",
                asked.run
            );
        }
        if let Some(tail) = &self.logs {
            let members = std::iter::once(None).chain(asked.sidecars.iter().cloned().map(Some));
            let tails = members.map(|sidecar| Tails {
                sidecar,
                stdout: tail.clone(),
                stderr: Tail::Missing(NoTail::NoFile),
            });
            self.events
                .push_back(Event::Tails(asked.run.clone(), tails.collect()));
        }
        self.fetched.push(asked);
    }

    pub fn operate(&mut self, id: OpId, op: Op) {
        let stalls = match self.storage {
            Storage::Stalls => true,
            Storage::StallsCommits => matches!(op, Op::Commit(_)),
            _ => false,
        };
        let slow = matches!(&op, Op::Read(Query::BlockBucket(_, b), _) if Some(*b) == self.slow_bucket);
        let slow = slow || self.slow_control && matches!(op, Op::Read(Query::Control, _));
        let slow = slow || self.slow_specs && matches!(op, Op::Read(Query::Spec(..), _));
        let slow = slow || self.slow_heartbeats && is_heartbeat(&op);
        if stalls || slow {
            self.stalled.push_back((id, op));
            return;
        }
        let refused: Vec<usize> = match (&self.refuses, &op) {
            (Some(refuses), Op::Commit(batch)) => {
                let at = batch.writes.iter().enumerate().filter(|(_, w)| refuses(w));
                at.map(|(place, _)| place).collect()
            }
            _ => Vec::new(),
        };
        let result = match self.storage {
            Storage::Troubled(kind) => trouble(kind),
            _ if !refused.is_empty() => refusal(&refused),
            Storage::Fails => OpResult::Failed(OpFailure::not_done(TroubleKind::NoAnswer, "test")),
            Storage::DoesAndFails => {
                self.store.perform(op);
                OpResult::Failed(OpFailure::unknown("test"))
            }
            _ => self.store.perform(op),
        };
        self.events.push_back(Event::Storage(id, result));
    }

    /// Storage works again; what stalled is done now.
    pub fn unstall(&mut self) {
        self.storage = Storage::Works;
        self.slow_bucket = None;
        self.slow_control = false;
        self.slow_specs = false;
        self.slow_heartbeats = false;
        for (id, op) in std::mem::take(&mut self.stalled) {
            self.operate(id, op);
        }
        self.drain();
    }

    /// The order of durability, checked at the effects themselves.
    fn check_call(&self, call: &Call) {
        match call {
            Call::Accept { launches, host, .. } => {
                for launch in launches {
                    let run = self
                        .stored_run(&launch.task)
                        .expect("ACCEPT before its intent is stored");
                    assert_eq!(
                        (run.state, &run.host),
                        (RunState::Launching, host),
                        "ACCEPT without intent"
                    );
                }
            }
            Call::Kill { task, .. } => {
                let member: MemberId = task.parse().expect("a kill of what is not ours");
                // Where a row is refused or cannot be read, the stored head that asks for the stop is the evidence.
                let aside = self.refuses.is_some() || self.shard.groups_unread().any(|(of, _)| of == job());
                let stopped = aside && self.goal().desired != Desired::Running;
                if let Some(run) = self.stored_run(&member.run).filter(|_| !stopped) {
                    assert_eq!(run.state, RunState::Stopping, "KILL before the wish is stored");
                }
            }
            Call::Acknowledge { task, uuid, .. } => self.check_acknowledge(task, uuid),
            _ => {}
        }
    }

    fn check_acknowledge(&self, task: &str, uuid: &[u8; 16]) {
        let (Ok(id), Some(t)) = (task.parse::<MemberId>(), self.cluster.tasks.get(task)) else {
            return;
        };
        let update = t.unacknowledged.iter().find(|s| s.uuid.as_ref() == Some(uuid));
        let (Some(update), Some(run)) = (update, self.stored_run(&id.run)) else {
            return;
        };
        let member = run.members.iter().find(|m| m.sidecar == id.sidecar);
        let state = member.map_or(run.state, |m| m.state);
        let stored = match update.state {
            TaskState::Running => !matches!(state, RunState::Launching | RunState::Starting),
            TaskState::Starting | TaskState::Killing => state != RunState::Launching,
            s if s.is_proof_of_death() => state.is_ended(),
            _ => true,
        };
        assert!(
            stored,
            "ACKNOWLEDGE of {:?} while {} is stored",
            update.state, run.state
        );
    }

    /// A record as storage has it.
    pub fn stored(&self, n: u32) -> Option<InstanceRecord> {
        self.stored_of(&c1(), n)
    }

    pub fn stored_of(&self, cluster: &ClusterId, n: u32) -> Option<InstanceRecord> {
        self.stored_in(cluster, (job(), &main_group()), n)
    }

    fn stored_in(
        &self,
        cluster: &ClusterId,
        (job, group): (JobId, &GroupName),
        n: u32,
    ) -> Option<InstanceRecord> {
        let key = BlockKey::of(job, group, InstanceNumber(n));
        let query = Query::GroupBlocks {
            cluster: cluster.clone(),
            job,
            group: group.clone(),
            first: key.number,
            last: key.number,
        };
        let Answer::Blocks(blocks, _) = self.store.read(&query) else {
            return None;
        };
        blocks.first()?.instances.get(&InstanceNumber(n)).cloned()
    }

    pub fn stored_run(&self, task: &TaskId) -> Option<Run> {
        let of = (task.instance.job, &task.instance.group);
        let record = self.stored_in(&c1(), of, task.instance.number.0)?;
        let mut runs = record.run.into_iter().chain(record.older);
        runs.find(|r| (r.generation, r.number) == (task.generation, task.run))
    }

    /// A record as the shard has it.
    pub fn record(&self, n: u32) -> Option<InstanceRecord> {
        let mut all = self
            .shard
            .instances()
            .filter(|(id, _)| id.number.0 == n && id.job == job());
        all.next().map(|(_, r)| r.clone())
    }

    pub fn state(&self, n: u32) -> RunState {
        self.record(n).map_or(RunState::Pending, |r| r.state())
    }

    /// States of the first `n` instances.
    pub fn states(&self, n: u32) -> Vec<RunState> {
        (0..n).map(|i| self.state(i)).collect()
    }

    /// The task id of an instance's run at generation 1.
    pub fn task(&self, n: u32, run: u32) -> String {
        task(n, 1, run)
    }

    /// Lets time pass: wakes when asked, offers every second.
    pub fn run(&mut self, span: Span) {
        let end = self.now.plus(span);
        let mut offer_at = self.now;
        self.drain();
        while self.now < end {
            if offer_at <= self.now {
                self.cluster.offer();
                if self.cluster.subscribed && !self.cluster.mute {
                    self.cluster.out.push_back(echelon_core_hosts::Event::Heartbeat);
                }
                offer_at = self.now.plus(seconds(1));
                self.drain();
            }
            let wake = self.shard.next_wake().unwrap_or(end);
            let next = wake.min(offer_at).min(end).max(Timestamp(self.now.0 + 1));
            self.wakes += u64::from(wake <= next);
            self.now = next;
            self.step(Event::Wake);
        }
    }

    /// The last slice report about the group at a generation.
    pub fn slice(&self, generation: u32) -> Option<SliceReport> {
        let of_main = |slice: &&SliceReport| slice.group == main_group();
        let found = self.slices(job(), generation).find(of_main);
        found.cloned()
    }

    /// What was reported last of another job's slice.
    pub fn slice_of(&self, of: JobId, generation: u32) -> Option<SliceReport> {
        self.slices(of, generation).next().cloned()
    }

    /// What was reported of a job's slices, the newest report first.
    fn slices(&self, of: JobId, generation: u32) -> impl Iterator<Item = &SliceReport> {
        let slices = self.reports.iter().rev().filter_map(|r| match &r.part {
            ReportPart::Slices(s) => Some(s),
            _ => None,
        });
        let is_of = move |slice: &&SliceReport| slice.job == of && slice.generation.0 == generation;
        slices.flatten().filter(is_of)
    }

    pub fn kills(&self) -> Vec<String> {
        let kill = |c: &Call| match c {
            Call::Kill { task, .. } => Some(task.clone()),
            _ => None,
        };
        self.calls.iter().filter_map(kill).collect()
    }

    pub fn accepted(&self) -> Vec<String> {
        let launches = self.calls.iter().filter_map(|c| match c {
            Call::Accept { launches, .. } => Some(launches),
            _ => None,
        });
        launches.flatten().map(|l| l.task.to_string()).collect()
    }

    pub fn acknowledged(&self) -> usize {
        self.calls
            .iter()
            .filter(|c| matches!(c, Call::Acknowledge { .. }))
            .count()
    }

    /// An update as if the cluster had sent it, without a uuid.
    pub fn hear(&mut self, task: &str, state: TaskState, host: &str) {
        let host = Some(echelon_core_model::HostId::new(host));
        let status = crate::cluster::status(task, state, host);
        self.step(Event::Cluster(echelon_core_hosts::Event::Update(status)));
    }

    pub fn role(&self) -> Role {
        Role::Shard(c1())
    }

    pub fn count_reads(&self, wanted: impl Fn(&Query) -> bool) -> usize {
        let read =
            |op: &&Op| matches!(op, Op::Read(q, Consistency::Serial | Consistency::Quorum) if wanted(q));
        self.ops.iter().filter(read).count()
    }
}

/// A task id of the job.
pub fn task(n: u32, generation: u32, run: u32) -> String {
    format!("{}.main.{n}.{generation}.{run}", job())
}

/// What storage says of the rows that it refuses.
fn refusal(places: &[usize]) -> OpResult {
    let rows = places.iter().map(|place| RefusedRow {
        row: format!("row {place}"),
        place: Some(*place),
        why: RefusedWhy::TooLarge {
            bytes: 600_000,
            limit: 524_288,
        },
    });
    OpResult::Failed(OpFailure::Refused(Refusal { rows: rows.collect() }))
}

fn is_heartbeat(op: &Op) -> bool {
    match op {
        Op::Commit(batch) => batch.writes.iter().any(|w| matches!(w, Write::Heartbeat(_))),
        _ => false,
    }
}

/// A failure of a kind.
fn trouble(kind: TroubleKind) -> OpResult {
    OpResult::Failed(OpFailure::NotDone(Trouble {
        kind,
        text: "test".to_owned(),
    }))
}
