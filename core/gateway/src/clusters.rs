//! Clusters: what operators want of them, beside what the resource manager and the shard say.

use crate::ask;
use crate::change::check_etag;
use crate::error::{ApiError, ErrorReason};
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::validate::{Violations, text};
use crate::view::{ClusterMoments, Federation, is_stale};
use echelon_core_model::Timestamp;
use echelon_core_model::cluster::{Cluster, ClusterState, DesiredState, Heartbeat};
use echelon_core_model::cluster_labels::{KnownLabel, MAX_CLUSTER_LABELS, Price};
use echelon_core_model::store::{Decided, Decision};
use std::collections::BTreeMap;

/// How often others may come first before the caller is told.
const TRIES: u32 = 8;
/// Most clusters, with those that were removed.
const MAX_CLUSTERS: usize = 1_000;

/// A cluster as a caller sees it.
#[derive(Debug, Clone)]
pub struct ClusterView {
    /// The desired state.
    pub cluster: Cluster,
    /// What the resource manager says of it.
    pub state: Option<ClusterState>,
    /// What its shard says of itself.
    pub heartbeat: Option<Heartbeat>,
    /// When these were confirmed, by this gateway's clock.
    pub moments: ClusterMoments,
}

impl ClusterView {
    /// Whether what is shown of its hosts and instances may be old.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let health = self.state.as_ref().map(|state| state.health.health);
        is_stale(health.unwrap_or_default(), self.moments.age(now))
    }
}

/// What to change.
#[derive(Debug, Clone, Default)]
pub struct ClusterChange {
    /// The new desired state.
    pub desired_state: Option<DesiredState>,
    /// The new labels.
    pub labels: Option<BTreeMap<String, String>>,
    /// Only if it still has this etag; empty: whatever it has.
    pub etag: String,
}

/// A cluster with what is stored of it.
#[must_use]
pub fn view(federation: &Federation, cluster: Cluster) -> ClusterView {
    ClusterView {
        moments: federation.moments(&cluster.id),
        state: federation.states.get(&cluster.id).cloned(),
        heartbeat: federation.heartbeats.get(&cluster.id).cloned(),
        cluster,
    }
}

/// That storage knows no such cluster.
#[must_use]
pub fn not_found(wanted: &str) -> ApiError {
    ApiError::new(
        ErrorReason::ClusterNotFound,
        format!("there is no cluster `{wanted}`; `echelon cluster list` shows what there is"),
    )
}

/// One cluster, by id or name.
///
/// # Errors
/// No such cluster, or storage.
pub async fn get_cluster<F: Facts>(facts: &F, wanted: &str) -> Result<ClusterView, ApiError> {
    let federation = Federation::read(facts).await?;
    let cluster = federation.find(wanted).cloned();
    cluster
        .map(|c| view(&federation, c))
        .ok_or_else(|| not_found(wanted))
}

/// A page of clusters in order of name, then id.
///
/// # Errors
/// A wrong page token or size, or storage.
pub async fn list_clusters<F: Facts>(facts: &F, page: PageRequest) -> Result<Page<ClusterView>, ApiError> {
    let limit = page.limit()?;
    let position = |c: &ClusterView| format!("{}\n{}", c.cluster.name, c.cluster.id);
    let after = page.position("clusters")?;
    let federation = Federation::read(facts).await?;
    let mut rows: Vec<ClusterView> = federation
        .clusters
        .values()
        .map(|c| view(&federation, c.clone()))
        .collect();
    rows.sort_by_key(position);
    rows.retain(|c| after.as_ref().is_none_or(|a| position(c) > *a));
    Ok(page::cut(rows, limit, "clusters", position))
}

/// A cluster to add.
#[derive(Debug, Clone, Default)]
pub struct NewCluster {
    /// Its name.
    pub name: String,
    /// What operators want of it at first: active or cordoned.
    pub desired_state: DesiredState,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// Adds a cluster. Its shards find it by its name and wait for it. To repeat it changes nothing.
///
/// # Errors
/// A field that is wrong, another cluster of this name, too many clusters, or storage.
pub async fn add_cluster<F: Facts>(facts: &F, new: &NewCluster) -> Result<ClusterView, ApiError> {
    check_new(new)?;
    for _ in 0..TRIES {
        let known = ask::settled_clusters(facts).await?;
        let cluster = new_row(&known, new)?;
        if known.contains(&cluster) {
            return Ok(unheard(cluster));
        }
        let decision = Decision::PutCluster {
            cluster: cluster.clone(),
            expected: None,
        };
        if ask::decide(facts, decision, "the cluster").await? == Decided::Applied {
            return Ok(unheard(cluster));
        }
    }
    Err(ApiError::new(
        ErrorReason::Contention,
        format!(
            "others add clusters all the time; `{}` was not added, try again",
            new.name
        ),
    ))
}

/// A cluster as it would be added, and is not.
///
/// # Errors
/// As of [`add_cluster`], but for those of the write.
pub async fn planned_cluster<F: Facts>(facts: &F, new: &NewCluster) -> Result<ClusterView, ApiError> {
    check_new(new)?;
    let known = ask::settled_clusters(facts).await?;
    new_row(&known, new).map(unheard)
}

/// The row of a cluster to add, or of the same one that is there.
fn new_row(known: &[Cluster], new: &NewCluster) -> Result<Cluster, ApiError> {
    if let Some(there) = known.iter().find(|c| c.is_present_as(&new.name)) {
        if there.labels == new.labels && there.desired_state == new.desired_state {
            return Ok(there.clone());
        }
        return Err(ApiError::new(
            ErrorReason::ClusterExists,
            format!(
                "there is a cluster `{}` already; `echelon cluster update` changes it",
                new.name
            ),
        ));
    }
    if known.len() >= MAX_CLUSTERS {
        return Err(ApiError::new(
            ErrorReason::TooManyClusters,
            format!(
                "there are {} clusters, with those that were removed; at most {MAX_CLUSTERS} are known",
                known.len()
            ),
        ));
    }
    Ok(Cluster {
        desired_state: new.desired_state,
        labels: new.labels.clone(),
        ..Cluster::new(Cluster::fresh_id(known, &new.name), &new.name)
    })
}

/// A cluster of which no shard has reported.
const fn unheard(cluster: Cluster) -> ClusterView {
    ClusterView {
        cluster,
        state: None,
        heartbeat: None,
        moments: ClusterMoments {
            judged_at: None,
            confirmed_at: None,
        },
    }
}

/// Checks the fields of a cluster to add.
///
/// # Errors
/// Each field that is wrong.
pub fn check_new(new: &NewCluster) -> Result<(), ApiError> {
    let mut out = Violations::default();
    out.check(
        text::is_label(&new.name),
        "cluster.display_name",
        text::LABEL_FORM,
    );
    out.check(
        matches!(new.desired_state, DesiredState::Active | DesiredState::Cordoned),
        "cluster.desired_state",
        "must be active or cordoned",
    );
    check_labels(&new.labels, &mut out);
    out.done()
}

/// Changes the desired state or the labels.
///
/// # Errors
/// No such cluster, a field that is wrong, one that was removed, an old etag, or storage.
pub async fn update_cluster<F: Facts>(
    facts: &F,
    wanted: &str,
    change: ClusterChange,
) -> Result<ClusterView, ApiError> {
    check(&change)?;
    put(facts, wanted, |before, _| {
        check_etag(&change.etag, before.version, &format!("cluster `{wanted}`"))?;
        let mut after = before.clone();
        after.desired_state = change.desired_state.unwrap_or(before.desired_state);
        if before.desired_state == DesiredState::Removing && after.desired_state != before.desired_state {
            return Err(ApiError::new(
                ErrorReason::ClusterRemoved,
                format!("cluster `{wanted}` is being removed, and its shard may have left Mesos: that has no way back"),
            ));
        }
        if let Some(labels) = &change.labels {
            after.labels.clone_from(labels);
        }
        Ok(after)
    })
    .await
}

/// Accepts a mass loss: what is missing may be replaced. `number` names the loss that was seen, 0 the present one. The shard
/// hears of it from the resource manager.
///
/// # Errors
/// No such cluster, no such loss that anything waits for, or storage.
pub async fn accept_loss<F: Facts>(facts: &F, wanted: &str, number: u64) -> Result<ClusterView, ApiError> {
    put(facts, wanted, |before, heartbeat| {
        let mut after = before.clone();
        // Repeated after it was done, also when nothing waits any more.
        if number != 0 && number <= before.accepted_loss {
            return Ok(after);
        }
        let loss = heartbeat.and_then(|h| h.loss);
        let loss = loss.filter(|l| number == 0 || l.number == number);
        after.accepted_loss = loss
            .ok_or_else(|| no_loss(wanted, number))?
            .number
            .max(after.accepted_loss);
        Ok(after)
    })
    .await
}

fn no_loss(wanted: &str, number: u64) -> ApiError {
    let which = if number == 0 {
        String::new()
    } else {
        format!(" {number}")
    };
    ApiError::new(
        ErrorReason::NoLossToAccept,
        format!(
            "nothing of cluster `{wanted}` waits for a mass loss{which} to be accepted; nothing was changed (`echelon cluster get` shows one while it lasts)"
        ),
    )
}

/// Writes what `change` makes of a cluster's row, again on what another change left.
pub(crate) async fn put<F: Facts>(
    facts: &F,
    wanted: &str,
    change: impl Fn(&Cluster, Option<&Heartbeat>) -> Result<Cluster, ApiError>,
) -> Result<ClusterView, ApiError> {
    for _ in 0..TRIES {
        let federation = Federation::read(facts).await?;
        let before = federation.find(wanted).ok_or_else(|| not_found(wanted))?;
        let mut after = change(before, federation.heartbeats.get(&before.id))?;
        if after == *before {
            return Ok(view(&federation, after));
        }
        if before.desired_state == DesiredState::Removed {
            return Err(ApiError::new(
                ErrorReason::ClusterRemoved,
                format!("cluster `{wanted}` was removed for good; add it again, which gives it a new id"),
            ));
        }
        after.version = before.version.next();
        let decision = Decision::PutCluster {
            cluster: after.clone(),
            expected: Some(before.version),
        };
        if ask::decide(facts, decision, "the cluster").await? == Decided::Applied {
            return Ok(view(&federation, after));
        }
    }
    Err(ApiError::new(
        ErrorReason::Contention,
        format!("others change cluster `{wanted}` all the time; nothing was changed, try again"),
    ))
}

/// Checks the fields of a change.
///
/// # Errors
/// Each field that is wrong.
pub fn check(change: &ClusterChange) -> Result<(), ApiError> {
    let mut out = Violations::default();
    out.check(
        !matches!(
            change.desired_state,
            Some(DesiredState::Removing | DesiredState::Removed)
        ),
        "cluster.desired_state",
        "must be active, cordoned or draining; RemoveCluster removes a cluster",
    );
    if let Some(labels) = &change.labels {
        check_labels(labels, &mut out);
    }
    out.done()
}

fn check_labels(labels: &BTreeMap<String, String>, out: &mut Violations) {
    out.check(
        labels.len() <= MAX_CLUSTER_LABELS,
        "cluster.labels",
        format!("must be at most {MAX_CLUSTER_LABELS}"),
    );
    for (key, value) in labels {
        out.check(
            text::is_key(key) && text::is_line(value, 255),
            format!("cluster.labels[{key}]"),
            "keys must be 1 to 63 characters of A-Z, a-z, 0-9 and `-_./`, values at most 255 bytes",
        );
    }
    for known in KnownLabel::ALL.into_iter().filter(|label| label.is_price()) {
        let value = labels.get(known.key());
        out.check(
            value.is_none_or(|text| Price::parse(text).is_some()),
            format!("cluster.labels[{}]", known.key()),
            format!(
                "must be a decimal number with at most six places, 0 to {}",
                Price::MAX
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, run};

    #[test]
    fn a_cluster_is_added_once_and_a_name_that_has_left_gets_another_id() {
        let mut store = Memory::new();
        let mut add = |name: &str, desired_state| {
            let new = NewCluster {
                name: name.to_owned(),
                desired_state,
                labels: BTreeMap::new(),
            };
            let added = run(
                &mut store,
                move |facts| async move { add_cluster(&facts, &new).await },
            );
            added
                .map(|view| view.cluster.id.to_string())
                .map_err(|e| e.reason)
        };
        assert_eq!(add("east", DesiredState::Cordoned), Ok("east".to_owned()));
        assert_eq!(
            add("east", DesiredState::Cordoned),
            Ok("east".to_owned()),
            "repeated"
        );
        assert_eq!(add("east", DesiredState::Active), Err(ErrorReason::ClusterExists));
        assert_eq!(add("West", DesiredState::Active), Err(ErrorReason::FieldInvalid));
        assert_eq!(
            add("west", DesiredState::Draining),
            Err(ErrorReason::FieldInvalid)
        );
        let row = store.clusters.values_mut().find(|c| c.name == "east");
        if let Some(row) = row {
            row.desired_state = DesiredState::Removed;
        }
        let again = NewCluster {
            name: "east".to_owned(),
            ..NewCluster::default()
        };
        let added = run(&mut store, move |facts| async move {
            add_cluster(&facts, &again).await
        });
        assert_eq!(added.unwrap().cluster.id.as_str(), "east-2");
    }

    #[test]
    fn there_are_not_too_many_clusters() {
        let mut store = Memory::new();
        for n in 0..MAX_CLUSTERS {
            store.add_cluster(&format!("c{n}"));
        }
        let new = NewCluster {
            name: "east".to_owned(),
            ..NewCluster::default()
        };
        let added = run(
            &mut store,
            move |facts| async move { add_cluster(&facts, &new).await },
        );
        assert_eq!(added.unwrap_err().reason, ErrorReason::TooManyClusters);
    }

    #[test]
    fn labels_are_set_as_a_whole_and_prices_are_numbers() {
        let set = |pairs: &[(&str, &str)]| {
            let mut store = Memory::new();
            store.add_cluster("east");
            let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let change = ClusterChange {
                labels: Some(pairs.collect()),
                ..ClusterChange::default()
            };
            run(&mut store, move |facts| async move {
                update_cluster(&facts, "east", change).await
            })
        };
        let labels = [("region", "eu"), ("cost_core_hour", "0.034"), ("team/rack", "4")];
        let changed = set(&labels).unwrap().cluster.labels;
        assert_eq!(changed.len(), 3);
        let error = set(&[("cost_core_hour", "cheap"), ("cost_gpu_hour", "-1")]).unwrap_err();
        let fields: Vec<&str> = error.violations.iter().map(|v| v.field.as_str()).collect();
        assert_eq!(
            fields,
            ["cluster.labels[cost_core_hour]", "cluster.labels[cost_gpu_hour]"]
        );
        let many: Vec<(String, String)> = (0..65).map(|n| (format!("k{n}"), String::new())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert!(set(&many).is_err());
    }
    use echelon_core_model::Timestamp;
    use echelon_core_model::cluster::MassLoss;

    fn waiting(number: u64) -> Memory {
        let mut store = Memory::new();
        let id = store.add_cluster("east");
        if let Some(beat) = store.heartbeats.get_mut(&id) {
            beat.loss = Some(MassLoss {
                number,
                since: Timestamp(1),
                running: 20,
                lost: 10,
                missing: 9,
            });
        }
        store
    }

    fn accept(store: &mut Memory, number: u64) -> Result<u64, ErrorReason> {
        let done = run(store, move |facts| async move {
            accept_loss(&facts, "east", number).await
        });
        done.map(|v| v.cluster.accepted_loss).map_err(|e| e.reason)
    }

    #[test]
    fn a_loss_is_accepted_once_however_often_it_is_said() {
        let mut store = waiting(70);
        assert_eq!(accept(&mut store, 0), Ok(70));
        let version = store.clusters.values().next().unwrap().version;
        assert_eq!(accept(&mut store, 0), Ok(70));
        assert_eq!(accept(&mut store, 70), Ok(70));
        // A repetition that comes when nothing waits any more.
        store.heartbeats.clear();
        assert_eq!(accept(&mut store, 70), Ok(70));
        assert_eq!(store.clusters.values().next().unwrap().version, version);
    }

    #[test]
    fn nothing_is_accepted_but_what_was_seen() {
        let mut store = waiting(71);
        assert_eq!(accept(&mut store, 70), Err(ErrorReason::NoLossToAccept));
        store.heartbeats.clear();
        assert_eq!(accept(&mut store, 0), Err(ErrorReason::NoLossToAccept));
        let mut empty = Memory::new();
        assert_eq!(accept(&mut empty, 0), Err(ErrorReason::ClusterNotFound));
        assert_eq!(store.clusters.values().next().unwrap().accepted_loss, 0);
    }
}
