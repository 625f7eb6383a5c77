//! A service is brought to a new version while clients use it: they follow the list of its endpoints and meet no request that fails.

use super::{Standalone, example};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A list that is older is asked for again before it is used; `drain` of the example is much longer.
const FRESH: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(10);

/// The body of a page.
pub(super) fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    if head.contains(" 200 ") {
        Ok(body.to_owned())
    } else {
        Err(std::io::Error::other(answer))
    }
}

/// Ports of the endpoints, each with the version that is there. All hosts of the simulated clusters are this machine.
fn endpoints(gateway: &str) -> Vec<(u64, u64)> {
    let listed = get(gateway, "/v1/jobs/web/endpoints").expect("the list");
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let all = listed["endpoints"].as_array().cloned().unwrap_or_default();
    let port = |e: &serde_json::Value| e["ports"][0]["number"].as_u64();
    let version = |e: &serde_json::Value| e["specVersion"].as_u64().or(e["spec_version"].as_u64());
    all.iter().filter_map(|e| Some((port(e)?, version(e)?))).collect()
}

/// Asks one endpoint after the other until told to stop: how often, and which versions answered.
fn requests(gateway: &str, stop: &AtomicBool) -> (usize, BTreeSet<u64>) {
    let (mut list, mut read_at) = (endpoints(gateway), Instant::now());
    let (mut asked, mut versions) = (0, BTreeSet::new());
    while !stop.load(Ordering::Relaxed) {
        if read_at.elapsed() >= FRESH {
            (list, read_at) = (endpoints(gateway), Instant::now());
        }
        assert!(!list.is_empty(), "nobody serves after {asked} requests");
        let (port, version) = list[asked % list.len()];
        if let Err(error) = get(&format!("127.0.0.1:{port}"), "/") {
            panic!("request {asked}, to version {version}: {error}");
        }
        asked += 1;
        versions.insert(version);
        std::thread::sleep(Duration::from_millis(10));
    }
    (asked, versions)
}

#[test]
fn clients_of_a_service_that_is_updated_meet_no_request_that_fails() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("web")]);
    let gateway = standalone.address.trim_start_matches("http://").to_owned();
    let deadline = Instant::now() + Duration::from_secs(60);
    while endpoints(&gateway).len() < 2 {
        assert!(Instant::now() < deadline, "no endpoints");
        std::thread::sleep(Duration::from_millis(100));
    }
    let text = std::fs::read_to_string(example("web")).unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, format!("{text}env: {{VERSION: two}}\n")).unwrap();
    let stop = AtomicBool::new(false);
    let (asked, versions) = std::thread::scope(|scope| {
        let client = scope.spawn(|| requests(&gateway, &stop));
        let updated = standalone.echelon(&["job", "update", &file.display().to_string(), "--wait"]);
        stop.store(true, Ordering::Relaxed);
        assert!(
            updated.status.success(),
            "{}",
            String::from_utf8_lossy(&updated.stderr)
        );
        client.join().unwrap()
    });
    assert_eq!(versions, [1, 2].into(), "after {asked} requests");
    let left: Vec<u64> = endpoints(&gateway)
        .into_iter()
        .map(|(_, version)| version)
        .collect();
    assert_eq!(left, [2, 2]);
    let found = get(&gateway, "/http_sd/jobs/web?port=http").unwrap();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found.as_array().map(Vec::len), Some(2), "{found}");
    standalone.printed(&["job", "stop", "web", "--wait"]);
}
