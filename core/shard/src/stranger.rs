//! Tasks of our naming that no record knows: storage is asked about their job, then the rule of evidence decides whether one
//! is killed, left alone in quarantine, or shows that storage was rolled back (design section 4).

use crate::Shard;
use crate::effects::Then;
use crate::event::{Alarm, Effect};
use crate::purpose::Purpose;
use crate::update::{is_alive, is_dead};
use echelon_core_hosts::TaskStatus;
use echelon_core_jobs::{Known, Listed, Standing, Verdict, adopt, judge, standing};
use echelon_core_model::job::{Desired, Head};
use echelon_core_model::store::{Consistency, Op, Query};
use echelon_core_model::{
    Assignment, Generation, GroupName, HostId, InstanceId, JobId, MemberId, RunNumber, TaskId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known of a stranger.
#[derive(Debug, Default)]
struct Stranger {
    host: Option<HostId>,
    /// Its tasks that were found alive: of a pod there may be several, and they are judged as one.
    members: BTreeSet<MemberId>,
    /// Evidence was found; it is being killed.
    condemned: bool,
    /// An alarm was given.
    alarmed: bool,
}

/// What storage said about a stranger's job.
#[derive(Debug, Default)]
struct Inquiry {
    head: Option<Option<Desired>>,
    assignment: Option<Option<Assignment>>,
}

impl Inquiry {
    const fn is_complete(&self) -> bool {
        self.head.is_some() && self.assignment.is_some()
    }
}

/// All strangers that live, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    tasks: BTreeMap<TaskId, Stranger>,
    inquiries: BTreeMap<JobId, Inquiry>,
}

impl Strangers {
    /// Whether none is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The host and the living tasks of a condemned run.
    pub(crate) fn condemned(&self, task: &TaskId) -> Option<(&Option<HostId>, &BTreeSet<MemberId>)> {
        let stranger = self.tasks.get(task).filter(|s| s.condemned)?;
        Some((&stranger.host, &stranger.members))
    }

    /// A task is dead; a run of which no other was found alive is not one of them any more.
    pub(crate) fn remove(&mut self, member: &MemberId) {
        let Some(stranger) = self.tasks.get_mut(&member.run) else {
            return;
        };
        stranger.members.remove(member);
        if stranger.members.is_empty() {
            self.tasks.remove(&member.run);
        }
    }

    /// Whether something of a run lives and nothing shows that it should end.
    pub(crate) fn is_undecided(&self, run: &TaskId) -> bool {
        self.tasks.get(run).is_some_and(|s| !s.condemned)
    }

    /// Whether a task of this instance lives that no record knows: a further one may not begin beside it.
    pub(crate) fn block(&self, instance: &InstanceId) -> bool {
        let first = TaskId {
            instance: instance.clone(),
            generation: Generation(0),
            run: RunNumber(0),
        };
        self.tasks
            .range(first..)
            .next()
            .is_some_and(|(t, _)| t.instance == *instance)
    }

    /// Notes that a task lives that its group's stored head wants dead; whether that is new.
    pub(crate) fn condemn(&mut self, member: &MemberId, host: Option<&HostId>) -> bool {
        let stranger = self.tasks.entry(member.run.clone()).or_default();
        stranger.members.insert(member.clone());
        stranger.host = host.cloned().or(stranger.host.take());
        !std::mem::replace(&mut stranger.condemned, true)
    }

    /// Where tasks of a group live, as far as is known.
    pub(crate) fn hosts_of<'a>(
        &'a self,
        job: JobId,
        group: &'a GroupName,
    ) -> impl Iterator<Item = Option<&'a HostId>> {
        let of_group = move |task: &TaskId| task.instance.job == job && task.instance.group == *group;
        let tasks = self.tasks.iter().filter(move |(task, _)| of_group(task));
        tasks.map(|(_, stranger)| stranger.host.as_ref())
    }

    /// What lives of a group is not to end any more.
    pub(crate) fn spare(&mut self, job: JobId, group: &GroupName) {
        self.tasks
            .retain(|task, _| task.instance.job != job || task.instance.group != *group);
    }

    /// Tasks in quarantine.
    pub(crate) fn quarantined(&self) -> impl Iterator<Item = &TaskId> {
        self.tasks
            .iter()
            .filter(|(_, s)| s.alarmed && !s.condemned)
            .map(|(t, _)| t)
    }

    /// Whether the job of some of them was asked about and storage has not answered yet.
    pub(crate) fn are_asked_about(&self) -> bool {
        let mut jobs = self.tasks.keys().map(|task| task.instance.job);
        jobs.any(|job| self.inquiries.get(&job).is_none_or(|i| !i.is_complete()))
    }

    /// Those that live and whose job is to run.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &TaskId> {
        let runs = |job| {
            let inquiry = self.inquiries.get(job);
            inquiry.is_some_and(|i| i.head == Some(Some(Desired::Running)))
        };
        let mut tasks = self.tasks.iter();
        std::iter::from_fn(move || {
            tasks
                .find(|(t, s)| !s.condemned && runs(&t.instance.job))
                .map(|(t, _)| t)
        })
    }

    fn of_job(&self, job: JobId) -> Vec<TaskId> {
        let all = self
            .tasks
            .iter()
            .filter(|(t, s)| t.instance.job == job && !s.condemned);
        all.map(|(t, _)| t.clone()).collect()
    }
}

impl Shard {
    /// A task of our naming that is in no record.
    pub(crate) fn on_stranger(&mut self, member: MemberId, status: &TaskStatus) {
        self.acknowledge_stranger(&member, status);
        if is_dead(status) {
            self.strangers.remove(&member);
            return;
        }
        if !is_alive(status) {
            return;
        }
        let task = member.run.clone();
        let job = task.instance.job;
        let stranger = self.strangers.tasks.entry(task.clone()).or_default();
        stranger.members.insert(member);
        stranger.host = status.host.clone().or(stranger.host.take());
        let known = self.strangers.inquiries.contains_key(&job);
        self.judge_stranger(task);
        if !known && !self.strangers.of_job(job).is_empty() {
            self.strangers.inquiries.insert(job, Inquiry::default());
            self.inquire(job);
        }
    }

    /// Asks storage about the job of strangers.
    pub(crate) fn inquire(&mut self, job: JobId) {
        self.ask(
            Op::Read(Query::Head(job), Consistency::Serial),
            Purpose::StrangerHead(job),
        );
        let query = Query::Assignment(job);
        self.ask(
            Op::Read(query, Consistency::Serial),
            Purpose::StrangerAssignment(job),
        );
    }

    fn judge_stranger(&mut self, task: TaskId) {
        let inquiry = self.strangers.inquiries.get(&task.instance.job);
        let complete = inquiry.is_some_and(Inquiry::is_complete);
        let verdict = judge(&task, &self.known(&task));
        let (adoptable, was_resumed) = (self.is_adoptable(&task), self.resumed.0 > 0);
        let Some(stranger) = self.strangers.tasks.get_mut(&task) else {
            return;
        };
        match verdict {
            Verdict::Kill(_) => {
                stranger.condemned = true;
                // The evidence may be a newer run that is not stored yet: what is written of the instance comes first.
                let at = self.picture.run_at(&task).map(|(at, ..)| at);
                let lane = at.and_then(|at| Some(self.picture.groups.get_mut(&at.0)?.cell(at.1).lane));
                let point = lane.map(|l| self.journal.point(l));
                self.journal.when_durable(point, Then::KillStranger(task));
            }
            Verdict::NewerThanStored if adoptable => {
                if self.adopts() {
                    self.adopt_soon(task);
                } else {
                    self.freeze(format!(
                        "task {task} is newer than what storage knows of its instance"
                    ));
                }
            }
            // Where storage was resumed once, what was found is told to the resource manager, which assigns it.
            Verdict::NewerThanStored if !was_resumed => {
                self.freeze(format!(
                    "task {task} is of a generation that storage does not know"
                ));
            }
            Verdict::NewerThanStored if !stranger.alarmed => {
                stranger.alarmed = true;
                self.out.push(Effect::Alarm(Alarm::Quarantined(task)));
            }
            Verdict::NewerThanStored => {}
            Verdict::Quarantine if complete && !stranger.alarmed => {
                stranger.alarmed = true;
                self.out.push(Effect::Alarm(Alarm::Quarantined(task)));
            }
            Verdict::Quarantine => {}
            // A record explains it now.
            Verdict::Recorded => {
                self.strangers.tasks.remove(&task);
            }
        }
    }

    /// Whether a task can become the latest run of its instance: the instance is here, at the task's
    /// generation.
    pub(crate) fn is_adoptable(&self, task: &TaskId) -> bool {
        let InstanceId { job, group, number } = &task.instance;
        let group = self.picture.group(*job, group);
        let range = group.and_then(|g| g.range_of(*number));
        range.is_some_and(|r| r.generation == task.generation)
    }

    /// Takes a task over as the latest run of its instance, after an operator has resumed a storage that was
    /// behind. Which version it was made from is not known: it counts as of the stored one. Mesos is asked
    /// about it, and what it says is applied as usual.
    pub(crate) fn adopt_task(&mut self, task: &TaskId) {
        let InstanceId { job, group, number } = &task.instance;
        let found = self.picture.number_of(*job, group);
        let wish = found.and_then(|n| self.picture.groups.get(&n)?.wish.clone());
        let stranger = self.strangers.tasks.get(task);
        let (Some(group), Some(wish), Some(stranger)) = (found, wish, stranger) else {
            return;
        };
        let Some(host) = stranger.host.clone() else {
            return;
        };
        // Of those that have ended the cluster says so once more: that end waits to be stored.
        let ended = self.finding.unacknowledged_of(task);
        let members: BTreeSet<&MemberId> = stranger.members.iter().chain(ended).collect();
        let sidecars = members.into_iter().filter_map(|m| m.sidecar.clone());
        let listed = Listed {
            hostname: Arc::from(
                self.hosts
                    .host(&host)
                    .map_or(host.as_str().into(), |h| h.hostname),
            ),
            host,
            spec_version: wish.spec_version,
            restarts: wish.goal.restarts,
            head_version: wish.head_version,
            sidecars: sidecars.collect(),
        };
        let (at, now) = ((group, *number), self.now);
        let was_active = self
            .picture
            .record(at)
            .is_some_and(|r| standing(r) == Standing::Active);
        self.strangers.tasks.remove(task);
        self.edit(at, |r| adopt(r, task, listed, now));
        let run = (at, task.generation, task.run);
        self.account_all(at);
        if !was_active {
            self.include(group, task.generation);
        }
        self.reconcile_soon(run);
        self.picture.agenda.insert(at);
    }

    /// One more runs, whatever is granted. Grants to come are to include it: none that was stored before the resume knows of it.
    fn include(&mut self, number: u32, generation: Generation) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let active = group.tallies.get(&generation).map_or(0, |t| t.active);
        let covered = group.granted_at.contains_key(&generation) && active <= group.granted(generation);
        if !covered {
            self.edit_row(number, |row| {
                row.own.entry(generation).or_default().taken_over += 1
            });
        }
    }

    fn known(&self, task: &TaskId) -> Known<'_> {
        let instance = &task.instance;
        let n = instance.number;
        let group = self.picture.group(instance.job, &instance.group);
        let inquiry = self.strangers.inquiries.get(&instance.job);
        let wished = group.and_then(|g| g.wish.as_ref()).map(|w| w.goal.desired);
        let assignment = inquiry
            .and_then(|i| i.assignment.as_ref())
            .and_then(Option::as_ref);
        let ranges = assignment.map_or(&[][..], |a| a.ranges(&instance.group));
        let holder = ranges.iter().find(|r| r.range.contains(n));
        let elsewhere = holder
            .filter(|r| r.cluster != self.config.cluster)
            .map(|r| r.generation);
        let here = holder.filter(|r| r.cluster == self.config.cluster);
        let marks = here
            .and_then(|r| r.releasing.as_ref())
            .or(group.and_then(|g| g.mark_of(n)));
        let range_here = group.and_then(|g| g.range_of(n));
        Known {
            held: range_here.map(|r| r.generation),
            assigned: holder.map(|r| r.generation),
            record: group.and_then(|g| g.record(n)),
            desired: wished.or_else(|| inquiry.and_then(|i| i.head).flatten()),
            released: group.is_some_and(|g| g.is_released(n, task.generation)),
            marked: marks.is_some_and(|m| m.count.is_none()),
            elsewhere,
            was_resumed: self.resumed.0 > 0,
        }
    }

    pub(crate) fn on_stranger_head(&mut self, job: JobId, head: Option<Head>) {
        if let Some(inquiry) = self.strangers.inquiries.get_mut(&job) {
            inquiry.head = Some(head.filter(|h| !h.void).map(|h| h.goal.desired));
        }
        self.judge_again(job);
    }

    pub(crate) fn on_stranger_assignment(&mut self, job: JobId, all: &[Assignment]) {
        let assignment = all.iter().find(|a| a.job == job);
        if let Some(assignment) = assignment {
            self.stop_scaled_away(assignment);
            self.ask_successors(assignment);
        }
        if let Some(inquiry) = self.strangers.inquiries.get_mut(&job) {
            inquiry.assignment = Some(assignment.cloned());
        }
        self.judge_again(job);
    }

    /// Judges the strangers of a job again after something about it became known.
    pub(crate) fn judge_again(&mut self, job: JobId) {
        for task in self.strangers.of_job(job) {
            self.judge_stranger(task);
        }
    }
}
