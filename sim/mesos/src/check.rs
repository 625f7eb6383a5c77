//! The order of checks of a request: the first that fails gives the answer (rule R3).

use crate::cluster::{Cluster, Leadership};
use crate::id::FrameworkId;
use crate::request::{Accept, Body, Request, Response};
use echelon_proto::mesos::v1::scheduler::{Call, call};

/// What a request comes to.
pub(crate) enum Verdict<'a> {
    /// An answer at once.
    Refused(Response),
    /// A well-formed SUBSCRIBE.
    Subscribe(&'a Call),
    /// A call of a framework that is subscribed on the stream it names.
    Call(FrameworkId, &'a Call),
}

impl Cluster {
    pub(crate) fn check<'a>(&self, request: &'a Request) -> Verdict<'a> {
        self.verdict(request).unwrap_or_else(Verdict::Refused)
    }

    fn verdict<'a>(&self, request: &'a Request) -> Result<Verdict<'a>, Response> {
        self.check_leadership()?;
        if request.method != "POST" {
            let words = "405 Method Not Allowed. Expecting one of { 'POST' }, but received";
            let answer = Response::text(405, format!("{words} '{}'.", request.method));
            return Err(answer.with_header("Allow", "POST"));
        }
        let call = parsed(&request.body)?;
        let kind = check_parts(call)
            .map_err(|why| Response::bad(format!("Failed to validate scheduler::Call: {why}")))?;
        let principal = request.principal.as_deref();
        let info = call.subscribe.as_ref().map(|part| &part.framework_info);
        check_principal(principal, info.and_then(|info| info.principal.as_deref()))
            .map_err(|why| Response::bad(format!("Failed to validate scheduler::Call: {why}")))?;
        let streams = matches!(kind, call::Type::Subscribe | call::Type::ReconcileOperations);
        if streams && request.accept == Accept::Nothing {
            let words = "Expecting 'Accept' to allow 'application/x-protobuf' or 'application/json'";
            return Err(Response::text(406, words));
        }
        if kind == call::Type::Subscribe {
            if request.stream_id.is_some() {
                return Err(Response::bad(
                    "Subscribe calls should not include the 'Mesos-Stream-Id' header",
                ));
            }
            return Ok(Verdict::Subscribe(call));
        }
        self.check_framework(call, principal, request.stream_id.as_deref())
            .map(|id| Verdict::Call(id, call))
    }

    fn check_leadership(&self) -> Result<(), Response> {
        match &self.master.leadership {
            Leadership::Leads => Ok(()),
            Leadership::Recovering => Err(Response::text(503, "Master has not finished recovery")),
            Leadership::Nobody => Err(Response::text(503, "No leader elected")),
            Leadership::Follows(leader) => Err(Response::text(307, "")
                .with_header("Location", format!("//{leader}/master/api/v1/scheduler"))),
        }
    }

    fn check_framework(
        &self,
        call: &Call,
        principal: Option<&str>,
        stream_id: Option<&str>,
    ) -> Result<FrameworkId, Response> {
        let id = call.framework_id.as_ref().map(FrameworkId::from);
        let framework = id.as_ref().and_then(|id| self.master.frameworks.get(id));
        let framework = framework.ok_or_else(|| Response::bad("Framework cannot be found"))?;
        check_principal(principal, framework.info.principal.as_deref()).map_err(Response::bad)?;
        let Some(open) = &framework.stream else {
            return Err(Response::text(403, "Framework is not subscribed"));
        };
        match stream_id {
            None => Err(Response::bad(
                "All non-subscribe calls should include the 'Mesos-Stream-Id' header",
            )),
            Some(given) if given != open.as_str() => Err(Response::bad(format!(
                "The stream ID '{given}' included in this request didn't match the stream ID currently associated \
                 with framework ID {}",
                framework.id
            ))),
            Some(_) => Ok(framework.id.clone()),
        }
    }
}

fn parsed(body: &Body) -> Result<&Call, Response> {
    match body {
        Body::Call(call) => Ok(call),
        Body::NoContentType => Err(Response::bad("Expecting 'Content-Type' to be present")),
        Body::UnknownContentType => Err(Response::text(
            415,
            "Expecting 'Content-Type' of application/json or application/x-protobuf",
        )),
        Body::Malformed(why) => Err(Response::bad(why.clone())),
    }
}

/// A framework with a principal is called by that principal only.
fn check_principal(authenticated: Option<&str>, named: Option<&str>) -> Result<(), String> {
    match (authenticated, named) {
        (Some(authenticated), Some(named)) if authenticated != named => Err(format!(
            "Authenticated principal '{authenticated}' does not match principal '{named}' set in `FrameworkInfo`"
        )),
        _ => Ok(()),
    }
}

/// Whether the call has its type, its framework and its own part (rule R57).
fn check_parts(call: &Call) -> Result<call::Type, String> {
    let present = |name: &str| format!("Expecting '{name}' to be present");
    let kind = call.r#type.and_then(|number| call::Type::try_from(number).ok());
    let kind = kind.ok_or_else(|| present("type"))?;
    if kind == call::Type::Subscribe {
        return check_subscribe(call).map(|()| kind);
    }
    if call.framework_id.is_none() {
        return Err(present("framework_id"));
    }
    match missing_part(call, kind) {
        Some(name) => Err(present(name)),
        None => check_uuid(call, kind)
            .and_then(|()| check_update_framework(call))
            .map(|()| kind),
    }
}

fn check_update_framework(call: &Call) -> Result<(), String> {
    match &call.update_framework {
        Some(update) if update.framework_info.id != call.framework_id => {
            Err("'framework_id' differs from 'update_framework.framework_info.id'".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_subscribe(call: &Call) -> Result<(), String> {
    let Some(subscribe) = &call.subscribe else {
        return Err("Expecting 'subscribe' to be present".to_owned());
    };
    if subscribe.framework_info.id != call.framework_id {
        return Err("'framework_id' differs from 'subscribe.framework_info.id'".to_owned());
    }
    Ok(())
}

/// The part that a call of this type needs and lacks.
fn missing_part(call: &Call, kind: call::Type) -> Option<&'static str> {
    let (there, name) = match kind {
        call::Type::Accept => (call.accept.is_some(), "accept"),
        call::Type::Decline => (call.decline.is_some(), "decline"),
        call::Type::AcceptInverseOffers => (call.accept_inverse_offers.is_some(), "accept_inverse_offers"),
        call::Type::DeclineInverseOffers => (call.decline_inverse_offers.is_some(), "decline_inverse_offers"),
        call::Type::Kill => (call.kill.is_some(), "kill"),
        call::Type::Shutdown => (call.shutdown.is_some(), "shutdown"),
        call::Type::Acknowledge => (call.acknowledge.is_some(), "acknowledge"),
        call::Type::AcknowledgeOperationStatus => (
            call.acknowledge_operation_status.is_some(),
            "acknowledge_operation_status",
        ),
        call::Type::Reconcile => (call.reconcile.is_some(), "reconcile"),
        call::Type::ReconcileOperations => (call.reconcile_operations.is_some(), "reconcile_operations"),
        call::Type::Message => (call.message.is_some(), "message"),
        call::Type::Request => (call.request.is_some(), "request"),
        call::Type::UpdateFramework => (call.update_framework.is_some(), "update_framework"),
        call::Type::Unknown
        | call::Type::Subscribe
        | call::Type::Teardown
        | call::Type::Revive
        | call::Type::Suppress => return None,
    };
    (!there).then_some(name)
}

/// An acknowledged uuid has 16 bytes (rules R47, R48).
fn check_uuid(call: &Call, kind: call::Type) -> Result<(), String> {
    let uuid = match kind {
        call::Type::Acknowledge => call.acknowledge.as_ref().map(|part| &part.uuid),
        call::Type::AcknowledgeOperationStatus => {
            call.acknowledge_operation_status.as_ref().map(|part| &part.uuid)
        }
        _ => None,
    };
    match uuid {
        Some(bytes) if bytes.len() != 16 => Err("Not a valid UUID".to_owned()),
        _ => Ok(()),
    }
}
