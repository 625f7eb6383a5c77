//! Masters that are broken or mean: each costs a connection and leaves a sentence, whatever bytes it sends and however long.

use super::net::Net;
use super::{Shard, config, framed, heartbeat, subscribed};
use crate::dial::{Dial, Io};
use crate::{Config, Limits};
use async_trait::async_trait;
use bytes::Bytes;
use echelon_core_hosts::Event;
use echelon_proto::mesos::v1::scheduler::{Event as Wire, event};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Says `head` and then `again` without end, whatever is asked; counts what was taken from it.
#[derive(Clone)]
struct Endless {
    head: &'static [u8],
    again: &'static [u8],
    said: Arc<AtomicUsize>,
}

#[async_trait]
impl Dial for Endless {
    async fn dial(&self, _: &str) -> io::Result<Box<dyn Io>> {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let this = self.clone();
        tokio::spawn(async move {
            let mut asked = [0; 1_024];
            let _ = theirs.read(&mut asked).await;
            let mut next = this.head;
            while theirs.write_all(next).await.is_ok() {
                this.said.fetch_add(next.len(), Ordering::Relaxed);
                next = this.again;
                // Without an end there is none to wait for.
                if next.is_empty() {
                    return;
                }
            }
        });
        Ok(Box::new(ours))
    }
}

const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nMesos-Stream-Id: s\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn endless_answers_are_cut_off() {
    let endless_line: &'static [u8] = Box::leak([STREAM, b"400\r\n"].concat().into_boxed_slice());
    let garbage: &'static [u8] = Box::leak([STREAM, b"zzz\r\n"].concat().into_boxed_slice());
    for (what, head, again, hint) in [
        (
            "a head",
            &b"HTTP/1.1 200 OK\r\n"[..],
            &b"X-More: 1234567890\r\n"[..],
            "the connection broke",
        ),
        (
            "a status line",
            b"HTTP/1.1 200 ",
            b"OOOOOOOOOOOOOOOOOOOO",
            "the connection broke",
        ),
        (
            "another protocol",
            b"SSH-2.0-OpenSSH\r\n",
            b"",
            "the connection broke",
        ),
        ("no chunk", garbage, b"", "the event stream broke"),
        (
            "a length line",
            endless_line,
            b"1111111111111111",
            "expected a record's length",
        ),
        (
            "the text of a refusal",
            b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10\r\naaaaaaaaaaaaaaaa\r\n",
            "500",
        ),
    ] {
        let master = Endless {
            head,
            again,
            said: Arc::default(),
        };
        let (calls, called) = mpsc::channel(10);
        let (told, events) = mpsc::channel(10);
        crate::spawn_over(Arc::new(master.clone()), config("m:5050"), called, told);
        let mut shard = Shard { calls, events };
        shard.subscribe().await;
        let why = shard.hear_disconnected().await;
        assert!(why.contains(hint), "{what}: {why}");
        assert!(why.len() < 20_000, "{what}: {} bytes of reason", why.len());
        // The reader's buffers and the pipe between; an endless answer would be far beyond.
        let taken = master.said.load(Ordering::Relaxed);
        assert!(taken < 2_000_000, "{what}: {taken} bytes were taken");
    }
}

#[tokio::test(start_paused = true)]
async fn offers_that_nobody_takes_in_are_bounded_by_their_number() {
    let net = Net::with(&["m:5050"]);
    let offers = |n: usize| {
        let offers = event::Offers {
            offers: vec![echelon_proto::mesos::v1::Offer::default(); n],
        };
        let wire = Wire {
            r#type: Some(event::Type::Offers.into()),
            offers: Some(offers),
            ..Wire::default()
        };
        Bytes::from(framed(&wire))
    };
    let stream = net.stream("m:5050", subscribed());
    let limits = Limits {
        events: 100,
        ..Limits::usual()
    };
    let mut shard = Shard::with_room(
        &net,
        Config {
            limits,
            ..config("m")
        },
        1,
    );
    shard.subscribe().await;
    shard.hear_subscribed().await;
    // One event may be as large as the cluster: it is not dropped for its own size.
    stream.send(offers(500)).unwrap();
    assert!(matches!(shard.hear().await, Event::Offers(all) if all.len() == 500));
    for _ in 0..4 {
        stream.send(offers(60)).unwrap();
    }
    stream.closed().await;
    let mut heard = 0;
    let why = loop {
        match shard.hear().await {
            Event::Offers(_) => heard += 1,
            Event::Disconnected { why } => break why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why.contains("more than 100 events wait"), "{why}");
    assert!((2..=4).contains(&heard), "{heard}");
}

/// A drop of bytes now and then is no sign of life, and neither is an event of an unknown kind that never ends.
#[tokio::test(start_paused = true)]
async fn a_trickle_is_silence() {
    let net = Net::with(&["m:5050"]);
    let stream = net.stream(
        "m:5050",
        [subscribed(), heartbeat(), b"1000000\n".to_vec()].concat(),
    );
    let mut shard = Shard::over(&net, config("m"));
    shard.subscribe().await;
    shard.hear_subscribed().await;
    assert_eq!(shard.hear().await, Event::Heartbeat);
    let trickle = tokio::spawn(async move {
        while stream.send(Bytes::from_static(b"\0")).is_ok() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    });
    let why = shard.hear_disconnected().await;
    assert!(why.starts_with("no event and no heartbeat for 75s"), "{why}");
    trickle.await.unwrap();
}
