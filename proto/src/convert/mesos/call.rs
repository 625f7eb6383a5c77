//! Our calls as Mesos' calls. A call carries our framework id, except the first SUBSCRIBE (R22).

use super::framework::{Framework, seconds};
use super::group::launch_group;
use super::reserve;
use super::task::single;
use crate::mesos::v1::offer::{Operation, operation};
use crate::mesos::v1::scheduler::{Call as Wire, call};
use crate::mesos::v1::{
    AgentId, DurationInfo, Filters, FrameworkId, FrameworkInfo, KillPolicy, OfferId, OperationId, TaskId,
};
use echelon_core_hosts::{Call, Launch, OfferId as Offer};
use echelon_core_model::{HostId, Span};

/// The call of the scheduler API. `id` is the framework id of this subscription. `None`: it is one of the operator API.
#[must_use]
pub fn call_to_wire(call: &Call, framework: &Framework, id: Option<&str>) -> Option<Wire> {
    let mut wire = Wire {
        framework_id: id.map(framework_id),
        ..Wire::default()
    };
    let kind = match call {
        Call::DrainAgent { .. }
        | Call::ReactivateAgent { .. }
        | Call::ListAgents
        | Call::ReadFlags { .. } => return None,
        Call::Subscribe { framework: stored } => {
            wire.framework_id = stored.as_deref().map(framework_id);
            subscribe(&mut wire, framework.to_wire(stored.as_deref()))
        }
        Call::UpdateFramework => update_framework(&mut wire, framework.to_wire(id)),
        Call::Accept {
            offers,
            host,
            launches,
            refuse,
        } => {
            let operations = operations(launches, host, framework, id);
            wire.accept = Some(accept(ids(offers), operations, *refuse));
            call::Type::Accept
        }
        Call::Decline { offers, refuse } => {
            wire.decline = Some(call::Decline {
                offer_ids: ids(offers),
                filters: Some(filters(*refuse)),
            });
            call::Type::Decline
        }
        Call::Discard {
            offers,
            reserved,
            attempt,
            refuse,
            ..
        } => {
            let operations = reserve::discard(reserved, *attempt, &framework.role);
            wire.accept = Some(accept(ids(offers), operations, *refuse));
            call::Type::Accept
        }
        Call::AnswerInverse {
            offers,
            accept,
            refuse,
            ..
        } => answer_inverse(&mut wire, ids(offers), *accept, filters(*refuse)),
        Call::TearDown => call::Type::Teardown,
        Call::Revive => call::Type::Revive,
        Call::Suppress => call::Type::Suppress,
        Call::Kill { task, host, grace } => kill(&mut wire, task, host.as_ref(), *grace),
        Call::Acknowledge { task, host, uuid } => {
            wire.acknowledge = Some(call::Acknowledge {
                agent_id: agent_id(host),
                task_id: task_id(task),
                uuid: uuid.to_vec(),
            });
            call::Type::Acknowledge
        }
        Call::AcknowledgeOperation { id, host, uuid } => acknowledge_operation(&mut wire, id, host, uuid),
        Call::Reconcile { tasks } => {
            let tasks = tasks.iter().map(|(task, host)| call::reconcile::Task {
                task_id: task_id(task),
                agent_id: host.as_ref().map(agent_id),
            });
            wire.reconcile = Some(call::Reconcile {
                tasks: tasks.collect(),
            });
            call::Type::Reconcile
        }
    };
    wire.r#type = Some(i32::from(kind));
    Some(wire)
}

fn kill(wire: &mut Wire, task: &str, host: Option<&HostId>, grace: Span) -> call::Type {
    wire.kill = Some(call::Kill {
        task_id: task_id(task),
        agent_id: host.map(agent_id),
        kill_policy: Some(KillPolicy {
            grace_period: Some(duration(grace)),
        }),
    });
    call::Type::Kill
}

fn subscribe(wire: &mut Wire, framework_info: FrameworkInfo) -> call::Type {
    wire.subscribe = Some(call::Subscribe {
        framework_info,
        ..call::Subscribe::default()
    });
    call::Type::Subscribe
}

fn update_framework(wire: &mut Wire, framework_info: FrameworkInfo) -> call::Type {
    wire.update_framework = Some(call::UpdateFramework {
        framework_info,
        ..call::UpdateFramework::default()
    });
    call::Type::UpdateFramework
}

fn acknowledge_operation(wire: &mut Wire, id: &str, host: &HostId, uuid: &[u8]) -> call::Type {
    wire.acknowledge_operation_status = Some(call::AcknowledgeOperationStatus {
        agent_id: Some(agent_id(host)),
        uuid: uuid.to_vec(),
        operation_id: OperationId { value: id.to_owned() },
        ..call::AcknowledgeOperationStatus::default()
    });
    call::Type::AcknowledgeOperationStatus
}

fn answer_inverse(wire: &mut Wire, ids: Vec<OfferId>, accept: bool, filters: Filters) -> call::Type {
    if accept {
        wire.accept_inverse_offers = Some(call::AcceptInverseOffers {
            inverse_offer_ids: ids,
            filters: Some(filters),
        });
        call::Type::AcceptInverseOffers
    } else {
        wire.decline_inverse_offers = Some(call::DeclineInverseOffers {
            inverse_offer_ids: ids,
            filters: Some(filters),
        });
        call::Type::DeclineInverseOffers
    }
}

fn accept(offer_ids: Vec<OfferId>, operations: Vec<Operation>, refuse: Span) -> call::Accept {
    call::Accept {
        offer_ids,
        operations,
        filters: Some(filters(refuse)),
    }
}

/// What makes the volumes, single tasks in one LAUNCH, then each pod by itself.
fn operations(launches: &[Launch], host: &HostId, framework: &Framework, id: Option<&str>) -> Vec<Operation> {
    let volumes = launches.iter().flat_map(|l| reserve::prepare(l, framework));
    let (pods, singles): (Vec<&Launch>, Vec<&Launch>) = launches.iter().partition(|l| !l.sidecars.is_empty());
    let launch = (!singles.is_empty()).then(|| Operation {
        r#type: Some(i32::from(operation::Type::Launch)),
        launch: Some(operation::Launch {
            task_infos: singles.into_iter().map(|l| single(l, host, framework)).collect(),
        }),
        ..Operation::default()
    });
    let pods = pods
        .into_iter()
        .map(|l| launch_group(l, host, framework, id.map(framework_id)));
    volumes.chain(launch).chain(pods).collect()
}

fn ids(offers: &[Offer]) -> Vec<OfferId> {
    offers
        .iter()
        .map(|o| OfferId {
            value: o.0.to_string(),
        })
        .collect()
}

fn filters(refuse: Span) -> Filters {
    Filters {
        refuse_seconds: Some(seconds(refuse)),
    }
}

fn framework_id(id: &str) -> FrameworkId {
    FrameworkId { value: id.to_owned() }
}

/// A task's id.
pub fn task_id(task: &str) -> TaskId {
    TaskId {
        value: task.to_owned(),
    }
}

/// An agent's id.
pub fn agent_id(host: &HostId) -> AgentId {
    AgentId {
        value: host.as_str().to_owned(),
    }
}

/// A time in nanoseconds.
pub fn duration(span: Span) -> DurationInfo {
    DurationInfo {
        nanoseconds: i64::try_from(span.0.saturating_mul(1_000_000)).unwrap_or(i64::MAX),
    }
}
