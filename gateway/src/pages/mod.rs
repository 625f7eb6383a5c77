//! Pages for people.
use crate::context::Gateway;
use axum::Router;

pub(crate) fn router(gateway: Gateway) -> Router {
    Router::new().with_state(gateway)
}
