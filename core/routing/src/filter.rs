//! Which clusters a group may go to at all. Each filter that drops one says why, with numbers.

use crate::home::HomeKey;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::cluster_choice::{ClusterChoice, ClusterIdentity, allows_by_name};
use echelon_core_model::health::{ClusterHealth, NewWork};
use echelon_core_model::reason::Shortfall;
use echelon_core_model::{ClusterId, Reason, ReasonCode, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A cluster as routing sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// What operators want of it.
    pub desired_state: DesiredState,
    /// Whether it takes new work, as far as its health goes.
    pub new_work: NewWork,
    /// Its health.
    pub health: ClusterHealth,
    /// Hosts that it has.
    pub hosts: u32,
    /// Largest capacity of each kind on one host.
    pub largest_host: Resources,
    /// What nobody has spoken for.
    pub room: Resources,
    /// How much of it is allocated, in thousandths, in the kind that the group needs most of.
    pub load: u32,
    /// Whether it has hosts of the host pool that is asked for.
    pub has_host_pool: bool,
}

impl Candidate {
    /// By what a job selects it.
    #[must_use]
    pub fn identity(&self) -> ClusterIdentity<'_> {
        ClusterIdentity {
            id: &self.id,
            name: &self.name,
            labels: &self.labels,
        }
    }
}

/// What a group needs of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Where its job is at home.
    pub home: HomeKey,
    /// Which clusters the job may use, and how it is divided.
    pub choice: &'a ClusterChoice,
    /// Resources of one instance.
    pub shape: Resources,
    /// Instances of the whole group.
    pub instances: u64,
}

/// A cluster that was dropped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The cluster.
    pub id: ClusterId,
    /// Its name.
    pub name: String,
    /// Which filter.
    pub reason: Reason,
}

/// How readily a cluster that passes all filters is used: only those of the first class that has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tier {
    Usual,
    FailOver,
    /// It takes new work as a last resort.
    LastResort,
    LastFailOver,
}

impl Tier {
    fn of(demand: &Demand<'_>, cluster: &Candidate) -> Self {
        let is_fail_over = demand.choice.is_fail_over(cluster.identity());
        match (cluster.new_work, is_fail_over) {
            (NewWork::LastResort, false) => Self::LastResort,
            (NewWork::LastResort, true) => Self::LastFailOver,
            (_, false) => Self::Usual,
            (_, true) => Self::FailOver,
        }
    }

    fn reason(self, cluster: &Candidate) -> Reason {
        match self {
            Self::Usual | Self::FailOver => Reason::new(ReasonCode::ClusterFailOver),
            Self::LastResort | Self::LastFailOver => unhealthy(cluster),
        }
    }
}

/// Divides clusters into those that pass and those that were dropped, both in their order. A cluster that is
/// kept for fail-over, and one that takes new work only as a last resort, pass only if no other passes.
#[must_use]
pub fn filter<'a>(demand: &Demand<'_>, clusters: &'a [Candidate]) -> (Vec<&'a Candidate>, Vec<Dropped>) {
    let mut passed = Vec::new();
    let mut dropped = Vec::new();
    for cluster in clusters
        .iter()
        .filter(|c| c.desired_state != DesiredState::Removed)
    {
        match refusal(demand, cluster) {
            None => passed.push((Tier::of(demand, cluster), cluster)),
            Some(reason) => dropped.push(drop(cluster, reason)),
        }
    }
    let Some(first) = passed.iter().map(|(tier, _)| *tier).min() else {
        dropped.extend(named_and_removed(demand, clusters));
        return (Vec::new(), dropped);
    };
    let (used, others): (Vec<_>, Vec<_>) = passed.into_iter().partition(|(tier, _)| *tier == first);
    dropped.extend(others.into_iter().map(|(tier, c)| drop(c, tier.reason(c))));
    (used.into_iter().map(|(_, c)| c).collect(), dropped)
}

/// Clusters that a job names and that were removed. One whose name is used again is not among them.
fn named_and_removed<'a>(
    demand: &'a Demand<'_>,
    clusters: &'a [Candidate],
) -> impl Iterator<Item = Dropped> + 'a {
    let only = &demand.choice.only;
    let is_removed = |c: &Candidate| c.desired_state == DesiredState::Removed;
    let named = clusters
        .iter()
        .filter(move |c| is_removed(c) && !only.is_empty() && allows_by_name(only, c.identity()));
    let gone = named.filter(move |c| !clusters.iter().any(|o| o.name == c.name && !is_removed(o)));
    gone.map(|c| drop(c, Reason::new(ReasonCode::NoCluster).at("it was removed")))
}

fn drop(cluster: &Candidate, reason: Reason) -> Dropped {
    Dropped {
        id: cluster.id.clone(),
        name: cluster.name.clone(),
        reason,
    }
}

fn unhealthy(cluster: &Candidate) -> Reason {
    Reason::new(ReasonCode::ClusterUnhealthy).at(cluster.health.to_string())
}

fn refusal(demand: &Demand<'_>, cluster: &Candidate) -> Option<Reason> {
    let choice = demand.choice;
    if !allows_by_name(&choice.only, cluster.identity()) {
        return Some(Reason::new(ReasonCode::NoCluster).at("the job names other clusters"));
    }
    if !choice.allows(cluster.identity()) {
        return Some(Reason::new(ReasonCode::NoCluster).at("the job gives it no weight"));
    }
    if cluster.desired_state != DesiredState::Active {
        return Some(Reason::new(ReasonCode::ClusterCordoned).at(cluster.desired_state.word()));
    }
    if cluster.new_work == NewWork::Refused {
        return Some(unhealthy(cluster));
    }
    if !cluster.has_host_pool {
        return Some(Reason::new(ReasonCode::HostPool).at("no host is in its host pool"));
    }
    never_fits(demand.shape, cluster)
}

/// Law 11: what no host of a cluster can ever hold. A cluster whose hosts are not known yet drops nobody.
fn never_fits(shape: Resources, cluster: &Candidate) -> Option<Reason> {
    let kind = shape
        .first_lack(cluster.largest_host)
        .filter(|_| cluster.hosts > 0)?;
    Some(
        Reason::new(ReasonCode::NoClusterCapacity)
            .at("no host is large enough")
            .short(Shortfall {
                kind,
                have: cluster.largest_host.get(kind),
                need: shape.get(kind),
            }),
    )
}

/// Why a group that every cluster dropped waits: the reason nearest to success, with what each cluster said.
#[must_use]
pub fn nobody(dropped: &[Dropped]) -> Reason {
    let rank = |code| match code {
        ReasonCode::ClusterUnhealthy => 0,
        ReasonCode::ClusterCordoned => 1,
        ReasonCode::ClusterFailOver | ReasonCode::ClusterShare => 2,
        ReasonCode::NoClusterCapacity | ReasonCode::GangTooLarge => 3,
        ReasonCode::HostPool => 4,
        _ => 5,
    };
    let nearest = dropped
        .iter()
        .min_by_key(|d| (rank(d.reason.code), shortage(&d.reason)));
    let mut out = nearest.map_or_else(|| Reason::new(ReasonCode::NoCluster), |d| d.reason.clone());
    let said = dropped.iter().map(|d| match &d.reason.detail {
        Some(detail) => format!("{}: {detail}", d.name),
        None => format!("{}: {}", d.name, d.reason.code.sentence()),
    });
    let said: Vec<String> = said.collect();
    out.detail = Some(if said.is_empty() {
        "there is no cluster".into()
    } else {
        said.join("; ").into()
    });
    out
}

fn shortage(reason: &Reason) -> u64 {
    reason
        .shortfall
        .as_ref()
        .map_or(0, |s| s.need.saturating_sub(s.have))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use echelon_core_model::health::{Health, HealthCause};
    use echelon_core_testkit::build::shape;

    pub(crate) fn candidate(name: &str) -> Candidate {
        Candidate {
            id: ClusterId::new(format!("id-{name}")),
            name: name.to_owned(),
            labels: Arc::default(),
            desired_state: DesiredState::Active,
            new_work: NewWork::Taken,
            health: ClusterHealth::default(),
            hosts: 3,
            largest_host: shape(4, 4096),
            room: shape(12, 12288),
            load: 0,
            has_host_pool: true,
        }
    }

    pub(crate) fn demand(choice: &ClusterChoice, shape: Resources) -> Demand<'_> {
        Demand {
            home: HomeKey::of_name("job"),
            choice,
            shape,
            instances: 10,
        }
    }

    fn check(choice: &ClusterChoice, needs: Resources, cluster: Candidate, expected: Option<&str>) {
        let clusters = [cluster];
        let (passed, dropped) = filter(&demand(choice, needs), &clusters);
        assert_eq!(passed.len() + dropped.len(), 1);
        assert_eq!(dropped.first().map(|d| d.reason.to_string()).as_deref(), expected);
    }

    #[test]
    fn each_filter_says_why() {
        let any = ClusterChoice::default();
        let only = |name: &str| ClusterChoice {
            only: vec![name.to_owned()],
            ..ClusterChoice::default()
        };
        let one = shape(1, 64);
        check(&any, one, candidate("a"), None);
        check(&only("a"), one, candidate("a"), None);
        check(&only("id-a"), one, candidate("a"), None);
        check(
            &only("b"),
            one,
            candidate("a"),
            Some("no cluster passes its filters (the job names other clusters)"),
        );
        let desired_state = |desired_state| Candidate {
            desired_state,
            ..candidate("a")
        };
        check(
            &any,
            one,
            desired_state(DesiredState::Cordoned),
            Some("the cluster takes no new work (cordoned)"),
        );
        check(
            &any,
            one,
            desired_state(DesiredState::Draining),
            Some("the cluster takes no new work (draining)"),
        );
        let hung = Candidate {
            new_work: NewWork::Refused,
            health: ClusterHealth {
                health: Health::WithoutMesos,
                causes: vec![HealthCause::MesosHung],
                ..ClusterHealth::default()
            },
            ..candidate("a")
        };
        check(
            &any,
            one,
            hung,
            Some("the cluster cannot start work now (without-mesos, the Mesos master does not answer)"),
        );
        check(
            &any,
            shape(5, 64),
            candidate("a"),
            Some("no cluster has room for it: cpus needs 5, has at most 4 (no host is large enough)"),
        );
        let elsewhere = Candidate {
            has_host_pool: false,
            ..candidate("a")
        };
        check(
            &any,
            one,
            elsewhere,
            Some(
                "hosts are in other host pools than the one that it may use (host_pool) (no host is in its host pool)",
            ),
        );
        let unknown = Candidate {
            hosts: 0,
            largest_host: Resources::ZERO,
            ..candidate("a")
        };
        check(&any, shape(5, 64), unknown, None);
    }

    #[test]
    fn clusters_that_left_are_not_even_named() {
        let clusters = [Candidate {
            desired_state: DesiredState::Removed,
            ..candidate("a")
        }];
        let any = ClusterChoice::default();
        let (passed, dropped) = filter(&demand(&any, shape(1, 1)), &clusters);
        assert!(passed.is_empty() && dropped.is_empty());
        assert_eq!(
            nobody(&dropped).to_string(),
            "no cluster passes its filters (there is no cluster)"
        );
    }

    #[test]
    fn a_cluster_that_a_job_names_is_said_to_be_removed_until_its_name_is_used_again() {
        let named = ClusterChoice {
            only: vec!["a".to_owned()],
            ..ClusterChoice::default()
        };
        let removed = Candidate {
            desired_state: DesiredState::Removed,
            ..candidate("a")
        };
        let clusters = [removed.clone(), candidate("b")];
        let (passed, dropped) = filter(&demand(&named, shape(1, 1)), &clusters);
        assert!(passed.is_empty());
        assert_eq!(
            nobody(&dropped).to_string(),
            "no cluster passes its filters (b: the job names other clusters; a: it was removed)"
        );
        let clusters = [
            removed,
            Candidate {
                id: ClusterId::new("a-2"),
                desired_state: DesiredState::Cordoned,
                ..candidate("a")
            },
        ];
        let (_, dropped) = filter(&demand(&named, shape(1, 1)), &clusters);
        assert_eq!(dropped.len(), 1, "{dropped:?}");
    }

    #[test]
    fn who_waits_for_nobody_is_told_what_each_said() {
        let clusters = [
            Candidate {
                largest_host: shape(2, 4096),
                ..candidate("small")
            },
            Candidate {
                largest_host: shape(3, 4096),
                ..candidate("large")
            },
        ];
        let any = ClusterChoice::default();
        let (_, dropped) = filter(&demand(&any, shape(4, 1)), &clusters);
        assert_eq!(
            nobody(&dropped).to_string(),
            "no cluster has room for it: cpus needs 4, has at most 3 (small: no host is large enough; \
             large: no host is large enough)"
        );
    }

    #[test]
    fn a_last_resort_passes_only_where_no_other_does() {
        let any = ClusterChoice::default();
        let last = |name| Candidate {
            new_work: NewWork::LastResort,
            ..candidate(name)
        };
        let names = |clusters: &[Candidate]| -> Vec<String> {
            let (passed, _) = filter(&demand(&any, shape(1, 1)), clusters);
            passed.into_iter().map(|c| c.name.clone()).collect()
        };
        assert_eq!(names(&[last("a"), candidate("b"), last("c")]), ["b"]);
        assert_eq!(names(&[last("a"), last("c")]), ["a", "c"]);
        let cordoned = Candidate {
            desired_state: DesiredState::Cordoned,
            ..candidate("b")
        };
        assert_eq!(names(&[last("a"), cordoned]), ["a"]);
    }

    #[test]
    fn a_fail_over_cluster_passes_only_where_no_other_does() {
        let choice = ClusterChoice {
            fail_over_only: vec!["b".to_owned()],
            ..ClusterChoice::default()
        };
        let names = |clusters: &[Candidate]| -> Vec<String> {
            let (passed, _) = filter(&demand(&choice, shape(1, 1)), clusters);
            passed.into_iter().map(|c| c.name.clone()).collect()
        };
        let with = |name, new_work| Candidate {
            new_work,
            ..candidate(name)
        };
        let full = Candidate {
            room: Resources::ZERO,
            ..candidate("a")
        };
        assert_eq!(names(&[full, candidate("b")]), ["a"], "it takes no overflow");
        assert_eq!(names(&[with("a", NewWork::Refused), candidate("b")]), ["b"]);
        assert_eq!(names(&[with("a", NewWork::LastResort), candidate("b")]), ["b"]);
        let both = [with("a", NewWork::LastResort), with("b", NewWork::LastResort)];
        assert_eq!(names(&both), ["a"]);
        let (_, dropped) = filter(&demand(&choice, shape(1, 1)), &[candidate("a"), candidate("b")]);
        assert_eq!(dropped[0].reason.to_string(), "the cluster is kept for fail-over");
    }

    #[test]
    fn only_selects_by_label_too() {
        let choice = ClusterChoice {
            only: vec!["region=eu".to_owned()],
            ..ClusterChoice::default()
        };
        let labels = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
        let in_region = Candidate {
            labels: Arc::new(labels),
            ..candidate("a")
        };
        check(&choice, shape(1, 64), in_region, None);
        check(
            &choice,
            shape(1, 64),
            candidate("b"),
            Some("no cluster passes its filters (the job names other clusters)"),
        );
    }
}
