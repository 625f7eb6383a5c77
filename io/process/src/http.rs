//! The port of a process that has no other: `/metrics`, `/healthz`, `/readyz`. A role with its own HTTP server (the
//! gateway) answers the same paths through [`Admin::answer`].
//!
//! It only reads, so it has no defence but those of every port ([`crate::listener`]), with 64 connections.

use crate::health::Readiness;
use crate::listener::{ConnectionLimits, ConnectionRefusals, GuardedPort, RequestBody};
use crate::metrics::{self, MetricError, Metrics};
use ::http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use bytes::Bytes;
use http_body_util::Full;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const MAX_CONNECTIONS: usize = 64;

/// What the admin paths show.
#[derive(Debug, Clone, Default)]
pub struct Admin {
    /// The sets of metrics of this process's roles.
    pub metrics: Vec<Metrics>,
    /// This process's conditions.
    pub readiness: Readiness,
}

/// Why the port cannot be served.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: is the port taken by another process?")]
    Address {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A mistake in the program: the metrics of this port are there already.
    #[error(transparent)]
    Metrics(#[from] MetricError),
}

impl Admin {
    /// The answer to a request, or nothing when the path is not an admin path.
    #[must_use]
    pub fn answer(&self, method: &Method, uri: &Uri) -> Option<Response<Bytes>> {
        let answer = match uri.path() {
            "/metrics" | "/healthz" | "/readyz" if !matches!(*method, Method::GET | Method::HEAD) => {
                let mut answer = text(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "text/plain",
                    "this path is only read: use GET\n",
                );
                answer
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
            "/metrics" => text(
                StatusCode::OK,
                metrics::CONTENT_TYPE,
                metrics::exposition(&self.metrics),
            ),
            "/healthz" => text(StatusCode::OK, "application/json", "{\"alive\":true}\n"),
            "/readyz" => self.ready(uri.query()),
            _ => return None,
        };
        Some(answer)
    }

    /// Whether the process is ready. With `cluster=NAME` the answer is about that cluster, too.
    fn ready(&self, query: Option<&str>) -> Response<Bytes> {
        let mut report = self.readiness.report();
        let fields = query.unwrap_or_default().as_bytes();
        let mut clusters = form_urlencoded::parse(fields).filter(|(key, _)| key == "cluster");
        if let Some((_, cluster)) = clusters.next() {
            report.require(&format!("cluster {cluster}"));
        }
        let status = if report.ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        match serde_json::to_string(&report) {
            Ok(json) => text(status, "application/json", json + "\n"),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string()),
        }
    }

    /// Listens on `address` and returns the address in use, and a future that serves until `stop`, then lets answers
    /// under way end.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn serve(
        self,
        address: SocketAddr,
        stop: CancellationToken,
    ) -> Result<(SocketAddr, impl Future<Output = ()> + Send), ListenError> {
        let failed = |source| ListenError::Address { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let name = "echelon_admin_connections_refused_total";
        let refusals = match self.metrics.first() {
            Some(metrics) => ConnectionRefusals::named(metrics, name)?,
            None => ConnectionRefusals::unmeasured(),
        };
        let port = GuardedPort {
            listener,
            limits: ConnectionLimits {
                connections: MAX_CONNECTIONS,
                ..ConnectionLimits::of_process()
            },
            refusals,
        };
        let admin = Arc::new(self);
        let answer = tower::service_fn(move |request: ::http::Request<RequestBody>| {
            let answer = answered(&admin, request.method(), request.uri());
            async { Ok(answer) }
        });
        Ok((local, port.serve(answer, stop)))
    }
}

fn answered(admin: &Admin, method: &Method, uri: &Uri) -> Response<Full<Bytes>> {
    let answer = admin.answer(method, uri).unwrap_or_else(|| {
        text(
            StatusCode::NOT_FOUND,
            "text/plain",
            "here are /metrics, /healthz and /readyz\n",
        )
    });
    answer.map(Full::new)
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut answer = Response::new(body.into());
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("{request} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn the_admin_port_answers_its_paths_until_it_is_stopped() {
        let admin = Admin {
            metrics: vec![Metrics::new(&[("role", "t")], "1", "2").unwrap()],
            ..Admin::default()
        };
        let storage = admin.readiness.condition("storage", "connecting");
        let stop = CancellationToken::new();
        let (address, serving) = admin
            .serve((Ipv4Addr::LOCALHOST, 0).into(), stop.clone())
            .await
            .unwrap();
        let serving = tokio::spawn(serving);

        let not_yet = ask(address, "GET /readyz").await;
        assert!(
            not_yet.starts_with("HTTP/1.1 503") && not_yet.contains(r#""reason":"connecting""#),
            "{not_yet}"
        );
        storage.ready();
        let table = [
            ("GET /readyz", "200", r#"{"ready":true"#),
            ("GET /healthz", "200", r#"{"alive":true}"#),
            ("GET /metrics", "200", "echelon_build_info"),
            ("HEAD /metrics", "200", "content-type: text/plain; version=0.0.4"),
            ("POST /metrics", "405", "allow: GET, HEAD"),
            ("GET /", "404", "/healthz"),
            ("GET /metrics/../x", "404", ""),
        ];
        for (request, status, holds) in table {
            let answer = ask(address, request).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(holds),
                "{request}: {answer}"
            );
        }

        stop.cancel();
        serving.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_silent_connection_does_not_hold_up_the_end() {
        let stop = CancellationToken::new();
        let (address, serving) = Admin::default()
            .serve((Ipv4Addr::LOCALHOST, 0).into(), stop.clone())
            .await
            .unwrap();
        let serving = tokio::spawn(serving);
        let _silent = TcpStream::connect(address).await.unwrap();
        assert!(ask(address, "GET /healthz").await.contains("200"));
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = taken.local_addr().unwrap();
        let refused = Admin::default()
            .serve(address, CancellationToken::new())
            .await
            .err()
            .unwrap();
        assert!(refused.to_string().contains(&address.to_string()));
    }
}
