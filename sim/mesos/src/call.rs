//! What each call of a subscribed framework does. Most answer 202 at once and show their effect later, or never (rules
//! R12, R13).

use crate::cluster::Cluster;
use crate::id::FrameworkId;
use crate::request::Response;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::master::inverse_offer_status::Status;
use echelon_proto::mesos::v1::scheduler::{Call, call};

impl Cluster {
    pub(crate) fn call(&mut self, framework: &FrameworkId, call: &Call, now: Timestamp) -> Response {
        if let Some(update) = call
            .update_framework
            .as_ref()
            .filter(|_| call.r#type() == call::Type::UpdateFramework)
        {
            return self.update_framework(framework, update, now);
        }
        match call.r#type() {
            call::Type::Teardown => {
                self.teardown(framework, now);
            }
            call::Type::Unknown => return Response::text(501, "Received 'UNKNOWN' call"),
            kind => self.act(framework, kind, call, now),
        }
        Response::accepted()
    }

    fn act(&mut self, framework: &FrameworkId, kind: call::Type, call: &Call, now: Timestamp) {
        let nothing: &[String] = &[];
        match kind {
            call::Type::Accept => call
                .accept
                .iter()
                .for_each(|part| self.accept(framework, part, now)),
            call::Type::Decline => call
                .decline
                .iter()
                .for_each(|part| self.decline(framework, part, now)),
            call::Type::Revive => {
                let roles = call.revive.as_ref().map_or(nothing, |part| &part.roles);
                self.revive(framework, roles, now);
            }
            call::Type::Suppress => {
                let roles = call.suppress.as_ref().map_or(nothing, |part| &part.roles);
                self.suppress(framework, roles);
            }
            call::Type::Kill => call.kill.iter().for_each(|part| self.kill(framework, part, now)),
            call::Type::Acknowledge => {
                call.acknowledge
                    .iter()
                    .for_each(|part| self.acknowledge(framework, part, now));
            }
            call::Type::Reconcile => call
                .reconcile
                .iter()
                .for_each(|part| self.reconcile(framework, part, now)),
            call::Type::AcknowledgeOperationStatus => call
                .acknowledge_operation_status
                .iter()
                .for_each(|part| self.acknowledge_operation(framework, part)),
            call::Type::ReconcileOperations => call
                .reconcile_operations
                .iter()
                .for_each(|part| self.reconcile_operations(framework, part)),
            call::Type::AcceptInverseOffers => call.accept_inverse_offers.iter().for_each(|part| {
                let answer = (Status::Accept, part.filters.as_ref());
                self.answer_inverse_offers(framework, &part.inverse_offer_ids, answer, now);
            }),
            call::Type::DeclineInverseOffers => call.decline_inverse_offers.iter().for_each(|part| {
                let answer = (Status::Decline, part.filters.as_ref());
                self.answer_inverse_offers(framework, &part.inverse_offer_ids, answer, now);
            }),
            call::Type::Shutdown => {
                call.shutdown
                    .iter()
                    .for_each(|part| self.shut_executor_down(framework, part, now));
            }
            call::Type::Message => {
                call.message
                    .iter()
                    .for_each(|part| self.message_executor(framework, part));
            }
            // REQUEST has no effect in a real master either (rule R52).
            _ => {}
        }
    }
}
