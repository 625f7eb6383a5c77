//! A network in memory with scripted masters, virtual time, and real recordings.

mod agents;
mod calls;
mod flags;
mod following;
mod fuzz;
mod hostile;
mod net;
mod operator;
mod probing;
mod reading;
mod replay;
mod stream;
mod subscribe;

use crate::{Config, Framework, Limits, Timing};
use echelon_core_hosts::{Call, Event, Refusal};
use echelon_core_model::HostId;
use echelon_proto::mesos::v1::scheduler::{Event as Wire, event};
use echelon_proto::recordio;
use net::Net;
use prost::Message as _;
use std::sync::Arc;
use tokio::sync::mpsc;

pub fn config(masters: &str) -> Config {
    Config {
        masters: masters.parse().unwrap(),
        framework: Framework::named("test"),
        credential: None,
        operator: None,
        timing: Timing::usual(),
        limits: Limits::usual(),
        seed: 7,
    }
}

/// The shard's end of a connection.
pub struct Shard {
    pub calls: mpsc::Sender<Call>,
    pub events: mpsc::Receiver<Event>,
}

impl Shard {
    pub fn over(net: &Net, config: Config) -> Self {
        Self::with_room(net, config, 1_000)
    }

    pub fn with_room(net: &Net, config: Config, room: usize) -> Self {
        let (calls, called) = mpsc::channel(1_000);
        let (told, events) = mpsc::channel(room);
        crate::spawn_over(Arc::new(net.clone()), config, called, told);
        Self { calls, events }
    }

    pub async fn say(&self, call: Call) {
        self.calls.send(call).await.unwrap();
    }

    pub async fn subscribe(&self) {
        self.say(Call::Subscribe { framework: None }).await;
    }

    pub async fn hear(&mut self) -> Event {
        self.events.recv().await.unwrap()
    }

    /// The next event, which tells that the stream ended.
    pub async fn hear_disconnected(&mut self) -> String {
        match self.hear().await {
            Event::Disconnected { why } => why,
            other => panic!("expected Disconnected, heard {other:?}"),
        }
    }

    pub async fn hear_refused(&mut self) -> (String, Refusal) {
        match self.hear().await {
            Event::Refused { message, cause } => (message, cause),
            other => panic!("expected Refused, heard {other:?}"),
        }
    }

    pub async fn hear_failed(&mut self) -> (Call, bool) {
        match self.hear().await {
            Event::CallFailed { call, refused, .. } => (call, refused),
            other => panic!("expected CallFailed, heard {other:?}"),
        }
    }

    pub async fn hear_subscribed(&mut self) {
        let event = self.hear().await;
        assert!(matches!(event, Event::Subscribed { .. }), "{event:?}");
    }
}

pub fn kill(task: &str) -> Call {
    Call::Kill {
        task: task.to_owned(),
        host: Some(HostId::new("a")),
        grace: echelon_core_model::Span::seconds(1),
    }
}

pub fn framed(wire: &Wire) -> Vec<u8> {
    recordio::encode(&wire.encode_to_vec())
}

pub fn subscribed() -> Vec<u8> {
    framed(&Wire {
        r#type: Some(event::Type::Subscribed.into()),
        subscribed: Some(event::Subscribed {
            framework_id: echelon_proto::mesos::v1::FrameworkId {
                value: "f-0001".to_owned(),
            },
            heartbeat_interval_seconds: Some(15.0),
            master_info: None,
        }),
        ..Wire::default()
    })
}

pub fn heartbeat() -> Vec<u8> {
    framed(&Wire {
        r#type: Some(event::Type::Heartbeat.into()),
        ..Wire::default()
    })
}

pub fn error(message: &str) -> Vec<u8> {
    framed(&Wire {
        r#type: Some(event::Type::Error.into()),
        error: Some(event::Error {
            message: message.to_owned(),
        }),
        ..Wire::default()
    })
}
