//! Why instances of a job wait, and what to do where no change of demand or capacity helps. The changes that
//! admit what waits are computed by the resource manager's leader, which has tried them.

mod loss_outlook;

use crate::error::ApiError;
use crate::explain::loss_outlook::loss_outlook;
use crate::instances::{self, InstanceView};
use crate::jobs;
use crate::lookup;
use crate::port::Facts;
use crate::resource::JobRef;
use crate::view::{JobView, Part};
use echelon_core_model::instance::Run;
use echelon_core_model::job::{Desired, JobState, Waiting};
use echelon_core_model::resources::Kind;
use echelon_core_model::unconfirmed::unconfirmed_for;
use echelon_core_model::{Reason, ReasonCode, RunState, Timestamp};

/// Most instances shown one by one.
const SHOWN: usize = 20;

/// The answer.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The job.
    pub job: JobView,
    /// Why instances wait, largest number first.
    pub waiting: Vec<Waiting>,
    /// Some instances that are not well, with their own reasons.
    pub instances: Vec<InstanceView>,
    /// What to do where no change of demand or capacity helps, most useful first.
    pub advice: Vec<String>,
}

/// Explains a job.
///
/// # Errors
/// No such job, or storage.
pub async fn explain_job<F: Facts>(facts: &F, job: &JobRef, now: Timestamp) -> Result<Explanation, ApiError> {
    let head = lookup::job(facts, job).await?;
    let seen = instances::first_windows(facts, head.clone(), now).await?;
    let view = jobs::whole(facts, head, now).await?;
    let mut waiting: Vec<Waiting> = view
        .progress
        .iter()
        .flat_map(|p| p.waiting.iter().cloned())
        .map(|w| as_now(w, &view.parts, view.no_manager_since))
        .collect();
    waiting.sort_by_key(|w| std::cmp::Reverse(w.count));
    let silent = seen.iter().filter(|v| is_silent(v)).count();
    let unwell: Vec<InstanceView> = seen.into_iter().filter(is_unwell).take(SHOWN).collect();
    let mut advice = advise(&view, &waiting, &unwell, now);
    if silent > 0 {
        advice.push(format!(
            "{silent} instances are on hosts that are silent: `echelon job instances {}` says of each when it is replaced",
            view.head.name
        ));
    }
    Ok(Explanation {
        job: view,
        waiting,
        instances: unwell,
        advice,
    })
}

/// A reason as it is now. What the resource manager stored last is old where it is not heard any more.
/// Instances that are assigned to a cluster go by that cluster, all others by all clusters.
fn as_now(stored: Waiting, parts: &[Part], no_manager_since: Option<Timestamp>) -> Waiting {
    let reason = Reason::new(ReasonCode::NoResourceManager);
    let overtaken = match &stored.cluster {
        None => no_manager_since.map(|since| (reason, since)),
        Some(cluster) => {
            let part = parts.iter().find(|p| p.id == *cluster);
            part.and_then(|p| Some((reason.at(&p.name), p.no_manager_since?)))
        }
    };
    match overtaken {
        Some((reason, since)) if !stored.reason.code.withholds() => Waiting {
            reason,
            since,
            ..stored
        },
        _ => stored,
    }
}

/// Whether nothing is heard of its latest run.
fn is_silent(view: &InstanceView) -> bool {
    let run = view.record.as_ref().and_then(|r| r.run.as_ref());
    run.is_some_and(Run::is_silent)
}

fn is_unwell(view: &InstanceView) -> bool {
    let looping = view.reason.code == ReasonCode::CrashLooping;
    looping
        || is_silent(view)
        || !matches!(
            view.state,
            Some(RunState::Running | RunState::Succeeded | RunState::Starting | RunState::Stopping)
        )
}

/// Whether its latest run ended by the platform, so that it has no logs that say why.
fn is_failed_by_platform(view: &InstanceView) -> bool {
    let run = view.record.as_ref().and_then(|r| r.run.as_ref());
    run.is_some_and(|r| r.fault.is_some())
}

fn advise(view: &JobView, waiting: &[Waiting], instances: &[InstanceView], now: Timestamp) -> Vec<String> {
    let mut out = Vec::new();
    let mut say = |text: String| {
        if !out.contains(&text) {
            out.push(text);
        }
    };
    let ended = view.state().is_ended();
    let name = &view.head.name;
    // Kills that are off keep a job from stopping, too.
    let runs = view.head.goal.desired == Desired::Running;
    if !runs && view.state() == JobState::Waiting {
        say("no resource manager has acted on the request to stop it yet; if that lasts, check that one is running and leads".to_owned());
    }
    if runs || !ended {
        waiting
            .iter()
            .filter(|w| runs || w.reason.code == ReasonCode::KillsOff)
            .filter_map(|w| advice(&w.reason))
            .for_each(&mut say);
    }
    // What an ended job became is stored: no cluster's word can change it.
    for part in view.parts.iter().filter(|p| !ended && p.unconfirmed().is_some()) {
        let there = match part.instances {
            Some(count) => format!("the {count} instances"),
            None => "an unknown number of instances".to_owned(),
        };
        let outlook = view.spec.as_ref().zip(part.silence).filter(|_| runs);
        let outlook = outlook.map(|(spec, silence)| format!("; {}", loss_outlook(spec, silence, now)));
        say(format!(
            "cluster {} is {}: what is shown of {there} there is {}{}",
            part.name,
            part.health,
            unconfirmed_for(part.age),
            outlook.unwrap_or_default()
        ));
    }
    let failed = |i: &&InstanceView| {
        i.ended && i.state != Some(RunState::Killed) && i.state != Some(RunState::Pending)
    };
    let looping = |i: &&InstanceView| i.reason.code == ReasonCode::CrashLooping;
    let by_run = |i: &&InstanceView| looping(i) && !is_failed_by_platform(i);
    if let Some(view) = instances.iter().find(by_run) {
        say(format!(
            "see what it says with `echelon job logs {} {} --group {}`; `echelon job update` brings a mended version",
            name, view.number, view.group
        ));
    }
    for view in instances.iter().filter(failed) {
        let further = match view.record.as_ref().map_or(0, |r| r.platform_failures) {
            0 => "see `echelon job logs`".to_owned(),
            times => format!(
                "the platform could not run it {times} times in a row, on other hosts where there were any"
            ),
        };
        say(format!(
            "instance {} of group {}: {}; {further}",
            view.number, view.group, view.reason
        ));
    }
    out
}

/// What would help against a reason. `None`: the resource manager's leader computes what does.
fn advice(reason: &Reason) -> Option<String> {
    let what = match reason.code {
        ReasonCode::PoolNotFound
        | ReasonCode::PoolLimit
        | ReasonCode::PoolEntitlement
        | ReasonCode::PoolReservation
        | ReasonCode::PoolControllers
        | ReasonCode::PoolRevocableLimit
        | ReasonCode::PoolClusterHeld
        | ReasonCode::PoolJobs
        | ReasonCode::PoolInstances
        | ReasonCode::MaxRunning
        | ReasonCode::NoCluster
        | ReasonCode::GangTooLarge
        | ReasonCode::GangBlocked
        | ReasonCode::NoClusterCapacity
        | ReasonCode::ClusterCordoned => return None,
        ReasonCode::Accepted => {
            "no resource manager has said yet why it waits; if that lasts, check that one is running and leads"
                .to_owned()
        }
        ReasonCode::AfterJob => "wait for that job, or submit this one anew without `after`".to_owned(),
        ReasonCode::HostPorts => {
            "leave `port` out where any port will do, ask for fewer instances, or wait until those that hold the ports end".to_owned()
        }
        ReasonCode::HostResources => match &reason.shortfall {
            Some(s) if s.have == 0 => format!(
                "wait until running instances end, or add hosts that have {} {}",
                s.kind.show(s.need),
                kind_word(s.kind)
            ),
            Some(s) => format!(
                "ask for {} {} or less an instance, or add hosts that have {}",
                s.kind.show(s.have),
                kind_word(s.kind),
                s.kind.show(s.need)
            ),
            None => "ask for less an instance, or add hosts".to_owned(),
        },
        ReasonCode::HostConstraint => "loosen the constraints, or add hosts that meet them".to_owned(),
        ReasonCode::HostAvoided => "wait, or repair the hosts on which it failed".to_owned(),
        ReasonCode::NoHosts => "add hosts to the cluster, or check that its agents are registered".to_owned(),
        ReasonCode::ClusterUnhealthy | ReasonCode::NoShardLeader => {
            "see why with `echelon cluster list`; other clusters that the job may use take its work".to_owned()
        }
        ReasonCode::ClusterFailOver => {
            "it is used once no other cluster can take the job; take it out of `clusters.fail_over_only` to use it now".to_owned()
        }
        ReasonCode::ClusterShare => {
            "raise `clusters.max_share`, lower `clusters.min_clusters`, or let the job use further clusters (`echelon cluster list`)"
                .to_owned()
        }
        ReasonCode::StartsForbidden => {
            "check that a resource manager leads and reads storage; it allows starts as soon as it reads the shard's heartbeat"
                .to_owned()
        }
        ReasonCode::ClusterLost => {
            "nothing to do: it begins at another cluster that the job may use and that has capacity".to_owned()
        }
        ReasonCode::StorageUnavailable => "check storage (`echelon storage status`)".to_owned(),
        ReasonCode::MesosUnavailable => "check the cluster's Mesos master".to_owned(),
        ReasonCode::NoResourceManager => {
            "start a resource manager, or mend its way to the cluster's shard".to_owned()
        }
        ReasonCode::StorageRolledBack => "storage is behind what runs; `echelon storage resume` takes over what Mesos lists".to_owned(),
        ReasonCode::AwaitingClusters => {
            "see with `echelon cluster list` why the shard of that cluster, or its Mesos, is not heard; `echelon cluster cordon CLUSTER` goes on without one that is unreachable"
                .to_owned()
        }
        ReasonCode::RowRefused => {
            "make the group smaller (fewer ports, shorter names), or stop or delete the job; `echelon job stop` and `echelon job delete` work"
                .to_owned()
        }
        ReasonCode::RowUnread => {
            "a stored row of it cannot be read: use the build that wrote it, or delete the row if it is damaged".to_owned()
        }
        ReasonCode::KillsOff => {
            "see `echelon control show` for who switched kills off and why; `echelon control kills on` lets them go on"
                .to_owned()
        }
        ReasonCode::TooManyOlderRuns => {
            "name the hosts that never return with `echelon host forget CLUSTER/HOST`; `echelon job instances` shows on which hosts its runs are"
                .to_owned()
        }
        ReasonCode::MassLoss => {
            "see `echelon cluster get` for what was lost; check the cluster's Mesos address and agents, then `echelon cluster accept-loss`"
                .to_owned()
        }
        code => about_rules(code).to_owned(),
    };
    Some(format!("{reason}: {what}"))
}

/// What would help against failures and against rules about where and when runs are; of all else, nothing.
const fn about_rules(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::OnSchedule => {
            "wait for its next time, or make a job of it now with `echelon job trigger`; a paused one goes on with `echelon schedule resume`"
        }
        ReasonCode::PlatformRetry => {
            "read what its host says: a user, an image or a file that hosts do not have is mended with `echelon job update`; \
             a host that fails all work with `echelon host drain`"
        }
        ReasonCode::CrashLooping => {
            "see what its runs say (`echelon job logs`), and bring a mended version (`echelon job update`)"
        }
        ReasonCode::HostPool => {
            "name another `host_pool`, or move hosts into this one (`echelon host-pool list`, `echelon host-pool move`)"
        }
        ReasonCode::HostMaxPer => "raise max_per, ask for fewer instances, or add hosts elsewhere",
        ReasonCode::HostAffinity => {
            "start the jobs that it has to be near to, give the affinity a weight, or make room beside them"
        }
        ReasonCode::HostAntiAffinity => {
            "add hosts away from those jobs, or give the anti_affinity a weight, theirs or its own"
        }
        ReasonCode::GangTopology => {
            "make the gang smaller, name a farther attribute in `gang.topology` or leave `topology_required` out, or wait until others \
             that are together end"
        }
        ReasonCode::MesosQuota => {
            "raise the limit of that role in Mesos (UPDATE_QUOTA), or let less run in this cluster"
        }
        ReasonCode::UsedByOthers => {
            "add hosts, or wait until tasks of the other frameworks end; `echelon cluster get` shows which roles use what"
        }
        ReasonCode::OfferedToOthers => {
            "have the other frameworks decline offers that they do not use, or start the Mesos masters with `--offer_timeout`"
        }
        ReasonCode::HostExclusive => {
            "add hosts, or wait until one is free of other jobs; what is on it is never moved"
        }
        _ => "wait; this passes by itself",
    }
}

const fn kind_word(kind: Kind) -> &'static str {
    kind.word()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateJob, create_job};
    use crate::testing::{Memory, NOW, run};
    use echelon_core_model::health::Health;
    use echelon_core_model::job_defaults::NamedFields;
    use echelon_core_model::reason::Shortfall;
    use echelon_core_model::{ClusterId, GroupName};
    use echelon_core_testkit::build::JobBuilder;

    #[test]
    fn an_ended_job_needs_no_advice() {
        let mut store = Memory::new();
        let request = CreateJob {
            spec: JobBuilder::batch("hello", 2).build(),
            hash: 1,
            bytes: 1,
            named: NamedFields::default(),
            violations: Vec::new(),
            request_id: "r".to_owned(),
            origin: None,
        };
        let made = run(&mut store, |facts| async move {
            create_job(&facts, request, 1, NOW).await
        });
        let job = made.unwrap().head.job;
        let advice = |store: &mut Memory| {
            let told = run(store, move |facts| async move {
                explain_job(&facts, &JobRef::Id(job), NOW).await
            });
            told.unwrap().advice
        };
        assert!(advice(&mut store)[0].contains("no resource manager"));
        for state in [JobState::Succeeded, JobState::Stopped, JobState::Deleted] {
            store.ended(job, state);
            assert_eq!(advice(&mut store), Vec::<String>::new(), "{state}");
        }
    }

    #[test]
    fn there_is_no_fixed_text_for_what_a_change_of_demand_or_capacity_solves() {
        for code in [
            ReasonCode::PoolLimit,
            ReasonCode::NoClusterCapacity,
            ReasonCode::MaxRunning,
        ] {
            assert_eq!(advice(&Reason::new(code)), None);
        }
        for code in [
            ReasonCode::KillsOff,
            ReasonCode::NoShardLeader,
            ReasonCode::Backoff,
        ] {
            assert!(advice(&Reason::new(code)).is_some());
        }
    }

    #[test]
    fn what_was_said_of_a_cluster_without_a_resource_manager_is_overtaken() {
        let part = |no_manager_since| Part {
            id: ClusterId::new("a"),
            name: "east".to_owned(),
            health: Health::Healthy,
            cause: String::new(),
            since: None,
            unconfirmed_since: None,
            age: None,
            no_manager_since,
            unseen: None,
            instances: None,
            silence: None,
        };
        let said = |code, cluster: &str| Waiting {
            group: GroupName::new("main"),
            cluster: Some(ClusterId::new(cluster)),
            reason: Reason::new(code),
            count: 3,
            since: Timestamp(1),
        };
        let told = |code, cluster, since| {
            let now = as_now(said(code, cluster), &[part(since)], None);
            (now.reason.code, now.count, now.since)
        };
        let (limit, none) = (ReasonCode::PoolLimit, ReasonCode::NoResourceManager);
        assert_eq!(told(limit, "a", Some(NOW)), (none, 3, NOW));
        assert_eq!(told(limit, "a", None).0, limit);
        assert_eq!(told(limit, "b", Some(NOW)).0, limit);
        let off = ReasonCode::KillsOff;
        assert_eq!(told(off, "a", Some(NOW)).0, off, "that holds all the same");
        let unassigned = Waiting {
            cluster: None,
            ..said(limit, "a")
        };
        let now = as_now(unassigned.clone(), &[part(Some(NOW))], Some(Timestamp(7)));
        assert_eq!((now.reason.code, now.since), (none, Timestamp(7)));
        assert_eq!(as_now(unassigned, &[part(Some(NOW))], None).reason.code, limit);
    }

    #[test]
    fn nobody_is_told_to_ask_for_nothing() {
        let short = |have| {
            let mut reason = Reason::new(ReasonCode::HostResources);
            reason.shortfall = Some(Box::new(Shortfall {
                kind: Kind::Cpus,
                need: 200,
                have,
            }));
            advice(&reason).unwrap()
        };
        let wait = "wait until running instances end, or add hosts that have 0.2 cpus";
        assert!(short(0).ends_with(wait), "{}", short(0));
        let ask = "ask for 0.1 cpus or less an instance, or add hosts that have 0.2";
        assert!(short(100).ends_with(ask), "{}", short(100));
    }
}
