//! Taking, keeping and losing the leadership, and what a new leader makes of what it finds.

use crate::config::Config;
use crate::effect::Effect;
use crate::event::Event;
use crate::manager::ResourceManager;
use crate::tests::case::{Case, batch, service};
use echelon_core_model::bucket::JOB_BUCKETS;
use echelon_core_model::directive::{Report, ReportPart};
use echelon_core_model::health::Health;
use echelon_core_model::job::{Desired, JobState};
use echelon_core_model::store::{
    Answer, Batch, Decision, Leadership, Mark, Op, OpFailure, OpResult, Query, Role, Stamp, TroubleKind,
    Write,
};
use echelon_core_model::{ClusterId, Epoch, JobId, ReasonCode, RunState, Span, Timestamp, Version};
use std::collections::BTreeSet;

fn take_epoch(case: &mut Case, epoch: u64) {
    let Answer::Leadership(l) = case.store.read(&Query::Leadership(Role::ResourceManager)) else {
        panic!()
    };
    case.store.perform(Op::Decide(Decision::TakeEpoch {
        role: Role::ResourceManager,
        next: Leadership {
            epoch: Epoch(epoch),
            holder: "another".to_owned(),
            proof: 1,
            resumed: Epoch(0),
        },
        expected: l.epoch,
    }));
}

/// Why, when it happened and when that was written, of all events of a job.
fn dated(case: &Case, job: JobId) -> Vec<(ReasonCode, Timestamp, Timestamp)> {
    let all = case.stored_events(job).into_iter();
    all.map(|e| (e.reason.code, e.happened, e.at)).collect()
}

#[test]
fn what_happened_while_nobody_led_is_dated_when_it_happened() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    let made = case.now;
    let (ends, stops) = (case.job(1, batch(1)), case.job(2, service(1)));
    case.rm = ResourceManager::new(Config::new("nobody", 7));
    case.links.clear();
    case.now = case.now.plus(Span::minutes(3));
    let ended = case.now;
    case.shard("a").finish_of(ends, 1, RunState::Succeeded, ended);
    case.change_head(stops, |head| head.goal.desired = Desired::Stopped);
    case.now = case.now.plus(Span::minutes(4));
    let back = case.now;
    case.fail_over();
    let told = dated(&case, ends);
    let codes: Vec<ReasonCode> = told.iter().map(|(code, ..)| *code).collect();
    assert_eq!(
        codes,
        [ReasonCode::Accepted, ReasonCode::Running, ReasonCode::Succeeded]
    );
    assert_eq!(told[0].1, made, "it was accepted when it was made");
    assert_eq!(told[2].1, ended);
    assert!(told[2].2 >= back, "it was written when somebody led again");
    assert_eq!(case.progress(ends).unwrap().since, ended);
    let stopped = dated(&case, stops);
    let (code, happened, at) = stopped[2];
    assert_eq!((code, happened), (ReasonCode::StopRequested, ended));
    assert!(at >= back);
}

#[test]
fn a_job_that_began_while_its_shard_was_not_heard_has_run_since_then() {
    let mut case = Case::with(&[("a", 8)]);
    case.born = case.now;
    case.held = Some((ClusterId::new("a"), Vec::new()));
    let job = case.job(1, batch(2));
    let kept = case.held.take().unwrap().1;
    let begun = case.now;
    for (_, directive) in kept {
        let now = case.now;
        // What it answers is lost.
        case.shard("a").on_directive(directive, now);
    }
    assert_eq!(case.total_active(job), 2);
    case.now = case.now.plus(Span::seconds(5));
    case.cut("a");
    case.reopen("a");
    case.run_for(Span::seconds(2));
    let told = dated(&case, job);
    assert_eq!((told[1].0, told[1].1), (ReasonCode::Running, begun));
}

#[test]
fn a_new_leader_rebuilds_and_changes_nothing() {
    let mut case = Case::with(&[("a", 8), ("b", 4)]);
    let jobs = [
        case.job(1, batch(9).spread()),
        case.job(2, service(2)),
        case.job(3, batch(40).max_running(2)),
    ];
    case.run_for(Span::seconds(3));
    let assignments = jobs.map(|j| case.assignment(j));
    let state = |case: &Case, j| case.progress(j).map(|p| (p.state, p.since));
    let states = jobs.map(|j| state(&case, j));
    let active = jobs.map(|j| case.shards.values().map(|s| s.running(j)).collect::<Vec<_>>());
    case.trace.clear();
    for _ in 0..3 {
        case.fail_over();
        case.run_for(Span::seconds(3));
    }
    assert_eq!(jobs.map(|j| case.assignment(j)), assignments);
    assert_eq!(jobs.map(|j| state(&case, j)), states, "since the state began");
    assert_eq!(
        jobs.map(|j| case.shards.values().map(|s| s.running(j)).collect::<Vec<_>>()),
        active
    );
    assert!(
        case.trace.iter().all(|t| !t.starts_with("store")),
        "{:#?}",
        case.trace
    );
    assert_eq!(case.rm.leading(), Some(Epoch(4)));
}

#[test]
fn a_new_leader_tells_nothing_of_a_job_before_all_of_its_holders_were_heard() {
    let mut case = Case::with(&[("a", 8), ("b", 4)]);
    let jobs = [
        case.job(1, service(9).spread()),
        case.job(2, service(2).only(&["a"])),
    ];
    case.run_for(Span::minutes(35));
    let stands = jobs.map(|job| case.progress(job).unwrap());
    assert!(stands.iter().all(|p| p.state == JobState::Running));
    let events = jobs.map(|job| case.events_of(job));
    // One of them is not reached for a while.
    case.shard("a").cores = 0;
    case.fail_over();
    case.run_for(Span::seconds(5));
    assert_eq!(jobs.map(|job| case.progress(job).unwrap()), stands);
    case.shard("a").cores = 8;
    case.reopen("a");
    case.run_for(Span::seconds(8));
    for (job, stands) in jobs.iter().zip(&stands) {
        let after = case.progress(*job).unwrap();
        assert_eq!(
            (after.state, after.since, after.created_at),
            (stands.state, stands.since, stands.created_at)
        );
    }
    assert_eq!(jobs.map(|job| case.events_of(job)), events);
}

#[test]
fn a_job_on_a_cluster_that_stays_silent_has_not_gone_back_to_waiting() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    case.run_for(Span::minutes(5));
    let stands = case.progress(job).unwrap();
    let events = case.events_of(job);
    case.shard("a").cores = 0;
    case.fail_over();
    case.run_for(Span::minutes(10));
    let silent = case.progress(job).unwrap();
    assert_eq!((silent.state, silent.since), (stands.state, stands.since));
    assert_eq!(case.events_of(job), events);
}

/// What stands in the end: active instances by cluster and what waits why, by job.
type Stands = Vec<(Vec<u64>, Vec<(ReasonCode, u64)>)>;

/// A history of four pools on three clusters, with a change of leaders in the middle or none.
fn history(fail_over: bool) -> Stands {
    let mut case = Case::new()
        .pool("/x", 100)
        .pool("/y", 100)
        .pool("/small", 3)
        .pool("/z", 100)
        .cluster("a", 7)
        .cluster("b", 5)
        .cluster("c", 4);
    case.shard("c").lent_cores = 3;
    case.elect();
    let mut jobs = vec![
        case.job(1, service(9).pool("/x").spread()),
        case.job(2, batch(9).pool("/y")),
        case.job(3, service(5).pool("/small").spread()),
        case.job(4, batch(6).pool("/z").revocable()),
        case.job(5, batch(4).pool("/z").priority(9)),
    ];
    // Long enough that everybody has what he is entitled to.
    case.run_for(Span::minutes(3));
    let before: Vec<usize> = jobs.iter().map(|j| case.total_active(*j)).collect();
    if fail_over {
        case.fail_over();
    }
    case.run_for(Span::seconds(45));
    let after: Vec<usize> = jobs.iter().map(|j| case.total_active(*j)).collect();
    assert_eq!(before, after, "running work is left alone");
    // From here on the same is asked of either leader.
    jobs.push(case.job(6, service(4).pool("/y").spread()));
    jobs.push(case.job(7, batch(3).pool("/small").priority(1)));
    case.scale(jobs[0], 4);
    case.at("a", |s, now| s.finish(2, RunState::Succeeded, now));
    case.run_for(Span::seconds(90));
    let stands = |case: &mut Case, job| {
        let active = ["a", "b", "c"].map(|c| case.shard(c).active_of_job(job));
        (active.to_vec(), case.waiting(job))
    };
    jobs.into_iter().map(|job| stands(&mut case, job)).collect()
}

#[test]
fn a_new_leader_decides_as_the_old_one_would_have() {
    let (old, new) = (history(false), history(true));
    assert_eq!(old, new);
    assert!(
        old.iter()
            .map(|(active, _)| active.iter().sum::<u64>())
            .sum::<u64>()
            >= 16,
        "{old:?}"
    );
}

#[test]
fn a_new_leader_counts_what_an_older_one_granted_until_the_shard_obeys_it() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.set_pool("/small", 4);
    case.run_for(Span::seconds(6));
    // Four are granted at a, none of them begun; the pool has nothing for b.
    case.shard("a").unplaceable = Some(ReasonCode::AwaitingOffer);
    let first = case.job(1, batch(4).only(&["a"]).pool("/small"));
    let second = case.job(2, batch(4).only(&["b"]).pool("/small").priority(9));
    assert_eq!((case.total_active(first), case.total_active(second)), (0, 0));
    // The new leader's first order is still on its way when the shard begins all four by the old leader's grant.
    case.held = Some((ClusterId::new("a"), Vec::new()));
    case.fail_over();
    case.run_for(Span::seconds(2));
    let now = case.now;
    case.shard("a").unplaceable = None;
    case.shard("a").work(now);
    case.run_for(Span::seconds(3));
    case.arrive();
    case.run_for(Span::seconds(5));
    assert_eq!((case.total_active(first), case.total_active(second)), (4, 0));
    assert_eq!(case.waiting(second), [(ReasonCode::PoolLimit, 4)]);
}

#[test]
fn a_deposed_leader_steps_down_when_its_write_is_refused() {
    let mut case = Case::with(&[("a", 8)]);
    for partition in 0..64 {
        case.store.perform(Op::Decide(Decision::RaisePartition {
            partition,
            epoch: Epoch(2),
            expected: Epoch(1),
        }));
    }
    let job = case.job(1, batch(2));
    assert!(
        case.stepped_down
            .as_ref()
            .unwrap()
            .contains("belongs to another resource manager")
    );
    assert_eq!((case.assignment(job), case.rm.leading()), (None, None));
    assert_eq!(case.rm.next_wake(), None, "it wants nothing any more");
}

#[test]
fn a_leader_that_reads_another_s_epoch_steps_down() {
    let mut case = Case::with(&[("a", 8)]);
    take_epoch(&mut case, 2);
    case.run_for(Span::seconds(4));
    assert_eq!(
        case.stepped_down.as_deref(),
        Some("resource manager epoch 2 was taken by another")
    );
}

#[test]
fn a_leader_without_storage_stops_acting_within_its_lease() {
    let mut case = Case::with(&[("a", 8)]);
    case.stalled = Some(Vec::new());
    case.run_for(Span::seconds(11));
    assert!(
        case.stepped_down
            .as_ref()
            .unwrap()
            .contains("could not be read for 10s")
    );
}

#[test]
fn a_shard_that_obeys_a_newer_leader_ends_this_one_as_soon_as_storage_knows_it() {
    let mut case = Case::with(&[("a", 8)]);
    take_epoch(&mut case, 9);
    case.shard("a").obeyed = Epoch(9);
    case.at("a", |s, _| vec![s.report(ReportPart::Superseded(Epoch(9)))]);
    assert_eq!(
        case.stepped_down.as_deref(),
        Some("resource manager epoch 9 was taken by another")
    );
}

/// Jobs begin at b, whatever was heard of a.
fn goes_on_without_a(case: &mut Case) {
    assert_eq!((case.rm.leading(), &case.stepped_down), (Some(Epoch(1)), &None));
    let job = case.job(20, batch(3).only(&["b"]));
    case.run_for(Span::seconds(5));
    assert_eq!(case.active(job), [("b", 3)]);
}

/// Once a speaks the truth it is used again.
fn returns(case: &mut Case) {
    case.run_for(Span::seconds(70));
    let job = case.job(21, batch(3).only(&["a"]));
    case.run_for(Span::seconds(10));
    assert_eq!(case.active(job), [("a", 3)]);
}

#[test]
fn a_shard_that_invents_a_newer_leader_is_set_aside_and_the_others_go_on() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let kept = case.job(1, service(4).only(&["a"]));
    case.run_for(Span::seconds(5));
    case.at("a", |s, _| {
        vec![s.report(ReportPart::Superseded(Epoch(8_388_607)))]
    });
    let said = "the shard of cluster a is set aside: it says that it obeys resource manager epoch 8388607";
    assert!(case.alarms[0].starts_with(said), "{:?}", case.alarms);
    goes_on_without_a(&mut case);
    assert_eq!(case.active(kept), [("a", 4)]);
    returns(&mut case);
    assert_eq!(case.alarms.len(), 1);
}

#[test]
fn a_shard_that_lies_again_and_again_is_set_aside_each_time() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    // Every directive is answered by it.
    case.shard("a").obeyed = Epoch(9);
    case.run_for(Span::minutes(5));
    assert!((4..8).contains(&case.alarms.len()), "{:?}", case.alarms);
    goes_on_without_a(&mut case);
}

#[test]
fn a_shard_that_speaks_for_another_cluster_is_set_aside() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.at("a", |s, _| {
        let mut told = s.report(ReportPart::FullStart);
        told.cluster = ClusterId::new("b");
        vec![told]
    });
    let said = "the shard of cluster a is set aside: it reports as the shard of cluster b";
    assert!(case.alarms[0].starts_with(said), "{:?}", case.alarms);
    goes_on_without_a(&mut case);
    returns(&mut case);
}

#[test]
fn a_shard_that_cannot_be_understood_is_set_aside() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let link = case.links[&ClusterId::new("a")];
    let why = "it sent what cannot be understood: field `slices[0].live`".to_owned();
    case.step(Event::Unreadable { link, why });
    assert!(
        case.alarms[0].contains("is set aside: it sent what"),
        "{:?}",
        case.alarms
    );
    goes_on_without_a(&mut case);
    returns(&mut case);
}

#[test]
fn each_stream_begins_with_what_the_leader_took() {
    let mut case = Case::with(&[("a", 8)]);
    case.trace.clear();
    case.cut("a");
    case.reopen("a");
    let orders: Vec<&String> = case.trace.iter().filter(|t| t.starts_with("a: ")).collect();
    assert_eq!(orders[0], "a: hello of epoch 1", "{orders:?}");
}

#[test]
fn rolled_back_storage_freezes_until_it_is_resumed() {
    let mut case = Case::new().pool("/default", 9).cluster("a", 8);
    case.published.epoch = Epoch(5);
    case.elect();
    case.run_for(Span::seconds(20));
    assert_eq!((case.rm.leading(), case.published.epoch), (None, Epoch(5)));
    assert!(
        case.alarms[0].contains("storage was rolled back"),
        "{:?}",
        case.alarms
    );
    take_epoch(&mut case, 50);
    case.run_for(Span::seconds(20));
    assert_eq!(case.rm.leading(), Some(Epoch(51)));
}

/// What `echelon storage resume` stores.
fn resume(case: &mut Case, epoch: u64) {
    let Answer::Leadership(stored) = case.store.read(&Query::Leadership(Role::ResourceManager)) else {
        panic!()
    };
    case.store.perform(Op::Decide(Decision::TakeEpoch {
        role: Role::ResourceManager,
        next: Leadership {
            resumed: Epoch(epoch),
            ..Leadership::taken(Epoch(epoch), "resume", 1)
        },
        expected: stored.epoch,
    }));
}

#[test]
fn a_backup_of_the_same_leadership_freezes_until_it_is_resumed() {
    let mut case = Case::with(&[("a", 8)]);
    case.run_for(Span::seconds(20));
    let backup = case.store.clone();
    let job = case.job(1, service(2));
    case.run_for(Span::seconds(20));
    case.store = backup;
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert_eq!(case.rm.leading(), None);
    assert!(
        case.alarms[0].contains("storage was rolled back: membership has seen write"),
        "{:?}",
        case.alarms
    );
    assert!(
        case.rm
            .frozen()
            .is_some_and(|why| why.contains("membership has seen write"))
    );
    assert_eq!(case.progress(job), None, "nothing is written");
    resume(&mut case, 50);
    case.run_for(Span::seconds(20));
    assert_eq!((case.rm.leading(), case.rm.frozen()), (Some(Epoch(51)), None));
    // What was resumed is no evidence again, and what is told from there on is.
    case.fail_over();
    case.run_for(Span::seconds(20));
    assert_eq!(case.rm.leading(), Some(Epoch(52)));
}

#[test]
fn leaders_that_change_without_a_backup_never_freeze() {
    let mut case = Case::with(&[("a", 8)]);
    for n in 2..20 {
        case.run_for(Span::seconds(n % 7));
        case.fail_over();
        assert_eq!((case.rm.leading(), case.alarms.len()), (Some(Epoch(n)), 0));
    }
}

#[test]
fn rows_that_are_lost_are_no_defaults() {
    let stamp = Stamp {
        epoch: Epoch(1),
        sequence: 9,
    };
    for (has_leadership, why) in [
        (false, "the row of its leadership"),
        (true, "of the switches was obeyed"),
    ] {
        let mut case = Case::new().pool("/default", 9).cluster("a", 8);
        if has_leadership {
            take_epoch(&mut case, 1);
        }
        case.store.perform(Op::Commit(Batch {
            owner: Role::ResourceManager,
            stamp,
            writes: vec![Write::Mark(Mark {
                stamp,
                control: Version(1),
                at: Timestamp(0),
                settled: Epoch(0),
            })],
        }));
        case.elect();
        case.run_for(Span::seconds(20));
        assert_eq!(case.rm.leading(), None);
        assert!(case.alarms[0].contains(why), "{:?}", case.alarms);
    }
}

#[test]
fn a_frozen_one_looks_now_and_then_and_does_not_spin() {
    let mut case = Case::new().pool("/default", 9).cluster("a", 8);
    case.published.epoch = Epoch(5);
    case.elect();
    assert_eq!(case.rm.next_wake(), Some(case.now.plus(Span::seconds(3))));
    case.wakes = 0;
    case.run_for(Span::seconds(60));
    assert_eq!((case.wakes, case.alarms.len()), (12, 13));
    // Also while its question gets no answer, or a failure for one.
    case.stalled = Some(Vec::new());
    case.wakes = 0;
    case.run_for(Span::seconds(60));
    assert!(case.wakes <= 12, "{} turns", case.wakes);
}

#[test]
fn an_idle_leader_turns_only_to_read_again() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    case.born = case.now;
    case.job(1, service(4).spread());
    case.job(2, batch(2));
    let deleted = case.job(3, batch(2));
    case.want(deleted, echelon_core_model::job::Desired::Deleted);
    case.run_for(Span::seconds(30));
    case.wakes = 0;
    case.trace.clear();
    case.run_for(Span::seconds(60));
    // Each of 1,024 buckets once, a full cycle a second, pools and clusters every five, the epoch every three, and cycles after
    // what the shards tell.
    assert!(case.wakes < 1_024 + 400, "{} turns", case.wakes);
}

#[test]
fn a_manager_that_turns_seldom_reads_every_bucket_of_heads_in_time() {
    let mut case = Case::with(&[("a", 8)]);
    case.run_for(Span::seconds(5));
    let mut read = BTreeSet::new();
    // A turn each 100 ms is in time for one and a half buckets.
    for _ in 0..600 {
        case.now = case.now.plus(Span::millis(100));
        let mut out = Vec::new();
        case.rm.step(Event::Wake, case.now, &mut out);
        for effect in out {
            if let Effect::Storage(id, op) = effect {
                if let Op::Read(Query::Heads(bucket), _) = &op {
                    read.insert(*bucket);
                }
                let result = case.store.perform(op);
                case.events.push_back(Event::Storage(id, result));
            }
        }
        case.settle();
    }
    assert_eq!(read.len(), usize::from(JOB_BUCKETS));
}

#[test]
fn failed_operations_are_repeated_unchanged() {
    let mut rm = ResourceManager::new(Config::new("one", 1));
    let mut out = Vec::new();
    rm.step(
        Event::Elected {
            published: Stamp::default(),
        },
        Timestamp(1000),
        &mut out,
    );
    let Some(Effect::Storage(id, op)) = out.pop() else {
        panic!()
    };
    let failed = OpResult::Failed(OpFailure::unknown("timed out"));
    rm.step(Event::Storage(id, failed), Timestamp(1001), &mut out);
    assert_eq!(out, [], "not at once");
    let wake = rm.next_wake().unwrap();
    rm.step(Event::Wake, wake, &mut out);
    assert_eq!(out, [Effect::Storage(id, op)]);
}

#[test]
fn late_results_after_a_deposition_do_nothing() {
    let mut case = Case::with(&[("a", 8)]);
    case.stalled = Some(Vec::new());
    case.job(1, batch(2));
    let kept = case.stalled.take().unwrap();
    assert!(!kept.is_empty());
    case.step(Event::Deposed);
    for (id, op) in kept {
        let result = case.store.perform(op);
        case.step(Event::Storage(id, result));
    }
    assert_eq!((case.rm.leading(), case.events.len()), (None, 0));
}

#[test]
fn stale_reports_are_dropped() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(4));
    let a = ClusterId::new("a");
    let before = case.rm.picture().facts.clusters[&a].reports.clone();
    let old = before.values().next().unwrap().clone();
    let stale = |epoch, sequence| Report {
        cluster: a.clone(),
        epoch: Epoch(epoch),
        sequence,
        part: ReportPart::Slices(vec![echelon_core_model::directive::SliceReport {
            active: 0,
            ..(*old).clone()
        }]),
    };
    for report in [stale(1, 1), stale(0, 999)] {
        case.bring(&a, vec![report]);
        case.settle();
    }
    assert_eq!(case.rm.picture().facts.clusters[&a].reports, before);
    assert_eq!(case.total_active(job), 4);
}

#[test]
fn what_a_report_leaves_out_is_not_denied() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    let a = ClusterId::new("a");
    // Another leader of the shard, with an empty full report.
    let part = |sequence, part| Report {
        cluster: ClusterId::new("a"),
        epoch: Epoch(2),
        sequence,
        part,
    };
    case.bring(&a, vec![part(1, ReportPart::FullStart)]);
    case.settle();
    assert_eq!(
        case.rm.picture().facts.clusters[&a].reports.len(),
        1,
        "until the end the picture holds"
    );
    let assigned = case.assignment(job);
    case.bring(&a, vec![part(2, ReportPart::FullEnd)]);
    case.settle();
    case.run_for(Span::seconds(1));
    assert_eq!(case.assignment(job), assigned);
    assert!(case.head(job).is_some() && case.total_active(job) == 4);
}

#[test]
fn a_head_that_vanishes_deletes_nothing() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, service(4));
    let version = case.head(job).unwrap().version;
    case.store.perform(Op::Decide(Decision::RemoveHead {
        job,
        expected: version,
    }));
    case.run_for(Span::seconds(130));
    assert_eq!((case.total_active(job), case.alarms.len()), (4, 1));
    assert!(case.alarms[0].contains("what runs of it is kept"));
    assert!(case.assignment(job).is_some());
}

#[test]
fn an_interrupted_delete_is_finished_by_the_next_leader() {
    for stop_after in ["remove head", "remove assignment", "progress deleted"] {
        let mut case = Case::with(&[("a", 8)]);
        let job = case.job(1, service(2));
        case.change_head(job, |h| {
            h.goal.desired = echelon_core_model::job::Desired::Deleted
        });
        case.events.push_back(Event::Hint(job));
        while !case.trace.iter().any(|t| t == stop_after) {
            match case.events.pop_front() {
                Some(event) => case.step(event),
                None => {
                    case.now = case.rm.next_wake().unwrap();
                    case.step(Event::Wake);
                }
            }
        }
        case.fail_over();
        case.run_for(Span::seconds(10));
        assert_eq!(
            (case.head(job), case.progress(job), case.assignment(job)),
            (None, None, None),
            "{stop_after}"
        );
        assert!(case.shards.values().all(|s| s.active() == 0));
    }
}

#[test]
fn every_silence_is_told_and_moves_nothing() {
    let mut case = Case::with(&[("a", 8), ("b", 8)]);
    let job = case.job(1, service(4).spread());
    let health = |case: &Case| {
        let Answer::ClusterStates(rows) = case.store.read(&Query::ClusterStates) else {
            panic!()
        };
        rows.into_iter().map(|s| s.health.health).collect::<Vec<_>>()
    };
    case.run_for(Span::seconds(8));
    assert_eq!(health(&case), [Health::Healthy, Health::Healthy]);
    case.cut("b");
    case.shard("b").cores = 0;
    case.run_for(Span::seconds(14));
    assert_eq!(health(&case), [Health::Healthy, Health::CutOff]);
    case.run_for(Span::seconds(60));
    assert_eq!(health(&case), [Health::Healthy, Health::CutOff]);
    assert_eq!(case.active(job), [("a", 2), ("b", 2)]);
    case.shard("b").cores = 8;
    case.run_for(Span::seconds(10));
    assert_eq!(health(&case), [Health::Healthy, Health::Recovering]);
    case.run_for(Span::seconds(15));
    assert_eq!(health(&case), [Health::Healthy, Health::Healthy]);
}

#[test]
fn another_shard_leader_is_believed_from_its_first_word() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(20));
    case.cut("a");
    case.shard("a").fail_over();
    case.run_for(Span::seconds(6));
    case.at("a", |s, now| {
        s.finish(5, echelon_core_model::RunState::Succeeded, now)
    });
    assert_eq!(case.total_active(job), 8);
}

#[test]
fn an_accepted_loss_is_ordered_until_the_shard_waits_no_more_and_no_later_one_is() {
    let mut case = Case::with(&[("a", 4), ("b", 4)]);
    let orders = |case: &mut Case| -> Vec<String> {
        let all = std::mem::take(&mut case.trace);
        all.into_iter().filter(|t| t.contains("accept loss")).collect()
    };
    case.shard("a").loss = Some(70);
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(10));
    assert_eq!(orders(&mut case), Vec::<String>::new());
    case.change_cluster("a", |c| c.accepted_loss = 70);
    case.run_for(Span::seconds(3));
    assert_eq!(orders(&mut case), ["a: accept loss 70"]);
    assert_eq!(case.shard("a").loss, None);
    // A later one is another; a new leader knows no more than what is stored and told.
    case.shard("a").loss = Some(71);
    case.at("a", |shard, now| shard.full(now));
    case.fail_over();
    case.run_for(Span::seconds(10));
    assert_eq!((orders(&mut case), case.shard("a").loss), (Vec::new(), Some(71)));
}

#[test]
fn instances_that_wait_for_an_operator_say_so_beside_those_that_wait_for_room() {
    let mut case = Case::with(&[("a", 4)]);
    let job = case.job(1, service(6));
    case.run_for(Span::seconds(5));
    let before = case.waiting(job);
    case.shard("a").loss = Some(70);
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(10));
    let mut expected = vec![(ReasonCode::MassLoss, 4)];
    expected.extend(before);
    let mut told = case.waiting(job);
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    case.change_cluster("a", |c| c.accepted_loss = 70);
    case.run_for(Span::seconds(10));
    case.at("a", |shard, now| shard.full(now));
    case.run_for(Span::seconds(5));
    assert!(
        case.waiting(job)
            .iter()
            .all(|(code, _)| *code != ReasonCode::MassLoss)
    );
}

#[test]
fn a_suspended_leader_does_nothing_and_goes_on_in_the_same_term() {
    let mut case = Case::with(&[("a", 8)]);
    let epoch = case.rm.leading();
    case.step(Event::Suspended);
    assert_eq!(case.rm.next_wake(), None);
    let mut out = Vec::new();
    let job = case.store_job(1, batch(2));
    case.rm.step(Event::Hint(job), case.now, &mut out);
    case.rm
        .step(Event::Wake, case.now.plus(Span::seconds(3)), &mut out);
    assert_eq!(out, []);
    case.now = case.now.plus(Span::seconds(3));
    case.step(Event::Resumed);
    case.run_for(Span::seconds(2));
    assert_eq!((case.rm.leading(), case.stepped_down.as_ref()), (epoch, None));
    assert_eq!(case.shard("a").active_of_job(job), 2);
}

#[test]
fn a_resumed_leader_whose_epoch_was_taken_only_steps_down() {
    let mut case = Case::with(&[("a", 8)]);
    case.step(Event::Suspended);
    take_epoch(&mut case, 2);
    let job = case.job(1, batch(2));
    case.step(Event::Resumed);
    case.run_for(Span::seconds(2));
    assert_eq!(case.rm.leading(), None);
    assert_eq!(case.shard("a").active_of_job(job), 0);
    assert!(
        case.stepped_down
            .as_ref()
            .unwrap()
            .contains("was taken by another")
    );
}

#[test]
fn a_storage_without_room_costs_no_leadership() {
    for (kind, told) in [
        (TroubleKind::Full, "storage is full"),
        (TroubleKind::Overloaded, "storage has too much to do"),
    ] {
        let mut case = Case::with(&[("a", 8)]);
        let epoch = case.rm.leading();
        case.troubled = Some(kind);
        let wakes = case.wakes;
        let job = case.job(1, batch(2));
        case.run_for(Span::seconds(120));
        assert!(
            case.wakes - wakes < 2_000,
            "{} wakes in 120 s",
            case.wakes - wakes
        );
        assert_eq!(case.stepped_down, None, "another would hear the same: {kind:?}");
        assert_eq!(case.shard("a").active_of_job(job), 0);
        let alarms = case.rm.alarms(case.now);
        assert!(
            alarms
                .iter()
                .any(|a| a.summary.contains(told) && a.command == "echelon storage status"),
            "{alarms:?}"
        );
        case.troubled = None;
        case.run_for(Span::seconds(20));
        assert_eq!(
            (case.rm.leading(), case.stepped_down.as_ref()),
            (epoch, None),
            "{kind:?}"
        );
        assert_eq!(case.shard("a").active_of_job(job), 2, "{kind:?}");
        assert_eq!(case.rm.alarms(case.now), []);
    }
    for kind in [TroubleKind::NoAnswer, TroubleKind::CutOff] {
        let mut case = Case::with(&[("a", 8)]);
        case.troubled = Some(kind);
        case.run_for(Span::seconds(60));
        assert!(case.stepped_down.is_some(), "another may reach it: {kind:?}");
    }
}

#[test]
fn a_leader_whose_storage_had_no_room_only_steps_down_if_its_epoch_was_taken_meanwhile() {
    let mut case = Case::with(&[("a", 8)]);
    case.troubled = Some(TroubleKind::Overloaded);
    case.run_for(Span::seconds(30));
    take_epoch(&mut case, 2);
    let job = case.store_job(1, batch(2));
    case.troubled = None;
    case.run_for(Span::seconds(20));
    assert_eq!(case.shard("a").active_of_job(job), 0);
    let why = case.stepped_down.unwrap();
    assert!(why.contains("was taken by another"), "{why}");
}

/// What all slices of a cluster may have active by the grants in force there.
fn allowed(case: &Case, cluster: &str) -> u64 {
    let shard = &case.shards[&ClusterId::new(cluster)];
    shard.slices.values().map(|slice| slice.allowed()).sum()
}

#[test]
fn a_new_leader_takes_over_what_the_one_before_has_granted() {
    let mut case = Case::with(&[("a", 10)]);
    let first = case.job(1, batch(40));
    case.run_for(Span::seconds(2));
    assert_eq!(case.total_active(first), 10);
    // One has ended, and the next one still looks for a host: the old grant lets it begin at any moment.
    case.shard("a").unplaceable = Some(ReasonCode::HostResources);
    case.at("a", |s, now| s.finish(1, RunState::Succeeded, now));
    let second = case.job(2, batch(5));
    case.run_for(Span::seconds(2));
    assert_eq!((case.total_active(first), allowed(&case, "a")), (9, 10));
    case.fail_over();
    assert_eq!(allowed(&case, "a"), 10, "nothing is granted twice");
    case.shard("a").unplaceable = None;
    case.at("a", |s, now| s.work(now));
    case.run_for(Span::seconds(2));
    let active = (case.total_active(first), case.total_active(second));
    assert_eq!(
        (active, allowed(&case, "a")),
        ((10, 0), 10),
        "nothing is taken back"
    );
}

#[test]
fn what_is_to_leave_may_still_run_where_its_shard_is_not_heard() {
    let facts = crate::facts::FederationFacts::default();
    // It was scaled down from six.
    let job = crate::facts::job::JobView {
        spec: Some(std::sync::Arc::new(service(4).build())),
        ..Default::default()
    };
    let key = crate::facts::slice::SliceKey {
        group: echelon_core_model::GroupName::new("main"),
        cluster: ClusterId::new("a"),
        generation: echelon_core_model::Generation(1),
    };
    let allocated = |leaving| {
        let count = crate::facts::slice::SliceCount {
            assigned: 6,
            leaving,
            ..Default::default()
        };
        facts.allocated(JobId(1), &job, &key, &count)
    };
    assert_eq!(allocated(2), 6);
    assert_eq!(allocated(0), 4, "what is bound ahead does not run");
}

/// The next leader's word about what an older one has written is the last one, also where that one still writes.
#[test]
fn a_successor_closes_the_events_of_its_predecessor() {
    let mut case = Case::with(&[("a", 8)]);
    let job = case.job(1, batch(2));
    case.run_for(Span::seconds(1));
    let ends = |case: &Case| match case.store.read(&Query::EventEnds(Role::ResourceManager, 0)) {
        Answer::EventEnds(ends) => ends,
        other => panic!("{other:?}"),
    };
    let [noted] = ends(&case)[..] else {
        panic!("one leader has written")
    };
    assert!(!noted.is_closed);
    let event = case.stored_events(job)[0].clone();
    case.fail_over();
    case.at("a", |s, now| s.finish(9, RunState::Succeeded, now));
    case.run_for(Span::seconds(2));
    let late = Batch {
        owner: Role::ResourceManager,
        stamp: noted.stamp.next(),
        writes: vec![Write::Event(event), Write::NoteEvents(0)],
    };
    case.store.perform(Op::Commit(late));
    let mut all = ends(&case);
    all.sort_by_key(|end| end.stamp);
    assert_eq!((all[0].stamp, all[0].is_closed), (noted.stamp, true));
    assert_eq!(
        (all[1].stamp.epoch, all[1].is_closed),
        (noted.stamp.epoch.next(), false)
    );
}

/// The answer to the first question of a stream is lost, and other reports go on: it is asked for again.
#[test]
fn a_full_report_that_was_lost_is_asked_for_again() {
    let mut case = Case::with(&[("a", 8)]);
    case.job(1, service(4));
    case.run_for(Span::seconds(60));
    let cluster = ClusterId::new("a");
    let now = case.now;
    let view = case.rm.picture.facts.clusters.get_mut(&cluster).unwrap();
    (view.fulls, view.asked_at) = (0, Some(now));
    case.run_for(Span::seconds(31));
    assert!(case.rm.picture.facts.clusters[&cluster].fulls > 0);
}
