//! Clusters that are lost for ever and removed without their shard: nothing that they have is left behind,
//! and what may begin elsewhere does.

use crate::queries::cluster_work::{ClusterWork, Departure, cluster_work};
use crate::tests::case::{Case, batch, service};
use crate::tests::cluster_removal::{epoch, left, row};
use crate::tests::lost::{cut, declare, other_of, replace_after, running, silence};
use crate::tests::schedules::{children, every_ten};
use crate::tests::silent::{ban, store_record};
use echelon_core_model::cluster::{ClusterQuestion, DesiredState};
use echelon_core_model::health::Declaration;
use echelon_core_model::instance::{Counts, Ended, InstanceRecord};
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::schedule::{CatchUp, Overlap};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::store::{Answer, Decision, Leadership, Query, Role};
use echelon_core_model::{ClusterId, Epoch, Generation, GroupName, JobId, ReasonCode, RunState, Span};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeMap;

/// A job whose cluster falls silent, of the clusters `a` and `b`.
struct Scene {
    case: Case,
    job: JobId,
    home: &'static str,
    other: &'static str,
}

impl Scene {
    fn new(spec: JobBuilder) -> Self {
        Self::with(spec, |_| running())
    }

    /// Its shard has stored these records of the job's instances.
    fn with(spec: JobBuilder, record: impl Fn(u32) -> InstanceRecord) -> Self {
        Self::among(&[("a", 8), ("b", 8)], spec, record)
    }

    /// Of these clusters with their cores, of which the first has place for the job.
    fn among(clusters: &[(&str, u64)], spec: JobBuilder, record: impl Fn(u32) -> InstanceRecord) -> Self {
        let mut case = Case::with(clusters);
        for (name, _) in clusters {
            case.decide(Decision::TakeEpoch {
                role: Role::Shard(ClusterId::new(name)),
                next: Leadership::taken(Epoch(1), name, 1),
                expected: Epoch(0),
            });
        }
        let job = case.job(1, spec);
        case.run_for(Span::seconds(8));
        let home = if case.ranges(job).contains("@a") { "a" } else { "b" };
        for n in 0..u32::try_from(case.shard(home).running(job).len()).unwrap() {
            store_record(&mut case, home, job, n, record(n));
        }
        Self {
            case,
            job,
            home,
            other: other_of(home),
        }
    }

    /// The cluster is silent for so long that starts are forbidden there, and an operator has declared it
    /// lost.
    fn lose(&mut self) {
        cut(&mut self.case, self.home);
        self.case.run_for(Span::seconds(90));
        let number = silence(&self.case, self.home);
        declare(&mut self.case, self.home, number, Declaration::Lost);
        self.case.run_for(Span::seconds(30));
    }

    fn remove(&mut self) {
        let number = silence(&self.case, self.home);
        declare(&mut self.case, self.home, number, Declaration::NeverReturns);
        self.case.desire(self.home, DesiredState::Removing);
    }

    fn desired(&self) -> DesiredState {
        row(&self.case, self.home).desired_state
    }

    fn hold_removed(&self) {
        let ranges = self.case.ranges(self.job);
        assert_eq!(self.desired(), DesiredState::Removed, "{ranges}");
        assert_eq!(left(&self.case, self.home), (false, false), "{ranges}");
        assert_eq!(
            epoch(&self.case, self.home),
            Epoch(2),
            "a leader that is left can write no more"
        );
        assert!(!ranges.contains(&format!("@{}", self.home)), "{ranges}");
    }

    fn active_elsewhere(&mut self) -> usize {
        self.case.shard(self.other).running(self.job).len()
    }

    /// What the job's instances at the cluster were, as another shard reads it.
    fn stored_instances(&self) -> usize {
        let query = Query::GroupBlocks {
            cluster: ClusterId::new(self.home),
            job: self.job,
            group: GroupName::new("main"),
            first: 0,
            last: 0,
        };
        match self.case.store.read(&query) {
            Answer::Blocks(blocks, _) => blocks.iter().map(|block| block.instances.len()).sum(),
            other => panic!("{other:?}"),
        }
    }

    fn work(&self) -> ClusterWork {
        let question = ClusterQuestion {
            cluster: ClusterId::new(self.home),
            name: self.home.to_owned(),
            desired: DesiredState::Removing,
            labels: BTreeMap::new(),
            is_lost: true,
        };
        cluster_work(self.case.rm.picture(), &question)
    }
}

fn waits(spec: JobBuilder) -> JobBuilder {
    spec.on_cluster_loss(OnSilence::Wait)
}

#[test]
fn what_waits_for_the_cluster_begins_elsewhere() {
    for spec in [service(4), batch(4), batch(4).gang()] {
        let mut scene = Scene::new(waits(spec));
        scene.lose();
        assert_eq!(scene.active_elsewhere(), 0);
        scene.remove();
        scene.case.run_for(Span::seconds(30));
        scene.hold_removed();
        assert_eq!(scene.active_elsewhere(), 4);
        // The older generation is named, and its records can be read.
        let assignment = scene.case.assignment(scene.job).unwrap();
        for range in assignment.ranges(&GroupName::new("main")) {
            let former = Some((ClusterId::new(scene.home), Generation(1)));
            assert_eq!(range.former, former, "{range:?}");
        }
        assert_eq!(scene.stored_instances(), 4);
        assert!(scene.case.events_of(scene.job).contains(&ReasonCode::ClusterLost));
    }
}

#[test]
fn without_the_word_of_an_operator_the_removal_waits_for_the_shard() {
    let mut scene = Scene::new(waits(service(4)));
    scene.lose();
    scene.case.desire(scene.home, DesiredState::Removing);
    scene.case.run_for(Span::minutes(5));
    assert_eq!(scene.desired(), DesiredState::Removing);
    assert_eq!(scene.active_elsewhere(), 0);
    // Another silence was meant.
    let number = silence(&scene.case, scene.home);
    declare(&mut scene.case, scene.home, number - 1, Declaration::NeverReturns);
    scene.case.run_for(Span::minutes(5));
    assert_eq!(scene.desired(), DesiredState::Removing);
    assert_eq!(scene.active_elsewhere(), 0);
}

/// Starts are forbidden before anything leaves, also where the silence is younger than a minute.
#[test]
fn nothing_leaves_before_starts_are_forbidden() {
    let mut scene = Scene::new(waits(service(4)));
    cut(&mut scene.case, scene.home);
    scene.case.run_for(Span::seconds(20));
    scene.remove();
    scene.case.run_for(Span::seconds(35));
    assert_eq!(ban(&scene.case, scene.home).silence, None);
    assert_eq!(scene.desired(), DesiredState::Removing);
    assert_eq!(scene.active_elsewhere(), 0);
    scene.case.run_for(Span::seconds(60));
    scene.hold_removed();
    assert_eq!(scene.active_elsewhere(), 4);
}

#[test]
fn what_has_ended_keeps_its_index_at_another_cluster() {
    let record = |n| InstanceRecord {
        ended: Some(Ended::Succeeded).filter(|_| n == 1),
        ..running()
    };
    for spec in [batch(4).on_cluster_loss(replace_after(60)), waits(batch(4))] {
        let mut scene = Scene::with(spec, record);
        scene.lose();
        scene.remove();
        scene.case.run_for(Span::seconds(40));
        scene.hold_removed();
        let assignment = scene.case.assignment(scene.job).unwrap();
        let group = GroupName::new("main");
        assert_eq!(assignment.assigned(&group).count(), 4);
        let ranges = assignment.ranges(&group);
        let of_ended = ranges.iter().find(|r| r.range.first <= 1 && r.range.last >= 1);
        let former = Some((ClusterId::new(scene.home), Generation(1)));
        assert_eq!(of_ended.unwrap().former, former, "its records are taken over");
    }
}

#[test]
fn a_gang_goes_with_its_members_that_have_ended() {
    let record = |n| InstanceRecord {
        ended: Some(Ended::Succeeded).filter(|_| n == 1),
        ..running()
    };
    // A result alone would go to the first of the others, where the gang has no place.
    let clusters = [("a", 8), ("b", 2), ("c", 8)];
    let mut scene = Scene::among(&clusters, waits(batch(4).gang()), record);
    scene.lose();
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
    assert_eq!(scene.case.ranges(scene.job), "0-3@c.2");
}

#[test]
fn instances_of_daemons_end_with_the_cluster() {
    let mut scene = Scene::new(waits(service(1)));
    for cluster in [scene.home, scene.other] {
        scene.case.shard(cluster).hosts_of_daemons = Some(3);
    }
    let daemon = scene.case.job(2, JobBuilder::daemon("agent"));
    scene.case.run_for(Span::seconds(8));
    scene.lose();
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
    let ranges = scene.case.ranges(daemon);
    assert!(!ranges.contains(&format!("@{}", scene.home)), "{ranges}");
    assert_eq!(scene.case.shard(scene.other).running(daemon).len(), 3);
    let progress = scene.case.progress(daemon).unwrap();
    let counts = progress.groups.get(&GroupName::new("main"));
    assert_eq!(counts.map(Counts::total), Some(3));
}

#[test]
fn what_may_use_no_other_cluster_waits_and_says_why() {
    let mut scene = Scene::new(waits(service(2).only(&["a"])));
    scene.lose();
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
    assert_eq!(scene.active_elsewhere(), 0);
    assert_eq!(scene.case.waiting(scene.job), [(ReasonCode::NoCluster, 2)]);
}

#[test]
fn a_job_that_is_stopped_waits_for_no_shard() {
    let record = |n| InstanceRecord {
        ended: Some(Ended::Succeeded).filter(|_| n == 1),
        ..running()
    };
    let mut scene = Scene::with(waits(batch(4)), record);
    scene.lose();
    scene.case.want(scene.job, Desired::Stopped);
    scene.case.run_for(Span::minutes(2));
    assert_eq!(scene.case.state(scene.job), Some(JobState::Stopping));
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
    assert_eq!(scene.case.state(scene.job), Some(JobState::Stopped));
    assert_eq!(scene.case.ranges(scene.job), format!("1@{}.2", scene.other));
}

/// A job that has ended stays known while its template counts it.
#[test]
fn an_ended_job_of_a_schedule_keeps_no_cluster() {
    let mut scene = Scene::new(waits(service(1)));
    scene.case.born = scene.case.now;
    let ten = every_ten(Overlap::Skip, CatchUp::One);
    let template = scene.case.job(2, batch(1).only(&[scene.home]).schedule(ten));
    scene.case.run_for(Span::minutes(10));
    let child = children(&scene.case, template).remove(0).job;
    scene.case.at(scene.home, |s, now| {
        s.finish_of(child, 1, RunState::Succeeded, now)
    });
    scene.case.run_for(Span::seconds(2));
    assert_eq!(scene.case.state(child), Some(JobState::Succeeded));
    scene.lose();
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
}

/// The new leader waits for itself before it forbids starts, and goes on then.
#[test]
fn a_new_leader_goes_on_wherever_the_one_before_has_stopped() {
    for millis in [0, 500, 1_000, 3_000, 8_000, 11_000, 12_000, 14_000] {
        let mut scene = Scene::new(waits(service(4)));
        scene.lose();
        scene.remove();
        scene.case.run_for(Span::millis(millis));
        scene.case.fail_over();
        scene.case.run_for(Span::minutes(3));
        scene.hold_removed();
        assert_eq!(scene.active_elsewhere(), 4, "after {millis} ms");
    }
}

/// A shard that is back before all has left: the removal goes on with it, and it leaves Mesos.
#[test]
fn a_shard_that_comes_back_in_between_is_torn_down() {
    for millis in [500, 4_000, 9_500, 10_500] {
        let mut scene = Scene::new(waits(service(4)));
        scene.lose();
        scene.remove();
        scene.case.run_for(Span::millis(millis));
        let is_removed = scene.desired() == DesiredState::Removed;
        scene.case.shard(scene.home).cores = 8;
        scene.case.reopen(scene.home);
        scene.case.run_for(Span::minutes(3));
        assert_eq!(scene.desired(), DesiredState::Removed, "after {millis} ms");
        assert_eq!(scene.active_elsewhere(), 4, "after {millis} ms");
        assert_eq!(
            scene.case.shard(scene.home).signs.torn_down,
            !is_removed,
            "after {millis} ms"
        );
    }
}

/// A shard that is back after all: nothing is assigned to it, and nothing is granted.
#[test]
fn a_shard_that_comes_back_after_its_removal_begins_nothing() {
    let mut scene = Scene::new(waits(service(4)));
    scene.lose();
    scene.remove();
    scene.case.run_for(Span::seconds(40));
    scene.hold_removed();
    let before = scene.case.shard(scene.home).active();
    scene.case.shard(scene.home).cores = 8;
    scene.case.reopen(scene.home);
    scene.case.run_for(Span::minutes(2));
    let next = scene.case.job(2, service(8).spread());
    scene.case.run_for(Span::minutes(2));
    assert!(scene.case.shard(scene.home).active() <= before);
    assert_eq!(scene.case.shard(scene.home).running(next).len(), 0);
    assert_eq!(scene.active_elsewhere(), 4);
}

#[test]
fn the_plan_counts_what_is_given_up_against_its_policy() {
    let mut scene = Scene::new(waits(service(2)));
    scene.case.shard(scene.home).hosts_of_daemons = Some(3);
    let daemon = scene.case.job(2, JobBuilder::daemon("agent"));
    scene.case.run_for(Span::seconds(8));
    let replaced = scene.case.job(
        3,
        service(1).only(&[scene.home]).on_cluster_loss(replace_after(60)),
    );
    let stopped = scene.case.job(4, waits(service(1).only(&[scene.home])));
    scene.case.run_for(Span::seconds(4));
    scene.lose();
    scene.case.want(stopped, Desired::Stopped);
    scene.case.run_for(Span::seconds(4));
    let work = scene.work();
    assert_eq!(work.totals.given_up, 5, "{work:#?}");
    let of = |job: JobId| {
        let found = work.groups.iter().find(|group| group.job == job);
        found.map(|group| group.departure.clone()).unwrap()
    };
    assert!(matches!(of(scene.job), Departure::GivenUp(_)));
    assert!(matches!(of(daemon), Departure::GivenUp(_)));
    assert!(matches!(of(replaced), Departure::Moves { movable: 0, .. }));
    assert_eq!(of(stopped), Departure::End);
}
