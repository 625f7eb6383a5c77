//! Events of the stream, made in one place.

use crate::config::Config;
use crate::id::{AgentId, ExecutorRun, FrameworkId};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::scheduler::{Event, event};
use echelon_proto::mesos::v1::{
    Address, InverseOffer, MasterInfo, Offer, OfferId, OperationStatus, TaskStatus, master_info,
};

/// The version that the simulated master gives itself: the one that was recorded.
pub(crate) const VERSION: &str = "1.12.0";

fn of(kind: event::Type) -> Event {
    Event {
        r#type: Some(kind.into()),
        ..Default::default()
    }
}

pub(crate) fn subscribed(framework: &FrameworkId, master_id: &str, config: &Config) -> Event {
    let subscribed = event::Subscribed {
        framework_id: framework.proto(),
        heartbeat_interval_seconds: Some(seconds(Timestamp(config.heartbeat.0))),
        master_info: Some(master_info(master_id, config)),
    };
    Event {
        subscribed: Some(subscribed),
        ..of(event::Type::Subscribed)
    }
}

pub(crate) fn master_info(master_id: &str, config: &Config) -> MasterInfo {
    let [a, b, c, d] = config.ip;
    let ip = format!("{a}.{b}.{c}.{d}");
    let port = config.port;
    let capability = |kind: master_info::capability::Type| master_info::Capability {
        r#type: Some(kind.into()),
    };
    MasterInfo {
        id: master_id.to_owned(),
        ip: u32::from_le_bytes(config.ip),
        port: u32::from(port),
        pid: Some(format!("master@{ip}:{port}")),
        hostname: Some(config.hostname.clone()),
        version: Some(VERSION.to_owned()),
        address: Some(Address {
            hostname: Some(config.hostname.clone()),
            ip: Some(ip),
            port: i32::from(port),
        }),
        domain: None,
        capabilities: vec![
            capability(master_info::capability::Type::AgentUpdate),
            capability(master_info::capability::Type::AgentDraining),
            capability(master_info::capability::Type::QuotaV2),
        ],
    }
}

pub(crate) fn heartbeat() -> Event {
    of(event::Type::Heartbeat)
}

pub(crate) fn offers(offers: Vec<Offer>) -> Event {
    Event {
        offers: Some(event::Offers { offers }),
        ..of(event::Type::Offers)
    }
}

pub(crate) fn rescind(offer: String) -> Event {
    let rescind = event::Rescind {
        offer_id: OfferId { value: offer },
    };
    Event {
        rescind: Some(rescind),
        ..of(event::Type::Rescind)
    }
}

pub(crate) fn inverse_offers(inverse_offers: Vec<InverseOffer>) -> Event {
    Event {
        inverse_offers: Some(event::InverseOffers { inverse_offers }),
        ..of(event::Type::InverseOffers)
    }
}

pub(crate) fn rescind_inverse(offer: String) -> Event {
    let rescind = event::RescindInverseOffer {
        inverse_offer_id: OfferId { value: offer },
    };
    Event {
        rescind_inverse_offer: Some(rescind),
        ..of(event::Type::RescindInverseOffer)
    }
}

pub(crate) fn operation(status: OperationStatus) -> Event {
    Event {
        update_operation_status: Some(event::UpdateOperationStatus { status }),
        ..of(event::Type::UpdateOperationStatus)
    }
}

pub(crate) fn update(status: TaskStatus) -> Event {
    Event {
        update: Some(event::Update { status }),
        ..of(event::Type::Update)
    }
}

pub(crate) fn agent_failure(agent: &AgentId) -> Event {
    let failure = event::Failure {
        agent_id: Some(agent.proto()),
        ..Default::default()
    };
    Event {
        failure: Some(failure),
        ..of(event::Type::Failure)
    }
}

/// An executor has ended, with what wait(2) gives (rule R119).
pub(crate) fn executor_failure(run: &ExecutorRun, status: i32) -> Event {
    let failure = event::Failure {
        agent_id: Some(run.agent.proto()),
        executor_id: Some(run.executor.proto()),
        status: Some(status),
    };
    Event {
        failure: Some(failure),
        ..of(event::Type::Failure)
    }
}

pub(crate) fn message(run: &ExecutorRun, data: Vec<u8>) -> Event {
    let message = event::Message {
        agent_id: run.agent.proto(),
        executor_id: run.executor.proto(),
        data,
    };
    Event {
        message: Some(message),
        ..of(event::Type::Message)
    }
}

pub(crate) fn error(message: impl Into<String>) -> Event {
    Event {
        error: Some(event::Error {
            message: message.into(),
        }),
        ..of(event::Type::Error)
    }
}

/// Seconds since the epoch, as status updates carry the time.
#[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53")]
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.0 as f64 / 1000.0
}
