//! Server-sent events: the changing part of a page, whenever it differs from what was sent.

use super::{Fields, render};
use crate::context::Gateway;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// How often a page is rendered for those who look at it.
const INTERVAL: Duration = Duration::from_secs(1);

type Sent = Result<Event, Infallible>;

pub(super) async fn serve(
    State(gateway): State<Gateway>,
    Path(path): Path<String>,
    Query(fields): Query<Fields>,
) -> Sse<impl Stream<Item = Sent>> {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(run(gateway, path, fields, send));
    Sse::new(ReceiverStream::new(receive)).keep_alive(KeepAlive::default())
}

async fn run(gateway: Gateway, path: String, fields: Fields, send: mpsc::Sender<Sent>) {
    gateway.telemetry.streams.inc();
    let mut sent = None;
    loop {
        let (_, page) = render(&gateway, &path, &fields).await;
        let text = page.live.into_string();
        if sent.as_ref() != Some(&text) {
            // A carriage return would end a line of the event.
            let data = text.replace('\r', "&#13;");
            if send.send(Ok(Event::default().data(data))).await.is_err() {
                break;
            }
            sent = Some(text);
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = send.closed() => break,
            () = gateway.stop.cancelled() => break,
        }
    }
    gateway.telemetry.streams.dec();
}
