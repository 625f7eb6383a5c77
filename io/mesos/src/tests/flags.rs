//! The question for an agent's flags: whom it reaches, and what comes back whatever the agent does.

use super::net::{Answer, Net};
use super::{Shard, config, kill, subscribed};
use crate::{Config, Credential, flags};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use echelon_core_hosts::{Call, Event};
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::{HostId, Span};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

const AGENT: &str = "a:5051";

fn question() -> Call {
    Call::ReadFlags {
        host: HostId::new("old"),
        address: AGENT.to_owned(),
    }
}

fn told(flags: &Value) -> Answer {
    let answer = json!({"type": "GET_FLAGS", "get_flags": {"flags": flags}});
    Answer::Body(
        vec![("content-type", "application/json")],
        answer.to_string().into_bytes(),
    )
}

async fn ready(net: &Net, config: Config) -> (Shard, UnboundedSender<Bytes>) {
    let stream = net.stream("m:5050", subscribed());
    let mut shard = Shard::over(net, config);
    shard.subscribe().await;
    shard.hear_subscribed().await;
    (shard, stream)
}

#[tokio::test(start_paused = true)]
async fn the_agent_is_asked_as_the_operator() {
    let credential = |who: &str| Credential {
        principal: who.to_owned(),
        secret: "s".to_owned(),
    };
    let both = Config {
        credential: Some(credential("framework")),
        operator: Some(credential("operator")),
        ..config("m")
    };
    let net = Net::with(&["m:5050", AGENT]);
    let (mut shard, _stream) = ready(&net, both).await;
    net.answer(
        AGENT,
        told(&json!([{"name": "recovery_timeout", "value": "1hrs"}])),
    );
    shard.say(question()).await;
    let times = AgentTimes {
        recovery: Some(Span::minutes(60)),
        shutdown: None,
    };
    let host = HostId::new("old");
    assert_eq!(shard.hear().await, Event::Flags { host, times });
    let seen = net.look(|s| {
        let body: Value = serde_json::from_slice(&s.body).unwrap_or_default();
        let who = s.header("authorization").to_owned();
        (s.authority.clone(), s.path.clone(), who, body)
    });
    let operator = format!("Basic {}", BASE64_STANDARD.encode("operator:s"));
    let asked = (
        AGENT.to_owned(),
        "/api/v1".to_owned(),
        operator,
        json!({"type": "GET_FLAGS"}),
    );
    assert_eq!(seen.last(), Some(&asked));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_tell_costs_no_subscription_and_delays_nothing() {
    let net = Net::with(&["m:5050", AGENT]);
    let (mut shard, _stream) = ready(&net, config("m")).await;
    let body = |bytes: Vec<u8>| Answer::Body(vec![], bytes);
    for answer in [
        Answer::Text(403, "no"),
        Answer::Text(503, "Agent has not finished recovery"),
        Answer::Cut,
        Answer::Hang,
        body(b"{".to_vec()),
        body(b"{}".to_vec()),
        body(vec![b' '; 2 * 1024 * 1024]),
        told(&json!([{"name": "recovery_timeout", "value": 15}])),
    ] {
        net.answer(AGENT, answer);
        shard.say(question()).await;
        assert_eq!(shard.hear_failed().await, (question(), false));
    }
    // Nobody is there, or the address is none.
    for address in ["b:5051", "b 5051", "user@b:5051", ""] {
        let call = Call::ReadFlags {
            host: HostId::new("old"),
            address: address.to_owned(),
        };
        shard.say(call.clone()).await;
        assert_eq!(shard.hear_failed().await, (call, false));
    }
    net.answer(AGENT, Answer::Hang);
    net.answer("m:5050", Answer::Text(400, "enough"));
    shard.say(question()).await;
    shard.say(kill("t")).await;
    assert_eq!(
        shard.hear_failed().await,
        (kill("t"), true),
        "it overtakes the question"
    );
}

#[test]
fn flags_that_are_no_times_are_told_as_unknown() {
    let read = |flags: Value| flags::read(json!({"get_flags": {"flags": flags}}).to_string().as_bytes());
    for value in ["-1mins", "nansecs", "", "1e9weeks", "soon"] {
        let told = json!([{"name": "recovery_timeout", "value": value}]);
        assert_eq!(read(told), Ok(AgentTimes::UNKNOWN), "{value}");
    }
    assert_eq!(
        read(json!([{"name": "recovery_timeout"}])),
        Ok(AgentTimes::UNKNOWN)
    );
    assert_eq!(read(json!([])), Ok(AgentTimes::UNKNOWN));
    assert_eq!(flags::read(br#"{"get_flags":{}}"#), Ok(AgentTimes::UNKNOWN));
}
