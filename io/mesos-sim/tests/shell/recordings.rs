//! What a real master said on the wire: headers, words and framing. The recorded requests go to the simulated master byte
//! for byte, and it answers the same, but for ids, ports and times. The order and rhythm of events is compared in
//! `sim/mesos`, which plays all other recordings.

use crate::client::{config, send, whole};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use echelon_io_mesos_sim::{AgentShape, Bundle, Mode, Running, Virtual, serve};
use echelon_io_process::Shutdown;
use echelon_proto::recordio::Decoder;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A master's id is a UUID.
const ID_LENGTH: usize = 36;

#[tokio::test]
async fn a_request_is_answered_as_a_real_master_answered_it() {
    let (mut n_recordings, mut n_compared) = (0, 0);
    for encoding in ["protobuf", "json"] {
        n_compared += play(&format!("http-errors.{encoding}"), 1, &[]).await;
        n_compared += play(
            &format!("http-auth.{encoding}"),
            0,
            &[("rec", "s3cret"), ("two", "other")],
        )
        .await;
        n_compared += play_raw(&format!("raw-stream.{encoding}")).await;
        n_recordings += 3;
    }
    println!("{n_recordings} recordings, {n_compared} exchanges compared");
    assert!(n_compared > 120, "only {n_compared} exchanges were compared");
}

fn lines(name: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/recordings");
    let text = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

async fn served(n_agents: usize, credentials: &[(&str, &str)]) -> (Running, Shutdown) {
    let shutdown = Shutdown::new(Duration::from_secs(5));
    let shape = AgentShape {
        hostname: Some("127.0.0.1".to_owned()),
        resources: Bundle::of(2, 1024, 2048).with_ports(31_000, 31_010),
        attributes: Vec::new(),
    };
    let mut config = config(Mode::Virtual(Virtual::default()));
    config.agents = vec![shape; n_agents];
    config.credentials = credentials
        .iter()
        .map(|(principal, secret)| ((*principal).to_owned(), (*secret).to_owned()))
        .collect();
    let running = serve(config, &shutdown).await.unwrap();
    (running, shutdown)
}

/// Plays the requests of a recording in order.
async fn play(name: &str, n_agents: usize, credentials: &[(&str, &str)]) -> usize {
    let lines = lines(name);
    let (running, shutdown) = served(n_agents, credentials).await;
    let mut player = Player {
        address: running.address,
        recorded_master: recorded_master(&lines),
        simulated_master: String::new(),
        streams: Vec::new(),
        n_compared: 0,
    };
    for line in lines.iter().filter(|line| line["kind"] == "http") {
        player.exchange(name, line).await;
    }
    let events = lines.iter().filter(|line| line["kind"] == "event");
    let recorded: Vec<Value> = events.map(|line| line["event"].clone()).collect();
    if let Some(stream) = player.streams.pop().filter(|_| !recorded.is_empty()) {
        let simulated = records(stream.body, &stream.content_type, recorded.len()).await;
        player.compare_events(name, &recorded, &simulated);
    }
    shutdown.begin();
    shutdown.finished().await;
    player.n_compared
}

struct Player {
    address: std::net::SocketAddr,
    recorded_master: String,
    simulated_master: String,
    streams: Vec<Stream>,
    n_compared: usize,
}

/// An open stream of the simulated master.
struct Stream {
    recorded_id: String,
    id: String,
    content_type: String,
    body: Incoming,
}

impl Player {
    async fn exchange(&mut self, name: &str, line: &Value) {
        let at = format!("{name}, line {}: {}", line["seq"], line["note"]);
        let misspelt = line["path"] == "/api/v1/schedulers";
        if misspelt && line["status"] == 200 {
            // The operators' stream, which is not served (rule R1).
            return;
        }
        let answer = send(self.address, self.request(line)).await;
        assert_eq!(line["status"], answer.status().as_u16(), "{at}");
        self.compare_headers(line, answer.headers(), &at);
        self.n_compared += 1;
        if answer.status() != 200 {
            let answer = whole(answer).await;
            let body = self.as_recorded(&answer.text());
            // A scheduler's call read as an operator's: the words depend on parts of that API that are not served.
            if !misspelt {
                assert_eq!(words(text(&line["answer_text"])), words(&body), "{at}");
            }
            return;
        }
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        let stream = Stream {
            recorded_id: text(&line["answer_headers"]["Mesos-Stream-Id"]).to_owned(),
            id: header("mesos-stream-id"),
            content_type: header("content-type"),
            body: answer.into_body(),
        };
        if line["who"] == "raw" {
            let recorded = decoded(&bytes(&line["answer_b64"]), &stream.content_type);
            let simulated = records(stream.body, &stream.content_type, recorded.len()).await;
            self.compare_events(&at, &recorded, &simulated);
        } else {
            self.streams.push(stream);
        }
    }

    /// The recorded request, with the ids of this run.
    fn request(&self, line: &Value) -> http::Request<Full<Bytes>> {
        let mut request = http::Request::builder()
            .method(text(&line["method"]))
            .uri(text(&line["path"]));
        for (name, value) in line["headers"].as_object().unwrap() {
            let known = self
                .streams
                .iter()
                .find(|stream| stream.recorded_id == text(value));
            request = request.header(name, known.map_or(text(value), |stream| &stream.id));
        }
        let mut body = bytes(&line["body_b64"]);
        let recorded = self.recorded_master.as_bytes();
        while let Some(i) = body.windows(ID_LENGTH).position(|window| window == recorded) {
            body[i..i + ID_LENGTH].copy_from_slice(self.simulated_master.as_bytes());
        }
        request.body(Full::new(Bytes::from(body))).unwrap()
    }

    fn as_recorded(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if !self.simulated_master.is_empty() {
            text = text.replace(&self.simulated_master, &self.recorded_master);
        }
        for stream in &self.streams {
            text = text.replace(&stream.id, &stream.recorded_id);
        }
        text
    }

    fn compare_headers(&self, line: &Value, simulated: &http::HeaderMap, at: &str) {
        let recorded = line["answer_headers"].as_object().unwrap();
        for name in ["Allow", "Content-Type", "WWW-Authenticate", "Transfer-Encoding"] {
            let simulated = simulated.get(name).map(|value| value.to_str().unwrap());
            let recorded = recorded.get(name).and_then(Value::as_str);
            assert_eq!(recorded, simulated, "{at}: {name}");
        }
        assert_eq!(
            recorded.contains_key("Mesos-Stream-Id"),
            simulated.contains_key("mesos-stream-id"),
            "{at}"
        );
    }

    /// SUBSCRIBED tells the simulated master's id.
    fn compare_events(&mut self, at: &str, recorded: &[Value], simulated: &[Value]) {
        let subscribed = simulated
            .iter()
            .find(|event| event["type"] == "SUBSCRIBED")
            .unwrap();
        text(&subscribed["subscribed"]["master_info"]["id"]).clone_into(&mut self.simulated_master);
        let side = |events: &[Value], master: &str| -> Vec<String> {
            let offers = events
                .iter()
                .flat_map(|event| event["offers"]["offers"].as_array().cloned().unwrap_or_default());
            let others = events.iter().filter(|event| event["type"] != "OFFERS").cloned();
            let parts = others
                .chain(offers)
                .map(|part| alike(&part).to_string().replace(master, "MASTER"));
            let mut parts: Vec<String> = parts.collect();
            parts.sort();
            parts
        };
        let recorded = side(recorded, &self.recorded_master);
        assert_eq!(recorded, side(simulated, &self.simulated_master), "{at}");
        self.n_compared += recorded.len();
    }
}

/// Plays the bytes of a socket: a SUBSCRIBE, and all that comes of it but the HEARTBEAT after 15 s.
async fn play_raw(name: &str) -> usize {
    let lines = lines(name);
    let of = |kind: &str| -> Vec<u8> {
        let parts = lines.iter().filter(|line| line["kind"] == kind);
        parts.flat_map(|line| bytes(&line["b64"])).collect()
    };
    let (recorded_head, recorded_body) = split(&of("received"));
    let recorded = decoded(
        &unchunked(&recorded_body),
        &header(&recorded_head, "content-type"),
    );
    let n_agents = lines
        .iter()
        .filter(|line| text(&line["text"]).starts_with("agent start"))
        .count();
    let (running, shutdown) = served(n_agents, &[]).await;
    let mut socket = TcpStream::connect(running.address).await.unwrap();
    socket.write_all(&of("sent")).await.unwrap();
    let mut received = Vec::new();
    let simulated = loop {
        assert!(
            socket.read_buf(&mut received).await.unwrap() > 0,
            "{name}: the stream ended"
        );
        if !received.windows(4).any(|window| window == b"\r\n\r\n") {
            continue;
        }
        let (head, body) = split(&received);
        let events = decoded(&unchunked(&body), &header(&head, "content-type"));
        if events.iter().any(|event| event["type"] == "OFFERS") {
            for name in ["content-type", "transfer-encoding"] {
                assert_eq!(header(&recorded_head, name), header(&head, name));
            }
            assert_eq!(recorded_head.lines().next(), head.lines().next());
            assert_eq!(header(&head, "mesos-stream-id").len(), ID_LENGTH);
            break events;
        }
    };
    let recorded_master = text(&recorded[0]["subscribed"]["master_info"]["id"]).to_owned();
    let mut player = Player {
        address: running.address,
        recorded_master,
        simulated_master: String::new(),
        streams: Vec::new(),
        n_compared: 0,
    };
    assert_eq!(recorded.last().unwrap()["type"], "HEARTBEAT");
    player.compare_events(name, &recorded[..recorded.len() - 1], &simulated);
    shutdown.begin();
    shutdown.finished().await;
    player.n_compared
}

fn recorded_master(lines: &[Value]) -> String {
    let streams = lines
        .iter()
        .filter(|line| line["status"] == 200 && line["who"] == "raw");
    let mut ids = streams.filter_map(|line| {
        let kind = text(&line["answer_headers"]["Content-Type"]).to_owned();
        let first = decoded(&bytes(&line["answer_b64"]), &kind).into_iter().next()?;
        first["subscribed"]["master_info"]["id"]
            .as_str()
            .map(str::to_owned)
    });
    ids.next().unwrap()
}

/// Reads that many events of a stream, then leaves it.
async fn records(mut body: Incoming, content_type: &str, wanted: usize) -> Vec<Value> {
    let mut received = Vec::new();
    loop {
        let events = decoded(&received, content_type);
        if events.len() >= wanted {
            return events;
        }
        let frame = tokio::time::timeout(Duration::from_secs(30), body.frame()).await;
        let frame = frame.unwrap().expect("the stream ended").unwrap();
        received.extend_from_slice(frame.data_ref().unwrap());
    }
}

/// The events in a piece of a stream.
fn decoded(stream: &[u8], content_type: &str) -> Vec<Value> {
    let mut records = Vec::new();
    Decoder::new(1 << 20).push(stream, &mut records).unwrap();
    let pool = DescriptorPool::decode(echelon_proto::FILE_DESCRIPTOR_SET).unwrap();
    let kind = pool.get_message_by_name("mesos.v1.scheduler.Event").unwrap();
    let event = |record: &Vec<u8>| {
        let message = if content_type == "application/json" {
            let mut reader = serde_json::Deserializer::from_slice(record);
            DynamicMessage::deserialize(kind.clone(), &mut reader).unwrap()
        } else {
            DynamicMessage::decode(kind.clone(), record.as_slice()).unwrap()
        };
        let plain = SerializeOptions::new().use_proto_field_name(true);
        message
            .serialize_with_options(serde_json::value::Serializer, &plain)
            .unwrap()
    };
    records.iter().map(event).collect()
}

/// What differs from run to run gets one form.
fn alike(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let field = match name.as_str() {
                    "port" | "timestamp" => json!("any"),
                    "pid" => json!(text(field).split(':').next()),
                    _ => alike(field),
                };
                (name.clone(), field)
            });
            Value::Object(fields.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(alike).collect()),
        other => other.clone(),
    }
}

/// What a JSON parser says is its own.
fn words(text: &str) -> &str {
    match text.split_once(" JSON: ") {
        Some((words @ "Failed to parse body into", _)) => words,
        _ => text,
    }
}

fn split(answer: &[u8]) -> (String, Vec<u8>) {
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

fn header(head: &str, name: &str) -> String {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let field = fields.find(|(known, _)| known.eq_ignore_ascii_case(name));
    field.unwrap().1.to_owned()
}

/// The content of whole chunks.
fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let length = std::str::from_utf8(&rest[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let Some(chunk) = rest.get(end + 2..end + 2 + length) else {
            break;
        };
        content.extend_from_slice(chunk);
        rest = rest.get(end + 2 + length + 2..).unwrap_or_default();
    }
    content
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(text(value)).unwrap()
}
