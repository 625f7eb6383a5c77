//! Requests that a real master refused, byte for byte: the simulated one refuses them with the same status, words and
//! headers.

use crate::client::{config, send, whole};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use echelon_io_mesos_sim::{Mode, Virtual, serve};
use echelon_io_process::Shutdown;
use http_body_util::Full;
use serde_json::Value;
use std::time::Duration;

#[tokio::test]
async fn what_a_real_master_refuses_is_refused_in_its_words() {
    let mut n_compared = 0;
    for encoding in ["protobuf", "json"] {
        let shutdown = Shutdown::new(Duration::from_secs(5));
        let running = serve(config(Mode::Virtual(Virtual::default())), &shutdown)
            .await
            .unwrap();
        let path = format!(
            "{}/../../tests/recordings/http-errors.{encoding}.jsonl",
            env!("CARGO_MANIFEST_DIR")
        );
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            // What needs a subscribed framework of that run is replayed in sim/mesos.
            if line["kind"] == "http" && line["status"] != 200 && !needs_framework(&line) {
                compare(running.address, &line).await;
                n_compared += 1;
            }
        }
        shutdown.begin();
        shutdown.finished().await;
    }
    println!("{n_compared} refusals compared");
    assert!(n_compared > 60, "only {n_compared} refusals were compared");
}

fn needs_framework(line: &Value) -> bool {
    let body = STANDARD.decode(line["body_b64"].as_str().unwrap()).unwrap();
    // The frameworks of the recording are named after its master: a UUID and a number.
    let named = String::from_utf8_lossy(&body).contains("-0003");
    let elsewhere = line["path"] == "/api/v1/schedulers";
    named || elsewhere || line["who"] != "raw"
}

async fn compare(address: std::net::SocketAddr, line: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut request = http::Request::builder()
        .method(text(&line["method"]).as_str())
        .uri(text(&line["path"]));
    for (name, value) in line["headers"].as_object().unwrap() {
        request = request.header(name, text(value));
    }
    let body = STANDARD.decode(line["body_b64"].as_str().unwrap()).unwrap();
    let answer = whole(send(address, request.body(Full::new(Bytes::from(body))).unwrap()).await).await;
    let at = format!("line {}: {}", line["seq"], line["body_b64"]);
    assert_eq!(line["status"], answer.status, "{at}: {}", answer.text());
    // What a JSON parser says is its own.
    let words = |text: String| match text.split_once(" JSON: ") {
        Some(("Failed to parse body into", _)) => "no JSON".to_owned(),
        _ => text,
    };
    assert_eq!(words(text(&line["answer_text"])), words(answer.text()), "{at}");
    for name in ["allow", "content-type"] {
        let recorded = line["answer_headers"].as_object().unwrap().iter();
        let recorded = recorded
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| text(value))
            .next();
        let own = answer
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(recorded, own, "{at}: {name}");
    }
}
