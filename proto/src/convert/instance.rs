//! States and runs of instances to the public wire.

use super::quantity::timestamp;
use super::reason::reason;
use super::runtime::port;
use crate::echelon::v1;
use echelon_core_model::health::Health;
use echelon_core_model::instance::{Counts, Run};
use echelon_core_model::pod::Member;
use echelon_core_model::volume::HeldVolume;
use echelon_core_model::{InstanceId, MemberId, RunState, TaskId};

/// To the wire.
#[must_use]
pub const fn run_state(state: RunState) -> v1::RunState {
    match state {
        RunState::Pending => v1::RunState::Pending,
        RunState::Placing => v1::RunState::Placing,
        RunState::Launching => v1::RunState::Launching,
        RunState::Starting => v1::RunState::Starting,
        RunState::Running => v1::RunState::Running,
        RunState::Unreachable => v1::RunState::Unreachable,
        RunState::Stopping => v1::RunState::Stopping,
        RunState::Succeeded => v1::RunState::Succeeded,
        RunState::Failed => v1::RunState::Failed,
        RunState::Killed => v1::RunState::Killed,
        RunState::Lost => v1::RunState::Lost,
        RunState::Rejected => v1::RunState::Rejected,
    }
}

/// From the wire, `None` when it names no state.
#[must_use]
pub fn read_run_state(number: i32) -> Option<RunState> {
    RunState::ALL
        .into_iter()
        .find(|s| i32::from(run_state(*s)) == number)
}

/// To the wire.
#[must_use]
pub const fn health(health: Health) -> v1::Health {
    match health {
        Health::Joining => v1::Health::Joining,
        Health::Healthy => v1::Health::Healthy,
        Health::Recovering => v1::Health::Recovering,
        Health::Degraded => v1::Health::Degraded,
        Health::WithoutMesos => v1::Health::WithoutMesos,
        Health::WithoutAgents => v1::Health::WithoutAgents,
        Health::CutOff => v1::Health::CutOff,
        Health::Lost => v1::Health::Lost,
    }
}

/// To the wire.
#[must_use]
pub fn run(r: &Run, instance: InstanceId) -> v1::Run {
    let task = r.task_id(instance);
    v1::Run {
        members: r.members.iter().map(|m| member(m, &task)).collect(),
        task_id: task.to_string(),
        generation: r.generation.0,
        number: r.number.0,
        state: run_state(r.state).into(),
        since: Some(timestamp(r.since)),
        reason: Some(reason(&r.reason)),
        host_id: r.host.to_string(),
        hostname: r.hostname.to_string(),
        spec_version: r.spec_version,
        start_time: r.started_at.map(timestamp),
        end_time: r.ended_at.map(timestamp),
        exit_code: r.exit_code,
        stopping_since: r.stopping.as_ref().map(|s| timestamp(s.since)),
        ports: r.ports.iter().map(port).collect(),
        healthy: r.healthy,
        ready: r.ready,
    }
}

fn member(m: &Member, run: &TaskId) -> v1::Member {
    let id = MemberId {
        run: run.clone(),
        sidecar: m.sidecar.clone(),
    };
    v1::Member {
        name: m.name().to_owned(),
        task_id: id.to_string(),
        state: run_state(m.state).into(),
        exit_code: m.exit_code,
        healthy: m.healthy,
    }
}

/// To the wire; states without any are left out.
#[must_use]
pub fn counts(c: &Counts) -> Vec<v1::StateCount> {
    let one = |state: RunState| v1::StateCount {
        state: run_state(state).into(),
        count: c.get(state),
    };
    RunState::ALL
        .into_iter()
        .map(one)
        .filter(|s| s.count > 0)
        .collect()
}

/// To the wire.
#[must_use]
pub fn volume(v: &HeldVolume) -> v1::InstanceVolume {
    v1::InstanceVolume {
        volume_id: v.id.to_string(),
        host_id: v.host.to_string(),
        hostname: v.hostname.to_string(),
        size_mib: v.size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_read_back() {
        for state in RunState::ALL {
            assert_eq!(read_run_state(run_state(state).into()), Some(state));
        }
        assert_eq!((read_run_state(0), read_run_state(99)), (None, None));
    }
}
