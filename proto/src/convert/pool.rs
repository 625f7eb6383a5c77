//! Pools to the public wire.

use super::quantity::{limit, resources};
use crate::echelon::v1;
use echelon_core_model::pool::Pool;

/// To the wire.
#[must_use]
pub fn pool(p: &Pool) -> v1::Pool {
    v1::Pool {
        name: format!("pools{}", p.path),
        path: p.path.clone(),
        pool_id: p.id.to_string(),
        reservation: Some(resources(&p.reservation)),
        limit: Some(limit(&p.limit)),
        share: Some(resources(&p.share)),
        etag: p.version.to_string(),
    }
}
