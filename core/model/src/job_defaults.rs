//! What a pool decides for its jobs where they say nothing. It is resolved when a job is submitted or changed.
//! The stored spec says it from then on: a pool that changes later changes no job.

use crate::pool::PoolTree;
use crate::spec::{JobKind, JobSpec, OnSilence, defaults};

/// What jobs of a pool get in place of fields that they leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobDefaults {
    /// Their priority.
    pub priority: u32,
    /// What the nearest pool says of silent clusters; `None`: no pool says anything.
    pub on_cluster_loss: Option<OnSilence>,
}

impl JobDefaults {
    /// What becomes of instances of a job of this kind at a silent cluster. Data of a stateful job is only there, and a daemon
    /// belongs to its hosts: for these no pool decides.
    #[must_use]
    pub fn on_loss_of(&self, kind: JobKind) -> OnSilence {
        let of_kind = defaults::on_cluster_loss(kind);
        match kind {
            JobKind::Batch | JobKind::Service => self.on_cluster_loss.unwrap_or(of_kind),
            JobKind::Stateful | JobKind::Daemon => of_kind,
        }
    }
}

/// The fields of a requested spec for which pools have defaults, as far as the request names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedFields {
    /// The priority.
    pub priority: Option<u32>,
    /// What becomes of instances at a silent cluster.
    pub on_cluster_loss: Option<OnSilence>,
}

impl NamedFields {
    /// Those of a spec that is complete already.
    #[must_use]
    pub const fn all_of(spec: &JobSpec) -> Self {
        Self {
            priority: Some(spec.priority),
            on_cluster_loss: Some(spec.on_cluster_loss),
        }
    }

    /// Puts the defaults of the spec's pool in place of the fields that are not named.
    pub fn complete(&self, spec: &mut JobSpec, pools: &PoolTree) {
        let defaults = pools.job_defaults(&spec.pool);
        spec.priority = self.priority.unwrap_or(defaults.priority);
        let on_loss = self.on_cluster_loss;
        spec.on_cluster_loss = on_loss.unwrap_or_else(|| defaults.on_loss_of(spec.kind));
    }
}

impl PoolTree {
    /// What jobs of a pool get in place of fields that they leave out: of each field what the nearest pool says.
    #[must_use]
    pub fn job_defaults(&self, path: &str) -> JobDefaults {
        JobDefaults {
            priority: self.priority_of(path).usual(),
            on_cluster_loss: self.lineage(path).find_map(|pool| pool.on_cluster_loss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PoolId;
    use crate::pool::Pool;
    use crate::time::Span;

    fn tree(pools: &[(&str, Option<OnSilence>)]) -> PoolTree {
        let pools = pools.iter().map(|(path, on_cluster_loss)| {
            let pool = Pool {
                on_cluster_loss: *on_cluster_loss,
                ..Pool::new(PoolId::new(*path), *path)
            };
            ((*path).to_owned(), pool)
        });
        PoolTree {
            pools: pools.collect(),
            ..PoolTree::default()
        }
    }

    #[test]
    fn the_nearest_pool_decides_for_batch_and_service_alone() {
        let (hour, day) = (
            OnSilence::Replace(Span::minutes(60)),
            OnSilence::Replace(Span::minutes(24 * 60)),
        );
        let tree = tree(&[
            ("/a", Some(hour)),
            ("/a/b", None),
            ("/a/c", Some(OnSilence::Wait)),
            ("/a/c/d", Some(day)),
            ("/e", None),
        ]);
        let of = |path: &str, kind: JobKind| tree.job_defaults(path).on_loss_of(kind);
        for kind in [JobKind::Batch, JobKind::Service] {
            let all = ["/a", "/a/b", "/a/c", "/a/c/d", "/e"].map(|path| of(path, kind));
            assert_eq!(
                all,
                [hour, hour, OnSilence::Wait, day, defaults::CLUSTER_LOSS],
                "{kind}"
            );
        }
        for kind in [JobKind::Stateful, JobKind::Daemon] {
            assert_eq!(of("/a", kind), OnSilence::Wait, "{kind}");
        }
    }

    #[test]
    fn what_a_request_names_is_kept() {
        let tree = tree(&[("/default", Some(OnSilence::Wait))]);
        let named = OnSilence::Replace(Span::minutes(3));
        let mut spec = JobSpec {
            on_cluster_loss: named,
            priority: 7,
            ..JobSpec::new("web", JobKind::Service)
        };
        NamedFields::all_of(&spec).complete(&mut spec, &tree);
        assert_eq!((spec.priority, spec.on_cluster_loss), (7, named));
        NamedFields::default().complete(&mut spec, &tree);
        assert_eq!((spec.priority, spec.on_cluster_loss), (0, OnSilence::Wait));
    }
}
