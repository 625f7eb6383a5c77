//! What a cluster holds, and what would become of it under another desired state or other labels, or if it were lost
//! (`loss_cover.rs`). It goes by the functions of the cycle, on the same state, and commits nothing.
//!
//! Groups are looked at in the order of the cycle, one after another. Each takes the capacity elsewhere that
//! its instances would move to, so that two groups do not count the same capacity.

use crate::admission::candidates::{Candidates, ClusterPatch};
use crate::admission::router::{GroupOf, Router, Within, take};
use crate::assignment::indexes::missing;
use crate::demand::request::{avoided, have, unit_of};
use crate::demand::slices::{Line, lines};
use crate::facts::job::JobView;
use crate::lifecycle::rollouts;
use crate::picture::Picture;
use crate::queries::loss_cover::{LossCover, is_replaceable, loss_cover};
use echelon_core_model::cluster::{ClusterQuestion, DesiredState};
use echelon_core_model::cluster_choice::ClusterIdentity;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};
use echelon_core_model::{GroupName, JobId, Reason, ReasonCode};
use echelon_core_pools::Rooms;
use std::sync::Arc;

/// Most groups that an answer lists.
pub const MOST_GROUPS: usize = 200;

/// What a cluster holds, and what would become of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterWork {
    /// Whether its shard has reported all that it has to this leader. Otherwise what is assigned is counted,
    /// and how much of it runs or has ended is not known.
    pub is_reported: bool,
    /// Groups with instances there that have not ended, or with results that their job still counts. At most
    /// [`MOST_GROUPS`], those of the oldest jobs first.
    pub groups: Vec<GroupWork>,
    /// How many more groups there are. They are counted in `totals`.
    pub left_out: u64,
    /// Sums over all groups.
    pub totals: WorkTotals,
    /// Instances of all jobs that are bound to no cluster and may be bound to this one.
    pub waiting: u64,
}

/// Sums over groups at a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WorkTotals {
    /// Instances that have not ended.
    pub instances: u64,
    /// Of these, those that run or are about to.
    pub running: u64,
    /// Instances that have ended, of jobs that have not.
    pub results: u64,
    /// Of `instances`, those for which another cluster has capacity now.
    pub movable: u64,
    /// Of `instances`, those for which there is capacity only once preemptible work has given way.
    pub after_preemption: u64,
    /// About how many instances of other work would be stopped for these.
    pub victims: u64,
    /// Of `instances`, those that end.
    pub ending: u64,
    /// Of `instances`, those that cannot leave as things are.
    pub staying: u64,
    /// Of `instances`, those that are given up against their job's policy, or are of a daemon.
    pub given_up: u64,
}

/// What a cluster holds of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupWork {
    /// The job. Its name is not known here: specs are shared by jobs that differ in it alone.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
    /// What kind of job it is.
    pub kind: JobKind,
    /// Instances that have not ended.
    pub instances: u64,
    /// Of these, those that run or are about to.
    pub running: u64,
    /// Instances that have ended.
    pub results: u64,
    /// What would become of it.
    pub departure: Departure,
}

/// What would become of a group's instances at a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Departure {
    /// They stay: nothing asks them to leave.
    None,
    /// The same, though the job would not choose the cluster any more.
    Unselected,
    /// They move to other clusters.
    Moves {
        /// How many of them another cluster has capacity for now.
        movable: u64,
        /// Of the others, those for which another cluster has capacity once preemptible work has given way. 0 unless the
        /// cluster is lost: nothing is stopped for what moves by itself.
        after_preemption: u64,
        /// How many of those that run move at once; a gang moves as a whole.
        at_once: u64,
        /// Why the others wait; none: all can move.
        others: Option<Reason>,
    },
    /// They end: a daemon has no instance without its host.
    End,
    /// They are given up without their shard, and not by their job's policy.
    GivenUp(Reason),
    /// They stay, although they are to leave.
    Stays(Reason),
}

/// What becomes of a cluster's work. `O(jobs + groups there x clusters)`.
#[must_use]
pub fn cluster_work(picture: &Picture, question: &ClusterQuestion) -> ClusterWork {
    let patch = ClusterPatch {
        cluster: &question.cluster,
        desired_state: question.desired,
        labels: &question.labels,
    };
    let facts = &picture.facts;
    let candidates = Candidates::new(facts, &picture.demand.ledger).patched(&patch);
    let mut work = Work {
        picture,
        question,
        router: Router::of(facts, &picture.demand.ledger, &Arc::new(candidates)),
        cover: question.is_lost.then(|| loss_cover(picture, &question.cluster)),
        rooms: Rooms::clone(&picture.admission.rooms),
        out: ClusterWork {
            is_reported: facts
                .clusters
                .get(&question.cluster)
                .is_some_and(|view| view.takes_grants() && view.fulls > 0),
            ..ClusterWork::default()
        },
    };
    for (id, job) in facts.jobs.iter() {
        work.look(*id, job);
    }
    work.out.totals.victims = work.cover.as_ref().map_or(0, |cover| cover.victims);
    work.out
}

struct Work<'a> {
    picture: &'a Picture,
    question: &'a ClusterQuestion,
    router: Router<'a>,
    /// What begins elsewhere if the cluster is lost; none: that is not asked.
    cover: Option<LossCover>,
    /// The capacity that groups before have left.
    rooms: Rooms,
    out: ClusterWork,
}

impl Work<'_> {
    fn look(&mut self, id: JobId, job: &JobView) {
        let Some(spec) = job.spec.as_deref().filter(|_| job.is_live()) else {
            return;
        };
        // Nothing goes to a cluster that is lost.
        if self.cover.is_none() && self.is_chosen(spec) {
            let unbound = spec.groups.iter().map(|g| missing(job, &g.name));
            self.out.waiting = unbound.fold(self.out.waiting, u64::saturating_add);
        }
        if job.is_unbound() {
            return;
        }
        let mut here = lines(&self.picture.facts, id, job);
        here.retain(|line| line.key.cluster == self.question.cluster);
        let gang = spec.gang.as_ref().map(|_| self.gang(id, job, spec));
        for group in &spec.groups {
            let of = GroupOf { id, spec, group };
            let lines: Vec<&Line> = here.iter().filter(|l| l.key.group == group.name).collect();
            if !lines.is_empty() {
                self.add(of, job, &lines, gang.as_ref());
            }
        }
    }

    /// Whether a job may use the cluster, as far as the job's own choice goes.
    fn is_chosen(&self, spec: &JobSpec) -> bool {
        let identity = ClusterIdentity {
            id: &self.question.cluster,
            name: &self.question.name,
            labels: &self.question.labels,
        };
        spec.clusters.allows(identity)
    }

    fn add(&mut self, of: GroupOf<'_>, job: &JobView, lines: &[&Line], gang: Option<&Result<(), Reason>>) {
        let sum = |count: fn(&Line) -> u64| lines.iter().map(|l| count(l)).fold(0, u64::saturating_add);
        let (instances, results) = (sum(|l| l.count.unended()), sum(|l| l.count.ended));
        if instances == 0 && results == 0 {
            return;
        }
        let departure = self.departure(of, job, instances, gang);
        let totals = &mut self.out.totals;
        totals.instances = totals.instances.saturating_add(instances);
        totals.results = totals.results.saturating_add(results);
        let running = sum(|l| l.count.on_hosts());
        totals.running = totals.running.saturating_add(running);
        let (movable, after_preemption) = match &departure {
            Departure::Moves {
                movable,
                after_preemption,
                ..
            } => (*movable, *after_preemption),
            Departure::None
            | Departure::Unselected
            | Departure::End
            | Departure::GivenUp(_)
            | Departure::Stays(_) => (0, 0),
        };
        let moving = movable.saturating_add(after_preemption);
        let (ending, staying) = match &departure {
            Departure::None | Departure::Unselected | Departure::GivenUp(_) => (0, 0),
            Departure::End => (instances, 0),
            // What has not begun at a lost cluster leaves it, whatever its job says.
            Departure::Stays(_) if self.cover.is_some() => (0, running.min(instances)),
            Departure::Moves { .. } | Departure::Stays(_) => (0, instances.saturating_sub(moving)),
        };
        totals.movable = totals.movable.saturating_add(movable);
        totals.after_preemption = totals.after_preemption.saturating_add(after_preemption);
        totals.ending = totals.ending.saturating_add(ending);
        totals.staying = totals.staying.saturating_add(staying);
        if let Departure::GivenUp(_) = departure {
            totals.given_up = totals.given_up.saturating_add(instances);
        }
        if self.out.groups.len() >= MOST_GROUPS {
            self.out.left_out = self.out.left_out.saturating_add(1);
            return;
        }
        self.out.groups.push(GroupWork {
            job: of.id,
            group: of.group.name.clone(),
            kind: of.spec.kind,
            instances,
            running,
            results,
            departure,
        });
    }

    fn departure(
        &mut self,
        of: GroupOf<'_>,
        job: &JobView,
        instances: u64,
        gang: Option<&Result<(), Reason>>,
    ) -> Departure {
        let GroupOf { spec, group, .. } = of;
        if let Some(cover) = &self.cover {
            let is_removal = self.question.desired == DesiredState::Removing;
            return if is_removal {
                when_removed_as_lost(of, job, cover)
            } else {
                when_lost(of, cover)
            };
        }
        let leaves = match self.question.desired {
            DesiredState::Active | DesiredState::Cordoned => false,
            DesiredState::Draining | DesiredState::Removing | DesiredState::Removed => true,
        };
        if !leaves {
            return if self.is_chosen(spec) {
                Departure::None
            } else {
                Departure::Unselected
            };
        }
        if spec.kind == JobKind::Daemon {
            return if self.question.desired == DesiredState::Draining {
                let why = "a daemon stays on its hosts until the cluster is removed";
                Departure::Stays(Reason::new(ReasonCode::ClusterCordoned).at(why))
            } else {
                Departure::End
            };
        }
        if group.volume.is_some() {
            let why = "it has volumes on hosts of this cluster";
            return Departure::Stays(Reason::new(ReasonCode::NoCluster).at(why));
        }
        match gang {
            Some(Ok(())) => Departure::Moves {
                movable: instances,
                after_preemption: 0,
                at_once: spec.instances(),
                others: None,
            },
            Some(Err(why)) => Departure::Stays(why.clone()),
            None => self.moves(of, job, instances),
        }
    }

    /// Whether another cluster has capacity for a whole gang. It takes that capacity.
    fn gang(&mut self, id: JobId, job: &JobView, spec: &JobSpec) -> Result<(), Reason> {
        let mut avoid = vec![self.question.cluster.clone()];
        avoid.extend(spec.groups.iter().flat_map(|g| avoided(job, &g.name)));
        let count = |g: &GroupSpec| u64::from(g.instances);
        let blocked = |why| Reason::new(ReasonCode::GangBlocked).at(why);
        let to = self
            .router
            .place_whole(id, spec, count, &avoid, Some(&self.rooms))
            .map_err(|_| blocked("no other cluster that it may use can hold all of it"))?;
        let to = to.ok_or_else(|| blocked("no other cluster has capacity for all of it now"))?;
        for group in &spec.groups {
            let unit = unit_of(&self.picture.facts, group);
            take(&mut self.rooms, &to, spec, unit, count(group));
        }
        Ok(())
    }

    fn moves(&mut self, of: GroupOf<'_>, job: &JobView, instances: u64) -> Departure {
        let GroupOf { spec, group, .. } = of;
        let mut avoid = avoided(job, &group.name);
        avoid.push(self.question.cluster.clone());
        if !self.router.may_use_others(of, &avoid) {
            return Departure::Stays(self.router.refusal_but(of, &avoid));
        }
        let have = have(job, &group.name);
        let within = Within {
            have: &have,
            avoid: &avoid,
            rooms: &self.rooms,
            parts: 1,
        };
        let shares = self.router.places(of, instances, within);
        let unit = unit_of(&self.picture.facts, group);
        for share in &shares {
            take(&mut self.rooms, &share.cluster, spec, unit, share.count);
        }
        let movable = shares.iter().map(|s| s.count).fold(0, u64::saturating_add);
        let others = (movable < instances).then(|| {
            Reason::new(ReasonCode::NoClusterCapacity).at("no other cluster has capacity for them now")
        });
        Departure::Moves {
            movable,
            after_preemption: 0,
            at_once: u64::from(rollouts::may_be_down(job, group).max(1)),
            others,
        }
    }
}

/// What becomes of a group's instances if their cluster is removed without its shard.
fn when_removed_as_lost(of: GroupOf<'_>, job: &JobView, cover: &LossCover) -> Departure {
    let given_up = |why| Departure::GivenUp(Reason::new(ReasonCode::ClusterLost).at(why));
    if job.running_spec().is_none() {
        return Departure::End;
    }
    if of.spec.kind == JobKind::Daemon {
        return given_up("a daemon ends with the hosts of its cluster");
    }
    if !is_replaceable(of.spec) {
        return given_up(
            "its job waits for it, as `on_cluster_loss` says; it begins again at another cluster that its job may use",
        );
    }
    when_lost(of, cover)
}

/// What becomes of a group's instances if their cluster is lost.
fn when_lost(of: GroupOf<'_>, cover: &LossCover) -> Departure {
    let GroupOf { id, spec, group } = of;
    let stays = |why| Departure::Stays(Reason::new(ReasonCode::ClusterLost).at(why));
    if spec.kind == JobKind::Daemon {
        return stays("a daemon belongs to the hosts of its cluster");
    }
    if !is_replaceable(spec) {
        return stays(
            "its job waits for it, as `on_cluster_loss` says; only what has not begun there goes elsewhere",
        );
    }
    let Some(of_group) = cover.groups.get(&(id, group.name.clone())) else {
        return Departure::None;
    };
    let uncovered = of_group.uncovered();
    let others = (uncovered > 0).then(|| {
        let why = format!("no other cluster that it may use has capacity for {uncovered} of them");
        Reason::new(ReasonCode::NoClusterCapacity).at(why)
    });
    Departure::Moves {
        movable: of_group.fits,
        after_preemption: of_group.after_preemption,
        at_once: of_group.instances,
        others,
    }
}
