//! Pages for people: rendered here, escaped, read-only, kept up to date by server-sent events. No asset comes from anywhere
//! else, and the policy sent with each page lets nothing else run.

mod changes;
mod clusters;
mod instance;
mod job;
mod jobs;
mod layout;
mod live;
mod part;
mod pools;

use crate::context::Gateway;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use echelon_core_gateway::{ApiError, Code};
use http::{HeaderValue, StatusCode, header};
use layout::Page;
use maud::html;
use std::collections::BTreeMap;

/// What a query string says.
type Fields = BTreeMap<String, String>;

/// Only our own style, script and events; no frames, no forms elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// All pages.
pub(crate) fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/", get(|state, query| show(state, Path(String::new()), query)))
        .route("/assets/style.css", get(style))
        .route("/assets/live.js", get(script))
        .route(
            "/live/",
            get(|state, query| live::serve(state, Path(String::new()), query)),
        )
        .route("/live/{*path}", get(live::serve))
        .route("/http_sd/jobs/{job}", get(crate::http_sd::serve))
        .route("/{*path}", get(show))
        .with_state(gateway)
}

async fn show(
    State(gateway): State<Gateway>,
    Path(path): Path<String>,
    Query(fields): Query<Fields>,
) -> Response {
    let (status, page) = render(&gateway, &path, &fields).await;
    let whole = layout::whole(&page, &path, &gateway.config.version);
    let mut answer = (status, axum::response::Html(whole.into_string())).into_response();
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// The page at a path, or what is wrong with it, below what every page says.
async fn render(gateway: &Gateway, path: &str, fields: &Fields) -> (StatusCode, Page) {
    let (status, mut page) = match gateway.in_hand(page(gateway, path, fields)).await {
        Ok(page) => (StatusCode::OK, page),
        Err(error) => problem(&error),
    };
    page.live = html! { (gateway.switches.banner()) (gateway.leaders.banner()) (page.live) };
    (status, page)
}

async fn page(gateway: &Gateway, path: &str, fields: &Fields) -> Result<Page, ApiError> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        [""] | ["clusters"] => clusters::all(gateway, fields).await,
        ["clusters", cluster] => clusters::one(gateway, cluster, fields).await,
        ["pools"] => pools::all(gateway, fields).await,
        ["jobs"] => jobs::all(gateway, fields).await,
        ["jobs", job] => job::one(gateway, job, fields).await,
        ["jobs", job, group, number] => instance::one(gateway, (job, group, number)).await,
        _ => Err(ApiError::new(
            echelon_core_gateway::ErrorReason::JobNotFound,
            "there is no such page; begin at Clusters, Pools or Jobs",
        )),
    }
}

fn problem(error: &ApiError) -> (StatusCode, Page) {
    let status = match error.code() {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let page = Page {
        title: "Not shown".to_owned(),
        command: None,
        head: html! {},
        live: html! { p.bad role="alert" { (error) } },
    };
    (status, page)
}

async fn style() -> impl IntoResponse {
    asset("text/css; charset=utf-8", include_str!("../../assets/style.css"))
}

async fn script() -> impl IntoResponse {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("../../assets/live.js"),
    )
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    (
        [
            (header::CONTENT_TYPE, kind),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CACHE_CONTROL, "no-cache"),
        ],
        text,
    )
}
