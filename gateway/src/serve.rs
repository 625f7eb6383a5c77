//! One port for everything: looks at each request once, refuses what is foreign, and hands it to gRPC, JSON, the admin
//! paths or the pages.

use crate::access;
use crate::config::Config;
use crate::context::{Gateway, Inner};
use crate::error::status;
use crate::facts::StoreFacts;
use crate::grpc::{self, ReflectionError};
use crate::guard::{Refusal, check_origin};
use crate::json::{self, Json};
use crate::links::Links;
use crate::pages;
use crate::switches::{self, Switches};
use crate::telemetry::Telemetry;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use echelon_core_gateway::ApiError;
use echelon_core_gateway::access::check_method;
use echelon_core_gateway::pools::ensure_first_pool;
use echelon_io_membership::{Member, Membership, Role};
use echelon_io_process::health::Condition;
use echelon_io_process::http::Admin;
use echelon_io_process::metrics::{MetricError, Metrics};
use echelon_io_process::{Clock, Shutdown};
use echelon_io_storage::Store;
use http::header;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tower::ServiceExt;

/// How often storage is looked at for `/readyz`.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Why the gateway cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: is the port taken by another process?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A mistake in the program, found at its start.
    #[error("cannot register the gateway's metrics")]
    Metrics(#[from] MetricError),
    /// A mistake in the build.
    #[error("cannot describe the services")]
    Reflection(#[from] ReflectionError),
    /// The JSON routes and the services do not fit: a mistake in the build.
    #[error("cannot serve JSON: {0}")]
    Json(String),
}

/// A gateway that serves until its shutdown begins.
#[derive(Debug, Clone)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its metrics, to be shown by whoever has another admin port.
    pub metrics: Metrics,
}

#[derive(Clone)]
struct App {
    gateway: Gateway,
    grpc: Router,
    json: Arc<Json>,
    pages: Router,
    admin: Arc<Admin>,
}

/// Serves until `shutdown` begins; the answers under way then end within its grace. `admin` tells the metrics and conditions
/// of this process; its last set of metrics is taken as the gateway's own.
///
/// # Errors
/// When the address cannot be listened on, or the build is broken.
pub async fn serve(
    config: Config,
    store: Arc<dyn Store>,
    membership: Arc<dyn Membership>,
    shutdown: Shutdown,
    mut admin: Admin,
) -> Result<Running, ServeError> {
    let failed = |source| ServeError::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // The caller's last set is the gateway's own, shared with its storage: two sets with one label would be told twice.
    let metrics = match admin.metrics.last() {
        Some(own) => own.clone(),
        None => Metrics::new(&[("role", "gateway")], &config.version, "unknown")?,
    };
    if admin.metrics.is_empty() {
        admin.metrics.push(metrics.clone());
    }
    let telemetry = Telemetry::new(&metrics)?;
    let storage = admin
        .readiness
        .condition("storage", "storage has not answered yet");
    let gateway = Gateway::new(Inner {
        facts: StoreFacts(store),
        clock: Clock::new(),
        links: Links::new(Arc::clone(&membership), telemetry.clone(), shutdown.token()),
        switches: Switches::new(telemetry.kills_off.clone()),
        telemetry,
        stop: shutdown.token(),
        config,
    });
    let grpc = grpc::routes(&gateway).await?.into_axum_router();
    let grpc = grpc.layer(axum::middleware::from_fn(access::limit));
    let app = App {
        json: Arc::new(Json::new(grpc.clone()).map_err(ServeError::Json)?),
        pages: pages::router(gateway.clone()),
        grpc,
        admin: Arc::new(admin),
        gateway: gateway.clone(),
    };
    shutdown.spawn(watch_storage(gateway.clone(), storage));
    shutdown.spawn(switches::keep(gateway.clone()));
    shutdown.spawn(register(gateway, membership, address));
    shutdown.spawn(listen(listener, app, shutdown.token()));
    Ok(Running { address, metrics })
}

async fn listen(listener: TcpListener, app: App, stop: tokio_util::sync::CancellationToken) {
    // Without it every fourth gRPC call waits 40 ms for the peer's delayed acknowledgement.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new().fallback(dispatch).with_state(app);
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    if let Err(error) = serving.await {
        tracing::error!(%error, "the gateway's port failed");
    }
}

async fn dispatch(State(app): State<App>, request: Request) -> Response {
    let gateway = app.gateway.clone();
    let mut answer = answered(app, request).await;
    gateway.switches.mark(&mut answer);
    answer
}

async fn answered(app: App, mut request: Request) -> Response {
    let authority = request.uri().authority().map(|a| a.as_str().to_owned());
    let allowed = &app.gateway.config.allowed_hosts;
    let checked = check_origin(
        request.version(),
        authority.as_deref(),
        request.headers(),
        allowed,
    );
    if let Err(refusal) = checked {
        return refused(&app, &refusal);
    }
    let driver = match access::driver(&app.gateway, request.headers()).await {
        Ok(driver) => driver,
        Err(wrong) => return unknown_caller(&request, &wrong),
    };
    if let Some(driver) = driver {
        request.extensions_mut().insert(driver);
    }
    let is_grpc = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return infallible(app.grpc.oneshot(request).await);
    }
    let is_json = request.uri().path().starts_with("/v1/") || request.uri().path() == "/v1";
    if driver.is_some() && !is_json {
        let denied = check_method("the pages and paths of operators").err();
        return denied.map_or_else(
            || Body::empty().into_response(),
            |d| json::error::problem(&status(&d)),
        );
    }
    if let Some(answer) = app.admin.answer(request.method(), request.uri().path()) {
        return answer.map(Body::from);
    }
    if is_json {
        return match app.json.answer(request).await {
            Ok(answer) => answer,
            Err(refusal) => refused(&app, &refusal),
        };
    }
    infallible(app.pages.oneshot(request).await)
}

/// Whoever shows a wrong token is told so in the way that was asked.
fn unknown_caller(request: &Request, wrong: &ApiError) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        status(wrong).into_http()
    } else {
        json::error::problem(&status(wrong))
    }
}

fn infallible(answer: Result<Response, std::convert::Infallible>) -> Response {
    answer.unwrap_or_else(|never| match never {})
}

fn refused(app: &App, refusal: &Refusal) -> Response {
    app.gateway.telemetry.refused(refusal.reason);
    json::error::refusal(refusal).into_response()
}

/// Keeps the condition `storage`, and gives a new storage its first pool.
async fn watch_storage(gateway: Gateway, storage: Condition) {
    loop {
        match ensure_first_pool(&gateway.facts, Gateway::chance()).await {
            Ok(()) => storage.ready(),
            Err(error) => storage.not_ready(&format!(
                "{error} ({})",
                error.inner.as_deref().unwrap_or_default()
            )),
        }
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = gateway.stop.cancelled() => return,
        }
    }
}

/// Makes this gateway findable until the end.
async fn register(gateway: Gateway, membership: Arc<dyn Membership>, address: SocketAddr) {
    let member = Member {
        id: uuid::Uuid::new_v4().to_string(),
        address: gateway
            .config
            .advertise
            .clone()
            .unwrap_or_else(|| format!("http://{address}")),
    };
    loop {
        match membership.register(Role::Gateway, member.clone()).await {
            Ok(registration) => {
                gateway.stop.cancelled().await;
                drop(registration);
                return;
            }
            Err(error) => tracing::warn!(%error, "this gateway cannot be registered; it serves on"),
        }
        tokio::select! {
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
            () = gateway.stop.cancelled() => return,
        }
    }
}
