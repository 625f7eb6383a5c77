//! The warnings at submit for a job that no host can hold as things stand (law 11). Hosts may join, so the job is
//! accepted.

use crate::error::ApiError;
use crate::port::Facts;
use crate::view::Federation;
use echelon_core_model::class::{InstanceClass, fits_nowhere, warning};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::spec::JobSpec;

/// A warning for each group that fits on no host of the clusters that the job may use. The largest host decides that the
/// resource manager has stored of each cluster. While it is not known of one of them there is no warning.
///
/// # Errors
/// `StorageUnavailable` when storage did not answer.
pub async fn never_fits<F: Facts>(facts: &F, spec: &JobSpec) -> Result<Vec<String>, ApiError> {
    Ok(warnings(spec, &Federation::read(facts).await?))
}

fn warnings(spec: &JobSpec, federation: &Federation) -> Vec<String> {
    let clusters = federation.clusters.values();
    let chosen =
        clusters.filter(|c| c.desired_state != DesiredState::Removed && spec.clusters.allows(c.identity()));
    let chosen: Vec<_> = chosen.collect();
    let of_group = |class: InstanceClass| {
        let refusals = chosen.iter().map(|c| {
            let known = federation
                .states
                .get(&c.id)?
                .reported
                .as_ref()
                .filter(|r| r.hosts > 0)?;
            class.too_large(&c.name, known.largest_host)
        });
        fits_nowhere(&refusals.collect::<Option<Vec<_>>>()?)
    };
    let groups = spec.groups.iter();
    let warnings = groups.filter_map(|g| Some(warning(&g.name, &of_group(InstanceClass::of(spec, g)?)?)));
    warnings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::cluster::{Cluster, ClusterState, ReportedCapacity};
    use echelon_core_model::health::ClusterHealth;
    use echelon_core_model::sharing::Sharing;
    use echelon_core_model::{ClusterId, Resources};
    use echelon_core_testkit::build::{JobBuilder, shape};

    fn federation(clusters: &[(&str, u32, u64)]) -> Federation {
        let mut out = Federation::default();
        for (name, hosts, cores) in clusters {
            let id = ClusterId::new(*name);
            let cluster = Cluster::new(id.clone(), name);
            let state = ClusterState {
                cluster: id.clone(),
                health: ClusterHealth::default(),
                reported: Some(ReportedCapacity {
                    total: Resources::ZERO,
                    used: Resources::ZERO,
                    hosts: *hosts,
                    largest_host: shape(*cores, 1024),
                    sharing: Sharing::default(),
                }),
            };
            out.clusters.insert(id.clone(), cluster);
            out.states.insert(id, state);
        }
        out
    }

    #[test]
    fn a_shape_that_fits_nowhere_is_said_with_what_lacks_where() {
        let large = JobBuilder::batch("large", 1).shape(shape(1_000, 64)).build();
        let two = federation(&[("east", 3, 4), ("west", 3, 8)]);
        assert_eq!(
            warnings(&large, &two),
            [
                "group `main` fits on no host and waits until one can hold it: no cluster has room for it: cpus needs 1000, has at most 8 \
                 (east: the largest host has cpus 4, memory 1024MiB; west: the largest host has cpus 8, memory 1024MiB)"
            ]
        );
        let mut fits = large.clone();
        fits.groups[0].resources.cpus = 8_000;
        assert_eq!(warnings(&fits, &two), Vec::<String>::new());
        fits.clusters.only = vec!["east".to_owned()];
        assert_eq!(warnings(&fits, &two).len(), 1);
    }

    #[test]
    fn nothing_is_said_while_hosts_are_not_known() {
        let large = JobBuilder::batch("large", 1).shape(shape(1_000, 64)).build();
        for unknown in [
            federation(&[]),
            federation(&[("east", 0, 0)]),
            federation(&[("east", 3, 4), ("west", 0, 0)]),
        ] {
            assert_eq!(warnings(&large, &unknown), Vec::<String>::new());
        }
        let mut joining = federation(&[("east", 3, 4)]);
        joining.states.clear();
        assert_eq!(warnings(&large, &joining), Vec::<String>::new());
    }
}
