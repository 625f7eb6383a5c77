//! Asking the cluster what became of tasks. First the cluster lists all that it has of us (an implicit
//! reconciliation, with an end marker, Mesos rule R106). Then all that may live is asked for explicitly, in
//! paced batches with agents; it is asked for again where no answer comes (R105). What an earlier leader left
//! is not touched before its first answer (law 2).
//!
//! Nothing is begun before the first list of a leadership has ended. Storage may be a backup that was put
//! back: then only the list tells of runs that are newer than what is stored, and each start before it may
//! double one. It is asked for before storage is read, and what it says of a group is judged when the group
//! is served: so a slow bucket holds up its own groups only.

use crate::event::Effect;
use crate::group::Group;
use crate::loss::lost_at;
use crate::pace::Action;
use crate::picture::RunAt;
use crate::{Phase, Shard};
use echelon_core_hosts::Call;
use echelon_core_model::time::Span;
use echelon_core_model::{HostId, RunState, SidecarName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What is to be asked, and what was.
#[derive(Debug, Default)]
pub(crate) struct Reconcile {
    /// Asked or to be asked, without an answer.
    unanswered: BTreeSet<RunAt>,
    /// Found at the beginning of our leadership and not answered since.
    first: BTreeSet<RunAt>,
    /// To be asked in the next batches.
    queue: BTreeSet<RunAt>,
    /// Of pods without a whole answer: the members of which something was said.
    heard: BTreeMap<RunAt, BTreeSet<Option<SidecarName>>>,
    /// When the next batch, or the next repetition, is due.
    pub(crate) due: Option<Timestamp>,
    /// When everything is asked again.
    all_at: Option<Timestamp>,
    /// Whether the implicit one is still to be sent.
    implicit: bool,
    /// The cluster has listed all our tasks in this leadership.
    listed: bool,
    /// The same since everything is served: all of a list was judged.
    listed_whole: bool,
    /// A part of the present list was not taken in.
    is_cut: bool,
    /// The end marker that is awaited.
    marker: Option<String>,
    rounds: u64,
    tries: u32,
}

impl Reconcile {
    /// Whether the cluster has not yet said anything about a run that an earlier leader left.
    pub(crate) fn awaits_first(&self, run: &RunAt) -> bool {
        self.first.contains(run)
    }

    /// Runs that wait for their first answer in this leadership.
    pub(crate) fn unobserved(&self) -> usize {
        self.first.len()
    }

    /// What is still to be answered, the end marker of the implicit one included.
    pub(crate) fn unanswered(&self) -> usize {
        let awaits_end = self.implicit || self.marker.is_some();
        self.unanswered.len() + usize::from(awaits_end)
    }

    /// Whether the cluster has listed all our tasks in this leadership.
    pub(crate) const fn has_list(&self) -> bool {
        self.listed
    }

    /// How many lists were asked for.
    pub(crate) const fn lists(&self) -> u64 {
        self.rounds
    }

    /// Whether the cluster is asked for a list that has not ended.
    pub(crate) const fn is_listing(&self) -> bool {
        self.implicit || self.marker.is_some()
    }

    /// Whether the cluster has listed all our tasks, and all of the list was judged.
    pub(crate) const fn has_whole_list(&self) -> bool {
        self.listed_whole
    }

    /// A part of the present list cannot be taken in now: the next one counts.
    pub(crate) const fn list_is_cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.into_iter().chain(self.all_at).min()
    }
}

impl Shard {
    /// Asks about everything that may live: after each subscription, and now and then.
    pub(crate) fn reconcile_all(&mut self) {
        if self.phase != Phase::Serving {
            return;
        }
        let served = self.picture.groups.iter().filter(|(_, g)| g.served);
        let mut all: BTreeSet<RunAt> = served
            .flat_map(|(number, group)| group.uncertain(*number))
            .collect();
        all.retain(|run| !self.credit.is_unsent(run));
        let jitter = self.random.next() % (self.config.timing.reconcile_every.0 / 4).max(1);
        let every = Span(self.config.timing.reconcile_every.0.saturating_add(jitter));
        self.reconcile.all_at = Some(self.now.plus(every));
        self.reconcile.unanswered = all.clone();
        self.reconcile.heard.clear();
        self.reconcile.queue = all;
        self.reconcile.implicit = true;
        self.reconcile.marker = None;
        self.reconcile.tries = 0;
        self.reconcile.due = Some(self.now);
    }

    /// The cluster was away: what was silent then may be back. Nothing of it is given up before the next
    /// answer.
    pub(crate) fn await_answers(&mut self) {
        for run in &self.reconcile.unanswered {
            let Some(found) = self.picture.run(*run) else {
                continue;
            };
            if found.is_silent() {
                self.reconcile.first.insert(*run);
            }
            let waits = !found.state.is_ended() && found.state != RunState::Running;
            if waits || found.gone.is_some() {
                self.picture.agenda.insert(run.0);
            }
        }
    }

    /// Asks for the first list. What it says of groups that are not served yet waits for them.
    pub(crate) fn reconcile_first(&mut self) {
        self.list_soon();
    }

    /// Asks for a list soon.
    pub(crate) fn list_soon(&mut self) {
        self.reconcile.implicit = true;
        self.reconcile.due = Some(self.now);
    }

    /// A group is served: what an earlier leader left of it is asked for, and nothing is done to it before the first answer.
    /// Runs that are stored as stopping are killed then.
    pub(crate) fn reconcile_group(&mut self, number: u32) {
        let Some(group) = self.picture.groups.get(&number) else {
            return;
        };
        let mut runs = group.uncertain(number);
        runs.retain(|run| !self.credit.is_unsent(run));
        for run in runs {
            let stored = self.picture.run(run);
            // Of a lost run it was answered already; to ask again may only bring it back.
            if stored.is_some_and(|r| r.state != RunState::Lost) {
                self.reconcile.first.insert(run);
            }
            self.account(run);
            let stored = self.picture.run(run);
            if stored.is_some_and(|r| r.state == RunState::Stopping) {
                self.stored_kills.insert(run);
            }
            self.reconcile_soon(run);
        }
    }

    /// Asks about one run soon.
    pub(crate) fn reconcile_soon(&mut self, run: RunAt) {
        self.reconcile.unanswered.insert(run);
        self.reconcile.queue.insert(run);
        let due = self.reconcile.due.map_or(self.now, |at| at.min(self.now));
        self.reconcile.due = Some(due);
    }

    /// The cluster has said something about a task of a run. About a pod it has when each member is told of or known dead.
    pub(crate) fn reconciled(&mut self, run: RunAt, sidecar: Option<&SidecarName>) {
        let members = self.picture.run(run).map_or(&[][..], |r| &r.members);
        let asked = self.reconcile.unanswered.contains(&run) || self.reconcile.first.contains(&run);
        if !members.is_empty() && asked {
            let heard = self.reconcile.heard.entry(run).or_default();
            heard.insert(sidecar.cloned());
            if !members
                .iter()
                .all(|m| m.state.is_ended() || heard.contains(&m.sidecar))
            {
                return;
            }
        }
        self.is_answered(run);
        if self.stored_kills.remove(&run) {
            self.kill_when_stored(run);
        }
    }

    /// Nothing of a run has to be asked any more for the time being.
    pub(crate) fn is_answered(&mut self, run: RunAt) {
        self.reconcile.heard.remove(&run);
        self.reconcile.unanswered.remove(&run);
        self.reconcile.queue.remove(&run);
        if self.reconcile.first.remove(&run) {
            self.picture.agenda.insert(run.0);
            self.picture.restless.insert(run.0.0);
        }
    }

    /// The stream broke: answers under way are lost, and all is asked again after the next subscription.
    pub(crate) fn reconcile_void(&mut self) {
        self.reconcile.due = None;
        self.reconcile.queue.clear();
        self.reconcile.marker = None;
    }

    /// Whether a task id is the marker that ends an implicit reconciliation.
    pub(crate) fn is_reconcile_end(&mut self, task: &str) -> bool {
        if self.reconcile.marker.as_deref() == Some(task) {
            self.reconcile.marker = None;
            self.reconcile.listed |= !self.reconcile.is_cut;
            if !self.reconcile.is_cut {
                self.end_aside_stops();
            }
            // Before, some of what was listed waits for its group.
            self.reconcile.listed_whole |= !self.reconcile.is_cut && !self.is_recovering();
        }
        task.starts_with(MARKER)
    }

    /// Sends the next batch when it is due.
    pub(crate) fn keep_reconciling(&mut self) {
        if self.phase != Phase::Serving || !self.contact.subscribed || self.suspended {
            return;
        }
        if self.reconcile.all_at.is_some_and(|at| at <= self.now) {
            self.reconcile_all();
        }
        if self.reconcile.due.is_none_or(|at| at > self.now) {
            return;
        }
        if self.reconcile.queue.is_empty() && !self.reconcile.implicit {
            self.repeat_unanswered();
        }
        let left = self.paces.left(Action::Reconcile, self.now);
        if left == 0 {
            self.reconcile.due = Some(self.paces.free_at(Action::Reconcile));
            return;
        }
        self.send_batch(left);
        self.reconcile.due = self.next_batch_at();
    }

    fn repeat_unanswered(&mut self) {
        let picture = &self.picture;
        self.reconcile
            .unanswered
            .retain(|run| picture.run(*run).is_some());
        self.reconcile.first.retain(|run| picture.run(*run).is_some());
        self.reconcile.heard.retain(|run, _| picture.run(*run).is_some());
        self.reconcile.queue = self.reconcile.unanswered.clone();
        self.reconcile.implicit = self.reconcile.marker.is_some() || !self.aside_stops.is_empty();
        self.reconcile.tries = self.reconcile.tries.saturating_add(1);
    }

    fn next_batch_at(&mut self) -> Option<Timestamp> {
        if !self.reconcile.queue.is_empty() || self.reconcile.implicit {
            let _noted = self.paces.left(Action::Reconcile, self.now);
            return Some(self.paces.free_at(Action::Reconcile).max(self.now));
        }
        if self.reconcile.unanswered.is_empty()
            && self.reconcile.marker.is_none()
            && self.aside_stops.is_empty()
        {
            return None;
        }
        let first = self.config.timing.reconcile_retry.0;
        let wait = first.saturating_mul(1 << self.reconcile.tries.min(8));
        let wait = wait.min(self.config.timing.reconcile_every.0);
        Some(self.now.plus(Span(wait)))
    }

    fn send_batch(&mut self, left: usize) {
        if std::mem::take(&mut self.reconcile.implicit) {
            self.ask_for_list();
            return;
        }
        let most = self.config.timing.reconcile_batch.clamp(1, left);
        let mut tasks: Vec<(String, Option<HostId>)> = Vec::new();
        while tasks.len() < most
            && let Some(run) = self.reconcile.queue.pop_first()
        {
            if let (Some(task), Some(found)) = (self.picture.task(run), self.picture.run(run)) {
                let host = Some(found.host.clone());
                let of = found.tasks(task.instance);
                tasks.extend(of.iter().map(|t| (t.to_string(), host.clone())));
            } else {
                self.reconcile.unanswered.remove(&run);
            }
        }
        self.paces.spend(Action::Reconcile, tasks.len().max(1));
        if !tasks.is_empty() {
            self.out.push(Effect::Cluster(Call::Reconcile { tasks }));
        }
    }

    /// Asks for a list of all our tasks. A made-up task of a made-up agent is answered in every situation:
    /// its answer ends the list.
    fn ask_for_list(&mut self) {
        self.paces.spend(Action::Reconcile, 1);
        self.reconcile.is_cut = false;
        self.reconcile.rounds += 1;
        let marker = format!("{MARKER}.{}.{}", self.epoch, self.reconcile.rounds);
        let agent = HostId::new(&marker);
        self.reconcile.marker = Some(marker.clone());
        self.out
            .push(Effect::Cluster(Call::Reconcile { tasks: Vec::new() }));
        let tasks = vec![(marker, Some(agent))];
        self.out.push(Effect::Cluster(Call::Reconcile { tasks }));
    }
}

impl Group {
    /// Its runs that may be alive, those that were given up, and those that are missing.
    fn uncertain(&self, number: u32) -> Vec<RunAt> {
        let mut out = Vec::new();
        for (n, record) in self.records() {
            let given_up = record.older.iter().filter(|r| r.state == RunState::Lost);
            let missing = record
                .run
                .iter()
                .filter(|r| r.state == RunState::Lost && lost_at(record).is_some());
            let runs = record.live_runs().chain(given_up).chain(missing);
            out.extend(runs.map(|r| ((number, n), r.generation, r.number)));
        }
        out
    }
}

/// Starts the task ids of end markers: no id of ours, since it is no job id.
const MARKER: &str = "echelon-reconcile-end";
