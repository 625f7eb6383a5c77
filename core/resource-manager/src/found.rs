//! What clusters run although no stored assignment gives it to them, after an older storage was put back and resumed. Assignments
//! are as old as the rest: an instance that was assigned after the copy was taken runs, and storage takes it for unassigned. So
//! after a resume nothing is assigned before every cluster has told what it found, and what was found goes first.
//!
//! A word counts when it comes from a shard leader that was elected after the resume. A cluster that operators have left is not
//! waited for, nor one that is unreachable and that they have cordoned or drain. When all have told, that is stored in the mark
//! of this role: no later leader waits again for the same resume.
//!
//! What becomes of number `n`, found at cluster A at generation `g`:
//!
//! | stored | what is done |
//! | --- | --- |
//! | the job is not there | nothing here; A has it in quarantine, and an alarm names it |
//! | the job is to stop or to be deleted | nothing here; A stops it |
//! | `n` is assigned to A at `g` | nothing here; A has adopted it |
//! | `n` is assigned at an older generation, to A or to another cluster | it is assigned to A at `g`; another cluster that runs it stops it |
//! | `n` is assigned to another cluster at `g` or later | nothing here; A stops it |
//! | `n` is assigned to A at a later generation | nothing here; A goes by its own record |
//! | `n` is not assigned, and the group lacks numbers | it is assigned to A at `g`, before any number that nobody runs |
//! | `n` is not assigned, and the group has all that it is to have | nothing; A has it in quarantine, and gets it when the group grows |
//! | `n` was ended or scaled away at `g` or later | nothing here; A has it in quarantine |
//! | `n` was found at several clusters | the latest generation counts, then the first cluster by id; the others stop it as above |
//!
//! A gang is at one cluster: what was found of it at the cluster that has the latest generation counts, and all of it goes there.
//! Asked by the cycle before it routes.

use crate::effect::Effect;
use crate::manager::ResourceManager;
use crate::moves::{missing, note_holders};
use crate::ops::Purpose;
use crate::picture::{ClusterView, JobView, Picture};
use crate::ranges::{Cut, change, joined};
use echelon_core_model::assignment::{AssignedRange, Assignment, Releasing};
use echelon_core_model::cluster::{Contact, Wish};
use echelon_core_model::directive::Found;
use echelon_core_model::spec::{JobKind, JobSpec};
use echelon_core_model::store::{Consistency, Leadership, Mark, Op, Query, Role};
use echelon_core_model::{
    ClusterId, Epoch, Generation, GroupName, InstanceRange, JobId, RangeSet, Reason, ReasonCode, Timestamp,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Slices = BTreeMap<(JobId, GroupName, Generation), RangeSet>;

/// What a cluster has found.
#[derive(Debug, Clone, Default)]
pub struct Word {
    /// The list that was told last.
    slices: Slices,
    /// The list that is being told.
    incoming: Option<Slices>,
    /// The epoch of the shard leader that told a whole list.
    told_by: Option<Epoch>,
    /// The epoch at which the shard's storage was resumed, as it is stored; `None` until it is read.
    resumed: Option<Epoch>,
}

impl Word {
    /// Takes a part of a list in. The jobs whose list may have changed when that was the last part.
    pub(crate) fn hear(&mut self, part: Found, epoch: Epoch) -> BTreeSet<JobId> {
        if part.begins {
            self.incoming = Some(Slices::new());
        }
        // The beginning was lost: the next list counts.
        let Some(incoming) = &mut self.incoming else {
            return BTreeSet::new();
        };
        for slice in part.slices {
            let key = (slice.job, slice.group, slice.generation);
            let numbers = incoming.entry(key).or_default();
            *numbers = numbers.union(&slice.numbers);
        }
        if !part.ends {
            return BTreeSet::new();
        }
        let whole = self.incoming.take().unwrap_or_default();
        let before = std::mem::replace(&mut self.slices, whole);
        self.told_by = Some(epoch);
        let jobs = before.keys().chain(self.slices.keys()).map(|(job, ..)| *job);
        jobs.collect()
    }

    /// Slices that are held.
    pub(crate) fn len(&self) -> usize {
        self.slices.len() + self.incoming.as_ref().map_or(0, BTreeMap::len)
    }

    /// The stream was lost: a list that was being told is void.
    pub(crate) fn interrupt(&mut self) {
        self.incoming = None;
    }

    /// Whether a leader that was elected after the resume has told.
    fn counts(&self) -> bool {
        self.told_by
            .zip(self.resumed)
            .is_some_and(|(told, resumed)| told > resumed)
    }

    fn of_job(&self, job: JobId) -> impl Iterator<Item = (&GroupName, Generation, &RangeSet)> {
        let first = (job, GroupName::new(""), Generation(0));
        let from = self.slices.range(first..);
        let of = from.take_while(move |((of, ..), _)| *of == job);
        of.map(|((_, group, generation), numbers)| (group, *generation, numbers))
    }
}

/// The last resume of storage, by its epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Resume {
    /// 0: never.
    at: Epoch,
    /// The last one after which all clusters have told.
    pub(crate) settled: Epoch,
}

impl Resume {
    pub(crate) fn of(leadership: &Leadership, mark: Option<&Mark>) -> Self {
        Self {
            at: leadership.resumed,
            settled: mark.map(|mark| mark.settled).unwrap_or_default(),
        }
    }

    const fn is_open(self) -> bool {
        self.settled.0 < self.at.0
    }
}

/// Whether a cluster's word is waited for.
fn is_awaited(view: &ClusterView) -> bool {
    let Some(row) = &view.row else {
        return false;
    };
    let is_away = matches!(view.contact(), Contact::Unreachable | Contact::Joining);
    let is_set_aside = row.wish == Wish::Left || (row.wish != Wish::Active && is_away);
    !is_set_aside && !view.found.counts()
}

/// Why nothing is assigned; `None`: all clusters have told.
fn awaited(picture: &Picture) -> Option<Reason> {
    let views = picture.clusters.values().filter(|view| is_awaited(view));
    let names: Vec<&str> = views
        .filter_map(|v| v.row.as_ref())
        .map(|r| r.name.as_str())
        .collect();
    let first = names.first()?;
    let others = names.len() - 1;
    let text = if others == 0 {
        (*first).to_owned()
    } else {
        format!("{first} and {others} more")
    };
    Some(Reason::new(ReasonCode::AwaitingClusters).at(text))
}

impl ResourceManager {
    /// Looks whether all clusters have told since storage was resumed. Until then nothing is assigned.
    pub(crate) fn settle_resume(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if !self.resume.is_open() {
            return;
        }
        self.ask_for_resumes(now, out);
        let awaiting = awaited(&self.picture);
        let before = std::mem::replace(&mut self.picture.awaiting, awaiting);
        if self.picture.awaiting.is_none() {
            self.resume.settled = self.resume.at;
        }
        if before != self.picture.awaiting {
            self.dirty.extend(self.picture.live().map(|(id, _)| id));
            self.due = true;
        }
    }

    /// Reads when the shards' roles were resumed: what an earlier leader of a shard says does not count.
    fn ask_for_resumes(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let unread = self.picture.clusters.iter();
        let unread = unread.filter(|(_, v)| v.row.is_some() && v.found.resumed.is_none());
        let ids: Vec<ClusterId> = unread.map(|(id, _)| id.clone()).collect();
        for id in ids {
            let purpose = Purpose::ShardResumed(id.clone());
            if !self.ops.has(&purpose) {
                let query = Query::Leadership(Role::Shard(id));
                self.ops
                    .start(purpose, Op::Read(query, Consistency::Serial), now, out);
            }
        }
    }

    pub(crate) fn shard_resumed(
        &mut self,
        cluster: &ClusterId,
        stored: &Leadership,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        if let Some(view) = self.picture.clusters.get_mut(cluster) {
            view.found.resumed = Some(stored.resumed);
            self.settle_resume(now, out);
        }
    }
}

/// Instances of one group, found at one cluster.
struct FoundHere {
    group: GroupName,
    cluster: ClusterId,
    generation: Generation,
    numbers: RangeSet,
}

/// What was found of a job, the latest generation first.
fn found_of(picture: &Picture, id: JobId) -> Vec<FoundHere> {
    let clusters = picture.clusters.iter();
    let clusters = clusters.filter(|(_, view)| view.wish() != Wish::Left);
    let all = clusters.flat_map(|(cluster, view)| {
        let of_job = view.found.of_job(id);
        of_job.map(|(group, generation, numbers)| FoundHere {
            group: group.clone(),
            cluster: cluster.clone(),
            generation,
            numbers: numbers.clone(),
        })
    });
    let mut all: Vec<FoundHere> = all.collect();
    all.sort_by(|a, b| {
        let key = |f: &FoundHere| (Reverse(f.generation), f.cluster.clone());
        key(a).cmp(&key(b))
    });
    all
}

/// Gives what was found of a job to the clusters that have it.
pub(crate) fn take_found(picture: &Picture, id: JobId, job: &mut JobView) {
    let mut found = found_of(picture, id);
    let Some(spec) = job.running().filter(|_| !found.is_empty()) else {
        return;
    };
    if spec.gang.is_some()
        && let Some(cluster) = found.first().map(|f| f.cluster.clone())
    {
        found.retain(|f| f.cluster == cluster);
    }
    let mut changed = false;
    for here in found.iter().filter(|f| spec.group(&f.group).is_some()) {
        changed |= take_newer(job, here);
        changed |= take_free(job, &spec, here);
    }
    if let Some(first) = found.first().filter(|_| changed && spec.gang.is_some()) {
        follow(job, &spec, first);
    }
}

/// Numbers that are assigned at an older generation.
fn take_newer(job: &mut JobView, here: &FoundHere) -> bool {
    let ranges = job.decided.ranges(&here.group).iter();
    let older: RangeSet = ranges
        .filter(|r| r.generation < here.generation)
        .map(|r| r.range)
        .collect();
    let older = older.intersect(&here.numbers);
    if older.is_empty() {
        return false;
    }
    let decided = Arc::make_mut(&mut job.decided);
    if let Some(ranges) = decided.groups.get_mut(&here.group) {
        change(ranges, &older, Cut::Kept, |r| {
            // Numbers that are to go for good stay so.
            let goes = r.releasing.filter(Releasing::ends_range);
            Some(AssignedRange {
                releasing: goes,
                ..at(here, r.range)
            })
        });
    }
    note_holders(decided, &here.group);
    true
}

/// Numbers that are not assigned, as many as the group lacks.
fn take_free(job: &mut JobView, spec: &JobSpec, here: &FoundHere) -> bool {
    let lacking = if spec.kind == JobKind::Daemon {
        // What is more than there are hosts is given back.
        u64::MAX
    } else {
        missing(job, &here.group)
    };
    let used = used_later(&job.decided, here);
    let taken = job.decided.assigned(&here.group);
    let taken = taken.union(&spec.rules.withdrawn(&here.group)).union(&used);
    let free = here.numbers.minus(&taken).lowest(lacking);
    if free.is_empty() {
        return false;
    }
    let decided = Arc::make_mut(&mut job.decided);
    if let Some(released) = decided.released.get_mut(&here.group) {
        released.values_mut().for_each(|set| *set = set.minus(&free));
        released.retain(|_, set| !set.is_empty());
    }
    decided.released.retain(|_, sets| !sets.is_empty());
    let mut ranges = decided.groups.remove(&here.group).unwrap_or_default();
    ranges.extend(free.ranges().iter().map(|range| at(here, *range)));
    decided.groups.insert(here.group.clone(), joined(ranges));
    note_holders(decided, &here.group);
    true
}

/// Numbers that were released at that generation or a later one.
fn used_later(decided: &Assignment, here: &FoundHere) -> RangeSet {
    let sets = decided.released.get(&here.group).into_iter().flatten();
    let later = sets.filter(|(holder, _)| holder.generation >= here.generation);
    later.fold(RangeSet::new(), |all, (_, set)| all.union(set))
}

fn at(here: &FoundHere, range: InstanceRange) -> AssignedRange {
    AssignedRange {
        range,
        cluster: here.cluster.clone(),
        generation: here.generation,
        former: None,
        releasing: None,
    }
}

/// The rest of a gang goes where what was found of it is.
fn follow(job: &mut JobView, spec: &JobSpec, first: &FoundHere) {
    let decided = Arc::make_mut(&mut job.decided);
    for group in &spec.groups {
        let Some(ranges) = decided.groups.get_mut(&group.name) else {
            continue;
        };
        let away = ranges.iter().filter(|r| r.cluster != first.cluster);
        let away: RangeSet = away.map(|r| r.range).collect();
        change(ranges, &away, Cut::Kept, |r| {
            Some(AssignedRange {
                range: r.range,
                cluster: first.cluster.clone(),
                generation: r.generation.next().max(first.generation),
                former: Some((r.cluster.clone(), r.generation)),
                releasing: None,
            })
        });
        note_holders(decided, &group.name);
    }
}
