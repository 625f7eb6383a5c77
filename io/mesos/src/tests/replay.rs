use super::net::{Net, Parrot};
use super::{Shard, config};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use echelon_core_hosts::{Call, Event, Launch, Offer, TaskState, was_launched_before};
use echelon_core_model::Span;
use echelon_core_model::runtime::Runtime;
use echelon_proto::convert::mesos::event_from_wire;
use echelon_proto::mesos::v1::scheduler::{Event as Wire, call};
use echelon_proto::recordio;
use prost::Message as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/recordings")
}

fn lines(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()
}

/// The records of every stream of a recording.
pub fn streams(name: &str) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut out: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for line in lines(name) {
        if line["kind"] == "event" {
            let who = line["who"].as_str().unwrap().to_owned();
            out.entry(who).or_default().push(bytes(&line["record_b64"]));
        }
    }
    out
}

/// What should be heard of a stream: its events, then how it ended.
fn expected(records: &[Vec<u8>]) -> Vec<Event> {
    let mut out = Vec::new();
    for record in records {
        for event in event_from_wire(&Wire::decode(record.as_slice()).unwrap()) {
            let last = matches!(event, Event::Refused { .. });
            out.push(event);
            if last {
                return out;
            }
        }
    }
    out
}

#[tokio::test(start_paused = true)]
async fn every_recorded_stream_is_heard_however_it_is_cut() {
    let mut n_streams = 0;
    let mut n_events = 0;
    for file in std::fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".protobuf.jsonl") {
            continue;
        }
        for (who, records) in streams(&name) {
            let stream: Vec<u8> = records.iter().flat_map(|r| recordio::encode(r)).collect();
            for piece in [1 + n_streams % 7, 1_000] {
                let net = Net::with(&["m:5050"]);
                let sender = net.stream("m:5050", Vec::new());
                for cut in stream.chunks(piece) {
                    sender.send(Bytes::copy_from_slice(cut)).unwrap();
                }
                drop(sender);
                let mut shard = Shard::over(&net, config("m:5050"));
                shard.subscribe().await;
                let expected = expected(&records);
                for event in &expected {
                    assert_eq!(shard.hear().await, *event, "{name} {who}");
                    n_events += 1;
                }
                if !matches!(expected.last(), Some(Event::Refused { .. })) {
                    assert_eq!(
                        shard.hear_disconnected().await,
                        "the event stream ended",
                        "{name} {who}"
                    );
                }
            }
            n_streams += 1;
        }
    }
    assert!(
        n_streams >= 60 && n_events >= 1_300,
        "recordings are missing: {n_streams} streams, {n_events} events"
    );
}

/// What a real Mesos said of launches whose id it knew, in all recordings, and nothing else that it refused.
#[test]
fn recorded_refusals_of_a_known_id_are_recognised() {
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let Some(scenario) = name.strip_suffix(".protobuf.jsonl") else {
            continue;
        };
        for event in streams(&name).values().flat_map(|records| expected(records)) {
            if let Event::Update(status) = event
                && was_launched_before(&status)
            {
                found.push(format!("{scenario} {} {:?}", status.task, status.state));
            }
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(
        found,
        [
            "invalid-tasks i-first Error",
            "invalid-tasks i-good Dropped",
            "task-group g4 Error",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_bytes_of_a_real_socket_are_heard_however_they_are_cut() {
    let received: Vec<u8> = lines("raw-stream.protobuf.jsonl")
        .iter()
        .filter(|l| l["kind"] == "received")
        .flat_map(|l| bytes(&l["b64"]))
        .collect();
    let mut heard: Vec<Vec<Event>> = Vec::new();
    for piece in [1, 2, 3, 5, 8, 64, 100_000] {
        let (calls, called) = mpsc::channel(1);
        let (told, mut events) = mpsc::channel(100);
        let parrot = Parrot {
            bytes: received.clone(),
            piece,
        };
        crate::spawn_over(Arc::new(parrot), config("m:5050"), called, told);
        calls.send(Call::Subscribe { framework: None }).await.unwrap();
        let mut all = Vec::new();
        loop {
            match events.recv().await.unwrap() {
                Event::Disconnected { .. } => break,
                event => all.push(event),
            }
        }
        heard.push(all);
    }
    assert!(heard.windows(2).all(|pair| pair[0] == pair[1]));
    let offers = heard[0]
        .iter()
        .map(|e| if let Event::Offers(o) = e { o.len() } else { 0 });
    assert_eq!(offers.sum::<usize>(), 3, "{:?}", heard[0]);
    assert!(matches!(heard[0][0], Event::Subscribed { .. }));
}

/// The life of a task, as it was recorded, with our calls in the places of the recorded ones.
#[tokio::test(start_paused = true)]
async fn a_recorded_task_is_launched_and_acknowledged() {
    let records = streams("launch-finish.protobuf.jsonl").remove("fw").unwrap();
    let net = Net::with(&["m:5050"]);
    let sender = net.stream("m:5050", Vec::new());
    let mut shard = Shard::over(&net, config("m:5050"));
    shard.subscribe().await;
    let mut states = Vec::new();
    for record in &records {
        sender.send(Bytes::from(recordio::encode(record))).unwrap();
        match shard.hear().await {
            Event::Offers(offers) if states.is_empty() => shard.say(launch_on(&offers[0])).await,
            Event::Update(status) => {
                states.push(status.state);
                let (host, uuid) = (status.host.unwrap(), status.uuid.unwrap());
                shard
                    .say(Call::Acknowledge {
                        task: status.task,
                        host,
                        uuid,
                    })
                    .await;
            }
            _ => {}
        }
    }
    assert_eq!(
        states,
        [TaskState::Starting, TaskState::Running, TaskState::Finished]
    );
    // Calls are answered in order, so this one is refused after all others were made.
    net.answer("m:5050", super::net::Answer::Text(400, "enough"));
    shard.say(Call::Revive).await;
    while shard.hear().await
        != (Event::CallFailed {
            call: Call::Revive,
            why: "m:5050: 400 enough".to_owned(),
            refused: true,
        })
    {}
    check_calls(&net, &records[0]);
}

/// The calls are those of the recording, all but the first on the stream and for the framework that its first event named.
fn check_calls(net: &Net, first_event: &[u8]) {
    let recorded: Vec<call::Type> = lines("launch-finish.protobuf.jsonl")
        .iter()
        .filter(|l| l["kind"] == "http" && l["who"] == "fw")
        .map(|l| call::Type::from_str_name(l["call"]["type"].as_str().unwrap()).unwrap())
        .chain([call::Type::Revive])
        .collect();
    assert_eq!(net.look(|s| s.call().r#type()), recorded);
    let framework = Wire::decode(first_event)
        .unwrap()
        .subscribed
        .unwrap()
        .framework_id;
    for (n, (id, stream, kind, accept)) in net
        .look(|s| {
            let header = |name: &str| s.header(name).to_owned();
            (
                s.call().framework_id,
                header("mesos-stream-id"),
                header("content-type"),
                header("accept"),
            )
        })
        .into_iter()
        .enumerate()
    {
        let calls_on = (n > 0).then(|| framework.clone());
        assert_eq!(
            (id, stream.as_str()),
            (calls_on, if n > 0 { "stream-1" } else { "" })
        );
        assert_eq!(
            (kind.as_str(), accept.as_str()),
            ("application/x-protobuf", "application/x-protobuf")
        );
    }
}

fn launch_on(offer: &Offer) -> Call {
    let launch = Launch {
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "t".to_owned(),
        discovery: "d".to_owned(),
        runtime: Runtime::shell("true"),
        ports: Vec::new(),
        volume: None,
        resources: offer.resources,
        revocable: offer.revocable,
        reserved: Vec::new(),
        grace: Span::seconds(10),
        max_run: None,
        labels: BTreeMap::new(),
        sidecars: Vec::new(),
    };
    Call::Accept {
        offers: vec![offer.id.clone()],
        host: offer.host.clone(),
        launches: vec![launch],
        refuse: Span::seconds(1),
    }
}
