//! One port for everything: looks at each request once, refuses what is foreign, and hands it to gRPC, JSON, the admin
//! paths or the pages.

use crate::access;
use crate::changes;
use crate::cluster_health::{self, ClusterMetrics};
use crate::config::Config;
use crate::context::{Gateway, Inner};
use crate::deadline;
use crate::error::status;
use crate::facts::StoreFacts;
use crate::feeds::Feeds;
use crate::grpc::{self, ReflectionError};
use crate::guard::{Refusal, check_origin};
use crate::health;
use crate::json::{self, Json};
use crate::leaders::{self, Leaders};
use crate::links::Links;
use crate::pages;
use crate::switches::{self, Switches};
use crate::telemetry::Telemetry;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use echelon_core_gateway::ApiError;
use echelon_core_gateway::access::check_method;
use echelon_core_gateway::pools::ensure_first_pool;
use echelon_io_membership::{Member, Membership, Role};
use echelon_io_process::health::Condition;
use echelon_io_process::http::Admin;
use echelon_io_process::listener::{ConnectionRefusals, GuardedPort};
use echelon_io_process::metrics::{MetricError, Metrics};
use echelon_io_process::{Clock, ContactWatch, Contacts, Shutdown};
use echelon_io_storage::Store;
use http::header;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How often the first pool is tried again.
const POOL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a registration is tried again.
const REGISTER_INTERVAL: Duration = Duration::from_secs(5);

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

/// Serves until `shutdown` begins, and as long after that as the configuration says; the answers under way then end within
/// the rest of its grace. `admin` tells the metrics and conditions
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
    let port = GuardedPort {
        listener,
        limits: config.connections,
        refusals: ConnectionRefusals::new(&metrics)?,
    };
    let of_clusters = ClusterMetrics::new(&metrics)?;
    let readiness = admin.readiness.clone();
    let storage = readiness.condition("storage", "storage has not answered yet");
    let storage = ContactWatch::of_storage(storage, &metrics)?;
    // Without it this gateway still answers from storage.
    let meets = readiness.notice("membership", "the membership servers have not answered yet");
    let meets = ContactWatch::of_membership(meets, &metrics)?;
    let first_pool = readiness.condition("first-pool", "storage has no pool yet");
    let serving = readiness.condition("serving", "the port is about to be served");
    // The end has two steps: `shutdown` says that it comes, `closing` that the port closes.
    let closing = CancellationToken::new();
    let clock = Clock::new();
    let contacts = Contacts {
        membership: meets.contact(),
        storage: storage.contact(),
    };
    let advertised = config.advertise.clone();
    let links = Links::new(Arc::clone(&membership), telemetry.clone(), closing.clone());
    let gateway = Gateway::new(Inner {
        facts: StoreFacts {
            store: Arc::clone(&store),
            links: links.clone(),
            clock: clock.clone(),
            sightings: Arc::default(),
        },
        clock: clock.clone(),
        links,
        switches: Switches::new(telemetry.kills_off.clone()),
        leaders: Leaders::new(telemetry.leader_absent.clone()),
        feeds: Feeds::new(),
        contacts,
        address: advertised.unwrap_or_else(|| format!("http://{address}")),
        telemetry,
        stop: closing.clone(),
        room: Semaphore::new(config.most_requests),
        config,
    });
    let (routes, health) = grpc::routes(&gateway)?;
    let grpc = routes.into_axum_router();
    let grpc = grpc.layer(axum::middleware::from_fn(access::limit));
    let app = App {
        json: Arc::new(Json::new(grpc.clone()).map_err(ServeError::Json)?),
        pages: pages::router(gateway.clone()),
        grpc,
        admin: Arc::new(admin),
        gateway: gateway.clone(),
    };
    serving.ready();
    shutdown.spawn(close(
        shutdown.token(),
        serving,
        gateway.config.drain,
        closing.clone(),
    ));
    shutdown.spawn(leaders::keep(gateway.clone(), readiness.clone()));
    shutdown.spawn(changes::keep(gateway.clone()));
    shutdown.spawn(cluster_health::keep(
        gateway.clone(),
        readiness.clone(),
        of_clusters,
    ));
    shutdown.spawn(health::follow(readiness, health, closing.clone()));
    let asked = Arc::clone(&membership);
    let meets = meets.keep(clock.clone(), move || {
        let membership = Arc::clone(&asked);
        async move { membership.answers().await }
    });
    shutdown.spawn(closing.clone().run_until_cancelled_owned(meets));
    let storage = storage.keep(clock, move || {
        let store = Arc::clone(&store);
        async move { store.answers().await }
    });
    shutdown.spawn(closing.clone().run_until_cancelled_owned(storage));
    shutdown.spawn(keep_first_pool(gateway.clone(), first_pool));
    shutdown.spawn(switches::keep(gateway.clone()));
    shutdown.spawn(register(gateway, membership, shutdown.token()));
    let router = Router::new().fallback(dispatch).with_state(app);
    shutdown.spawn(port.serve(router, closing));
    Ok(Running { address, metrics })
}

/// Closes in two steps: not ready at once, so that nothing new is sent here, and closing when that has got around.
async fn close(ending: CancellationToken, serving: Condition, drain: Duration, closing: CancellationToken) {
    ending.cancelled().await;
    serving.not_ready("this gateway ends; ask another one");
    tracing::info!(
        ?drain,
        "not ready any more; requests are served for a while, then connections close"
    );
    tokio::time::sleep(drain).await;
    closing.cancel();
}

async fn dispatch(State(app): State<App>, request: Request) -> Response {
    let gateway = app.gateway.clone();
    let headers = request.headers().clone();
    let time = gateway.config.request_time;
    let mut answer = deadline::within(&headers, time, answered(app, request)).await;
    gateway.switches.mark(&mut answer);
    gateway.leaders.mark(&mut answer);
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
    // Paths that need no room, such as readiness, answer without it.
    let driver = if request.headers().contains_key(header::AUTHORIZATION) {
        let driver = access::driver(&app.gateway, request.headers());
        app.gateway.in_hand(driver).await
    } else {
        Ok(None)
    };
    let driver = match driver {
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
    if let Some(answer) = app.admin.answer(request.method(), request.uri()) {
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

/// Gives a new storage its first pool.
async fn keep_first_pool(gateway: Gateway, first_pool: Condition) {
    loop {
        match ensure_first_pool(&gateway.facts, Gateway::chance()).await {
            Ok(()) => return first_pool.ready(),
            Err(error) => {
                let inner = error.inner.as_deref().map(|inner| format!(" ({inner})"));
                first_pool.not_ready(&format!("{error}{}", inner.unwrap_or_default()));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(POOL_INTERVAL) => {}
            () = gateway.stop.cancelled() => return,
        }
    }
}

/// Makes this gateway findable until the end comes.
async fn register(gateway: Gateway, membership: Arc<dyn Membership>, ending: CancellationToken) {
    let member = Member {
        id: uuid::Uuid::new_v4().to_string(),
        address: gateway.address.clone(),
    };
    loop {
        match membership.register(Role::Gateway, member.clone()).await {
            Ok(registration) => {
                ending.cancelled().await;
                drop(registration);
                return;
            }
            Err(error) => tracing::warn!(%error, "this gateway cannot be registered; it serves on"),
        }
        tokio::select! {
            () = tokio::time::sleep(REGISTER_INTERVAL) => {}
            () = ending.cancelled() => return,
        }
    }
}
