//! Operator calls that change the cluster, as the master's `/api/v1` takes them (section 11 of the rules). What they show
//! is in `view`.

use crate::amount::from_thousandths;
use crate::cluster::Cluster;
use crate::id::{AgentId, FrameworkId};
use crate::request::Response;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::master;
use echelon_proto::mesos::v1::master::{Call, QuotaConfig, QuotaStatus, call, response};
use echelon_proto::mesos::v1::value::Scalar;
use std::collections::BTreeMap;

impl Cluster {
    /// Does what an operator's call says. `None` when it is none of those that change something.
    pub fn operator_call(&mut self, call: &Call, now: Timestamp) -> Option<Response> {
        Some(self.changed(call, now)?.unwrap_or_else(|refused| refused))
    }

    fn changed(&mut self, call: &Call, now: Timestamp) -> Option<Result<Response, Response>> {
        Some(match call.r#type() {
            call::Type::MarkAgentGone => part("mark_agent_gone", &call.mark_agent_gone).and_then(|part| {
                found(
                    self.mark_agent_gone(&AgentId::from(&part.agent_id), now),
                    "Agent not found",
                )
            }),
            call::Type::Teardown => part("teardown", &call.teardown).and_then(|part| {
                found(
                    self.teardown(&FrameworkId::from(&part.framework_id), now),
                    "Framework not found",
                )
            }),
            call::Type::UpdateQuota => part("update_quota", &call.update_quota)
                .and_then(|part| {
                    part.quota_configs
                        .iter()
                        .try_for_each(|config| self.update_quota(config, now))
                })
                .map(|()| ok()),
            call::Type::DrainAgent => {
                part("drain_agent", &call.drain_agent).and_then(|part| self.drain_call(part, now))
            }
            call::Type::DeactivateAgent => {
                part("deactivate_agent", &call.deactivate_agent).and_then(|part| {
                    found(
                        self.deactivate_agent(&AgentId::from(&part.agent_id)),
                        "Agent not found",
                    )
                })
            }
            call::Type::ReactivateAgent => {
                part("reactivate_agent", &call.reactivate_agent).and_then(|part| {
                    found(
                        self.reactivate_agent(&AgentId::from(&part.agent_id), now),
                        "Agent not found",
                    )
                })
            }
            call::Type::UpdateMaintenanceSchedule => {
                part("update_maintenance_schedule", &call.update_maintenance_schedule).and_then(|part| {
                    let words = "The schedule leaves out a machine that is down";
                    valid(self.schedule_maintenance(&part.schedule, now), words)
                })
            }
            call::Type::StartMaintenance => {
                part("start_maintenance", &call.start_maintenance).and_then(|part| {
                    let words = "A machine is not part of a maintenance schedule";
                    valid(self.start_maintenance(&part.machines, now), words)
                })
            }
            call::Type::StopMaintenance => {
                part("stop_maintenance", &call.stop_maintenance).and_then(|part| {
                    valid(
                        self.stop_maintenance(&part.machines),
                        "A machine is not in DOWN mode",
                    )
                })
            }
            _ => return None,
        })
    }

    fn drain_call(&mut self, part: &call::DrainAgent, now: Timestamp) -> Result<Response, Response> {
        let max_grace = part.max_grace_period.as_ref().map(|grace| {
            let seconds = u64::try_from(grace.seconds).unwrap_or_default();
            let nanos = u64::try_from(grace.nanos).unwrap_or_default();
            Span(seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000))
        });
        let id = AgentId::from(&part.agent_id);
        found(
            self.drain_agent(&id, max_grace, part.mark_gone(), now),
            "Agent not found",
        )
    }

    fn update_quota(&mut self, config: &QuotaConfig, now: Timestamp) -> Result<(), Response> {
        if !config.guarantees.is_empty() {
            return Err(Response::text(
                501,
                "The simulated master has no quota guarantees",
            ));
        }
        let limits: BTreeMap<String, f64> = config
            .limits
            .iter()
            .map(|(name, limit)| (name.clone(), limit.value))
            .collect();
        let words = format!("Invalid QuotaConfig for role '{}'", config.role);
        valid(self.set_quota(&config.role, &limits, now), &words).map(|_| ())
    }

    /// The answer of GET_QUOTA.
    #[must_use]
    pub fn get_quota(&self) -> master::Response {
        let scalar = |amount: u64| Scalar {
            value: from_thousandths(amount),
        };
        let quotas = self.master.decrees.quotas.iter();
        let configs = quotas.map(|(role, limits)| QuotaConfig {
            role: role.clone(),
            limits: limits
                .iter()
                .map(|(name, limit)| (name.clone(), scalar(*limit)))
                .collect(),
            ..Default::default()
        });
        let status = QuotaStatus {
            configs: configs.collect(),
        };
        master::Response {
            r#type: Some(response::Type::GetQuota.into()),
            get_quota: Some(response::GetQuota { status }),
            ..Default::default()
        }
    }

    /// The answer of GET_MAINTENANCE_SCHEDULE.
    #[must_use]
    pub fn get_maintenance_schedule(&self) -> master::Response {
        let schedule = self.maintenance_schedule();
        master::Response {
            r#type: Some(response::Type::GetMaintenanceSchedule.into()),
            get_maintenance_schedule: Some(response::GetMaintenanceSchedule { schedule }),
            ..Default::default()
        }
    }

    /// The answer of GET_MAINTENANCE_STATUS.
    #[must_use]
    pub fn get_maintenance_status(&self) -> master::Response {
        let status = self.maintenance_status();
        master::Response {
            r#type: Some(response::Type::GetMaintenanceStatus.into()),
            get_maintenance_status: Some(response::GetMaintenanceStatus { status }),
            ..Default::default()
        }
    }
}

fn part<'a, T>(name: &str, part: &'a Option<T>) -> Result<&'a T, Response> {
    let words = || format!("Failed to validate master::Call: Expecting '{name}' to be present");
    part.as_ref().ok_or_else(|| Response::bad(words()))
}

fn ok() -> Response {
    Response::text(200, "")
}

fn found(known: bool, words: &str) -> Result<Response, Response> {
    if known {
        Ok(ok())
    } else {
        Err(Response::text(404, words))
    }
}

fn valid(good: bool, words: &str) -> Result<Response, Response> {
    if good { Ok(ok()) } else { Err(Response::bad(words)) }
}
