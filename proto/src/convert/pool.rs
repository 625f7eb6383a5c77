//! Pools to the public wire.

use super::quantity::{limit, read_limit, read_resources, resources};
use super::spec::{read_silence, silence};
use crate::convert::Problems;
use crate::echelon::v1;
use echelon_core_model::PoolId;
use echelon_core_model::pool::{Pool, PoolKind, PreemptWithin, PriorityBounds};

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
        kind: kind(p.kind).into(),
        max_instance: Some(limit(&p.max_instance)),
        priority: (p.priority != PriorityBounds::ANY).then(|| bounds(&p.priority)),
        deleting: p.deleting,
        controller_limit: Some(limit(&p.controller_limit)),
        revocable_limit: Some(limit(&p.revocable_limit)),
        fair_users: p.fair_users,
        preempt_within: preempt_within(p.preempt_within).into(),
        on_cluster_loss: p.on_cluster_loss.map(silence),
        max_jobs: (p.max_jobs < u64::MAX).then_some(p.max_jobs),
        max_instances: (p.max_instances < u64::MAX).then_some(p.max_instances),
    }
}

fn bounds(b: &PriorityBounds) -> v1::PriorityBounds {
    v1::PriorityBounds {
        min: (b.min > 0).then_some(b.min),
        max: (b.max < u32::MAX).then_some(b.max),
        default: b.default,
    }
}

/// Bounds of priority from the public wire: what is not said is no bound.
#[must_use]
pub fn read_bounds(b: Option<v1::PriorityBounds>) -> PriorityBounds {
    b.map_or(PriorityBounds::ANY, |b| PriorityBounds {
        min: b.min.unwrap_or_default(),
        max: b.max.unwrap_or(u32::MAX),
        default: b.default,
    })
}

/// A pool of the model from the public wire: what is not said is as for a new pool.
pub fn read_pool(p: &v1::Pool, path: &str, problems: &mut Problems) -> Pool {
    let new = Pool::new(PoolId::new(&p.pool_id), &p.path);
    Pool {
        reservation: read_resources(p.reservation),
        limit: read_limit(p.limit),
        share: p.share.map_or(new.share, |share| read_resources(Some(share))),
        kind: read_kind(p.kind, &format!("{path}.kind"), problems),
        max_instance: read_limit(p.max_instance),
        priority: read_bounds(p.priority),
        controller_limit: read_limit(p.controller_limit),
        revocable_limit: read_limit(p.revocable_limit),
        fair_users: p.fair_users,
        preempt_within: read_preempt_within(p.preempt_within, &format!("{path}.preempt_within"), problems),
        on_cluster_loss: read_silence(p.on_cluster_loss, &format!("{path}.on_cluster_loss"), problems),
        max_jobs: p.max_jobs.unwrap_or(u64::MAX),
        max_instances: p.max_instances.unwrap_or(u64::MAX),
        ..new
    }
}

/// To the wire.
#[must_use]
pub const fn kind(kind: PoolKind) -> v1::PoolKind {
    match kind {
        PoolKind::Elastic => v1::PoolKind::Elastic,
        PoolKind::Static => v1::PoolKind::Static,
    }
}

/// From the wire; what is not said is elastic.
pub fn read_kind(number: i32, path: &str, problems: &mut Problems) -> PoolKind {
    match v1::PoolKind::try_from(number) {
        Ok(v1::PoolKind::Unspecified | v1::PoolKind::Elastic) => PoolKind::Elastic,
        Ok(v1::PoolKind::Static) => PoolKind::Static,
        Err(_) => {
            problems.add(path, format!("{number} is no kind of pool"));
            PoolKind::Elastic
        }
    }
}

/// To the wire.
#[must_use]
pub const fn preempt_within(within: PreemptWithin) -> v1::PreemptWithin {
    match within {
        PreemptWithin::Auto => v1::PreemptWithin::Unspecified,
        PreemptWithin::Never => v1::PreemptWithin::Never,
        PreemptWithin::LowerPriority => v1::PreemptWithin::LowerPriority,
    }
}

/// From the wire; what is not said is left to the pool above.
pub fn read_preempt_within(number: i32, path: &str, problems: &mut Problems) -> PreemptWithin {
    match v1::PreemptWithin::try_from(number) {
        Ok(v1::PreemptWithin::Unspecified) => PreemptWithin::Auto,
        Ok(v1::PreemptWithin::Never) => PreemptWithin::Never,
        Ok(v1::PreemptWithin::LowerPriority) => PreemptWithin::LowerPriority,
        Err(_) => {
            problems.add(path, format!("{number} is no value of preempt_within"));
            PreemptWithin::Auto
        }
    }
}
