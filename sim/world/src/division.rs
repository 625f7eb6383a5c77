//! Which clusters may have one more instance of a job by its rules of division. What runs decides that, and
//! not what the resource manager makes of it.

use crate::world::World;
use echelon_core_model::cluster_choice::ClusterChoice;
use echelon_core_model::{JobId, MemberId, TaskId};
use std::collections::BTreeSet;

/// How a job's rules of division bound what each cluster gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DivisionBounds {
    /// Live instances at each cluster.
    used: Vec<u64>,
    /// Most that one cluster may have.
    most: u64,
    /// All that is missing is for clusters that have nothing yet: the job would be at too few otherwise.
    is_for_new_clusters: bool,
}

impl DivisionBounds {
    /// Of a group that is to have so many instances, and has so many of them live at each cluster.
    pub(crate) fn of(choice: &ClusterChoice, wanted: u64, used: Vec<u64>) -> Self {
        let clusters = used.iter().filter(|n| **n > 0).count();
        let clusters = u64::try_from(clusters).unwrap_or(u64::MAX);
        let live: u64 = used.iter().sum();
        let missing = choice.least_clusters(wanted).saturating_sub(clusters);
        Self {
            most: choice.most_on_one(wanted),
            is_for_new_clusters: wanted.saturating_sub(live) <= missing,
            used,
        }
    }

    /// Whether a cluster may have one more.
    pub(crate) fn takes(&self, cluster: usize) -> bool {
        let has = self.used.get(cluster).copied().unwrap_or_default();
        has < self.most && (has == 0 || !self.is_for_new_clusters)
    }
}

impl World {
    /// Instances of a job that live at each cluster.
    pub(crate) fn live_by_cluster(&self, job: JobId) -> Vec<u64> {
        let clusters = self.clusters.iter();
        let counts = clusters.map(|cluster| {
            let tasks = cluster.mesos.live_tasks();
            let runs = tasks.filter_map(|(_, task)| task.as_str().parse::<MemberId>().ok());
            let runs = runs
                .map(|member| member.run)
                .filter(|run| run.instance.job == job);
            let runs: BTreeSet<TaskId> = runs.collect();
            u64::try_from(runs.len()).unwrap_or(u64::MAX)
        });
        counts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taking(choice: &ClusterChoice, wanted: u64, used: [u64; 3]) -> Vec<usize> {
        let bounds = DivisionBounds::of(choice, wanted, used.to_vec());
        (0..3).filter(|cluster| bounds.takes(*cluster)).collect()
    }

    #[test]
    fn the_last_instance_of_a_job_that_is_to_be_at_two_clusters_is_for_a_second_one() {
        let choice = ClusterChoice {
            min_clusters: 2,
            ..ClusterChoice::default()
        };
        assert_eq!(taking(&choice, 4, [0, 3, 0]), [0, 2]);
        assert_eq!(taking(&choice, 4, [0, 2, 0]), [0, 1, 2]);
        assert_eq!(taking(&choice, 4, [1, 2, 0]), [0, 1, 2]);
    }

    #[test]
    fn no_cluster_takes_more_than_its_share() {
        let choice = ClusterChoice {
            max_share: 60,
            ..ClusterChoice::default()
        };
        assert_eq!(taking(&choice, 5, [3, 1, 0]), [1, 2]);
        assert_eq!(taking(&ClusterChoice::default(), 5, [3, 1, 0]), [0, 1, 2]);
    }
}
