use super::*;
use echelon_core_hosts::{Launch, OfferId};
use echelon_core_model::Resources;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::time::Span;
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

fn hosts_at(masters: &str) -> HostManager {
    let mesos = Mesos {
        masters: masters.parse().unwrap(),
        framework: Framework {
            name: "echelon".into(),
            user: "nobody".into(),
            role: "echelon".into(),
            failover_timeout: Span::seconds(1),
            principal: None,
        },
        credential: None,
        operator: None,
        timing: Timing::usual(),
        limits: Limits::usual(),
        replaced_framework: None,
    };
    HostManager::new(mesos, 1, Addresses::default())
}

#[tokio::test]
async fn without_a_connection_calls_come_back() {
    let mut hosts = hosts_at("127.0.0.1:1");
    assert!(matches!(
        hosts.call(Call::Revive),
        Some(Event::CallFailed {
            call: Call::Revive,
            refused: true,
            ..
        })
    ));
    assert_eq!(hosts.call(Call::Subscribe { framework: None }), None);
    let mut batch = Vec::new();
    hosts.events(&mut batch, 8).await;
    assert!(
        matches!(batch.first(), Some(Event::Disconnected { .. })),
        "{batch:?}"
    );
    hosts.close();
    assert!(hosts.call(Call::Suppress).is_some());
}

const LAUNCHES: u32 = 1_500;
const ENVIRONMENT: usize = 200_000;

fn launch(number: u32) -> Call {
    let mut runtime = Runtime::shell("true");
    let marked = format!("launch-{number:06}") + &"x".repeat(ENVIRONMENT);
    runtime.env.insert("ENVIRONMENT".to_owned(), marked);
    let launch = Launch {
        task: format!("0000000000000000000000000a.main.{number}.1.1")
            .parse()
            .unwrap(),
        name: "t".to_owned(),
        discovery: "d".to_owned(),
        runtime,
        ports: Vec::new(),
        volume: None,
        resources: Resources::ZERO,
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        grace: Span::seconds(10),
        max_run: None,
        labels: BTreeMap::new(),
        sidecars: Vec::new(),
    };
    Call::Accept {
        offers: vec![OfferId("o".into())],
        host: HostId::new("a"),
        launches: vec![launch],
        refuse: Span::seconds(1),
    }
}

/// The next request of a connection: its body.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

/// A master that subscribes its framework, and reads no call before it is told to. Tells the number of each
/// launch.
async fn master(listener: TcpListener, reads: oneshot::Receiver<()>) -> Vec<u32> {
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    request(&mut stream).await.unwrap();
    // SUBSCRIBED of a framework `f`, with a heartbeat every 15 s.
    let event = b"\x08\x01\x12\x0e\x0a\x03\x0a\x01f\x11\x00\x00\x00\x00\x00\x00\x2e\x40";
    let head = "HTTP/1.1 200 OK\r\nMesos-Stream-Id: s\r\nContent-Type: application/x-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n";
    let record = [b"18\n".as_slice(), event].concat();
    let chunk = [format!("{:x}\r\n", record.len()).as_bytes(), &record, b"\r\n"].concat();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&chunk).await.unwrap();
    let mut calls = BufReader::new(listener.accept().await.unwrap().0);
    reads.await.unwrap();
    let mut out = Vec::new();
    while let Some(body) = request(&mut calls).await {
        if let Some(at) = body.windows(7).position(|w| w == b"launch-") {
            out.push(
                String::from_utf8(body[at + 7..at + 13].to_vec())
                    .unwrap()
                    .parse()
                    .unwrap(),
            );
        }
        calls
            .write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        if out.len() == LAUNCHES as usize {
            break;
        }
    }
    out
}

/// As the driver does: launches are handed over while there is room for them.
#[tokio::test]
async fn launches_to_a_master_that_does_not_read_are_bounded_in_bytes_and_arrive_once_in_order() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut hosts = hosts_at(&listener.local_addr().unwrap().to_string());
    let (read, reads) = oneshot::channel();
    let arrived = tokio::spawn(master(listener, reads));
    assert_eq!(hosts.call(Call::Subscribe { framework: None }), None);
    let mut heard = Vec::new();
    hosts.events(&mut heard, 1).await;
    assert!(
        matches!(heard.first(), Some(Event::Subscribed { .. })),
        "{heard:?}"
    );
    let bytes = launch(0).weight();
    let mut told = hosts.call_credit();
    let mut number = 0;
    let mut read = Some(read);
    while number < LAUNCHES {
        if told.under_way + bytes <= told.bound {
            assert_eq!(hosts.call(launch(number)), None);
            number += 1;
            told.under_way += bytes;
            assert!(hosts.under_way().0 <= LAUNCH_BYTES, "{:?}", hosts.under_way());
            continue;
        }
        if let Some(read) = read.take() {
            let is_emptied = hosts.emptied(IsAwaited::Yes);
            let waited = tokio::time::timeout(std::time::Duration::from_millis(300), is_emptied).await;
            assert!(waited.is_err(), "nothing has left");
            // What is no launch goes on, up to the bound of all calls.
            let ask = || Call::Reconcile {
                tasks: vec![("t".to_owned(), None); 2_000],
            };
            let refused = std::iter::repeat_with(|| hosts.call(ask())).find_map(|failed| failed);
            assert!(matches!(refused, Some(Event::CallFailed { refused: true, .. })));
            let other = hosts.under_way().1;
            assert!(
                (OTHER_CALL_BYTES - (1 << 20)..=OTHER_CALL_BYTES).contains(&other),
                "{other}"
            );
            read.send(()).unwrap();
        }
        hosts.emptied(IsAwaited::Yes).await;
        told = hosts.call_credit();
    }
    assert_eq!(arrived.await.unwrap(), (0..LAUNCHES).collect::<Vec<_>>());
    hosts.launches.at_most(0).await;
    hosts.other_calls.at_most(0).await;
}

#[test]
fn the_page_of_limits_has_those_of_this_process() {
    let page = include_str!("../../../docs/limits.md");
    for (way, bytes) in [
        ("launches to Mesos", LAUNCH_BYTES),
        ("other calls to Mesos", OTHER_CALL_BYTES),
        ("reports to one resource manager", crate::links::REPORT_BYTES),
    ] {
        let row = format!("| {way} | {} MiB |", bytes >> 20);
        assert!(page.contains(&row), "{row}");
    }
}
