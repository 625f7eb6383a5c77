//! When an instance is replaced whose host is silent, and why not before: what its shard goes by, read from
//! the same rows.

use super::assemble::{InstanceView, Scene};
use crate::ask;
use crate::port::Facts;
use echelon_core_model::gone::{Gone, GoneCause};
use echelon_core_model::instance::{MOST_OLDER, Run};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::store::{Answer, Consistency, Query};
use echelon_core_model::{ClusterId, RunState, Span};
use std::collections::BTreeMap;

/// For how long clusters were observed in sum, as their shards last stored it; `None`: that could not be
/// read.
type ObservedByCluster = BTreeMap<ClusterId, Option<Span>>;

/// Says of each silent instance when it is replaced.
pub(super) async fn add_outlook<F: Facts>(facts: &F, scene: &Scene, views: &mut [InstanceView]) {
    let mut observed = ObservedByCluster::new();
    for view in views {
        let Some(cluster) = view.cluster.as_ref().map(|part| part.id.clone()) else {
            continue;
        };
        let Some(run) = silent_run(view).cloned() else {
            continue;
        };
        if !observed.contains_key(&cluster) {
            let query = Query::Shard(cluster.clone());
            let answer = ask::try_read(facts, query, Consistency::Quorum).await;
            let read = match answer {
                Ok(Some(Answer::Shard(row))) => Some(row.observed),
                _ => None,
            };
            observed.insert(cluster.clone(), read);
        }
        let text = outlook(
            scene,
            view,
            (&cluster, &run),
            observed.get(&cluster).copied().flatten(),
        );
        view.reason = view.reason.clone().at(text);
    }
}

/// The latest run of an instance, if nothing is heard of it.
fn silent_run(view: &InstanceView) -> Option<&Run> {
    let run = view.record.as_ref()?.run.as_ref()?;
    run.is_silent().then_some(run)
}

fn outlook(scene: &Scene, view: &InstanceView, silent: (&ClusterId, &Run), observed: Option<Span>) -> String {
    let (cluster, run) = silent;
    let heartbeat = scene.heartbeat(cluster);
    let name = scene.part(cluster).name;
    let what = if run.state == RunState::Stopping {
        "given up"
    } else {
        "replaced"
    };
    if heartbeat.is_some_and(|h| h.loss.is_some()) {
        return format!(
            "not {what} while too many are lost at once: `echelon cluster accept-loss {name}` has the lost ones replaced"
        );
    }
    if view.record.as_ref().is_some_and(|r| r.older.len() >= MOST_OLDER) {
        return format!(
            "not {what} while {MOST_OLDER} older runs of it may still live: `echelon host forget {name}/{}` says that its host never returns",
            run.host
        );
    }
    if let Some((gone, left)) = gone_outlook(scene, run, observed) {
        let cause = gone_cause(gone.cause);
        if heartbeat.is_none_or(|h| h.trouble.is_some()) {
            return format!(
                "{cause}; {what} when Mesos of {name} has been heard for {left} more: time without contact does not count"
            );
        }
        if left == Span::ZERO {
            return format!("{cause}, and its time of `on_gone` is over: {what} as soon as its turn comes");
        }
        return format!("{cause}; {what} in {left}, as `on_gone` says");
    }
    let after = match scene.on_unreachable() {
        None => return format!("when it is {what} cannot be told: the job's spec could not be read"),
        Some(OnSilence::Wait) => {
            return format!(
                "never {what}, since `on_unreachable` is `wait`: `echelon host forget {name}/{}` says that its host never returns",
                run.host
            );
        }
        Some(OnSilence::Replace(after)) => after,
    };
    let Some(observed) = observed else {
        return format!("when it is {what} cannot be told: the row of shard {name} could not be read");
    };
    let left = whole_seconds(run.left_of(after, observed));
    if heartbeat.is_none_or(|h| h.trouble.is_some()) {
        return format!(
            "{what} when Mesos of {name} has been heard for {left} more: time without contact does not count"
        );
    }
    if left == Span::ZERO {
        return format!("its {after} of `on_unreachable` are over: {what} as soon as its turn comes");
    }
    format!("{what} in {left} if its host stays silent: `on_unreachable` waits for {after}")
}

/// How much longer a run is waited for since its agent is gone.
/// `None` where that wait has no end, or ends later than the wait for its silence.
fn gone_outlook<'a>(scene: &Scene, run: &'a Run, observed: Option<Span>) -> Option<(&'a Gone, Span)> {
    let (gone, observed) = (run.gone.as_deref()?, observed?);
    let left = gone.left(scene.on_gone()?, scene.head.kind, observed)?;
    let sooner = match scene.on_unreachable()? {
        OnSilence::Replace(after) => left <= run.left_of(after, observed),
        OnSilence::Wait => true,
    };
    sooner.then_some((gone, whole_seconds(left)))
}

const fn gone_cause(cause: GoneCause) -> &'static str {
    match cause {
        GoneCause::Operator => "an operator has marked its agent as gone",
        GoneCause::Replaced => "a new agent is registered at its host's address",
    }
}

/// People need no milliseconds.
const fn whole_seconds(span: Span) -> Span {
    Span(span.0.div_ceil(1000).saturating_mul(1000))
}
