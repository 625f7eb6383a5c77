//! ClusterService.

use super::{page, shown};
use crate::context::Gateway;
use crate::error::missing;
use crate::show::show_cluster;
use echelon_core_gateway::cluster_removal::{
    LostRemovalFacts, RemovalFacts, count_volumes, is_removed_as_lost, lost_removal_problems,
    removal_problems, remove_cluster, remove_lost_cluster,
};
use echelon_core_gateway::clusters::{
    ClusterChange, ClusterView, NewCluster, accept_loss, add_cluster, check, get_cluster, list_clusters,
    planned_cluster, update_cluster,
};
use echelon_core_gateway::declare::declare;
use echelon_core_gateway::{ApiError, lookup, resource};
use echelon_core_model::cluster::{Cluster, ClusterQuestion, DesiredState};
use echelon_core_model::health::Declaration;
use echelon_core_model::{JobId, Span};
use echelon_proto::convert::Problems;
use echelon_proto::convert::cluster::read_desired_state;
use echelon_proto::convert::quantity::{read_duration, timestamp};
use echelon_proto::convert::shard::Changed;
use echelon_proto::echelon::v1;
use std::collections::BTreeMap;
use tonic::{Request, Response, Status};
use v1::cluster_service_server::ClusterService;

impl Gateway {
    fn show(&self, view: &ClusterView) -> v1::Cluster {
        show_cluster(view, &self.leaders, self.clock.now())
    }
}

impl Gateway {
    /// What a cluster holds, and what would become of that if it were as `shown`.
    async fn work_of(&self, shown: &Cluster) -> Result<v1::ClusterWork, ApiError> {
        self.answered_work(&question_about(shown)).await
    }

    async fn answered_work(&self, question: &ClusterQuestion) -> Result<v1::ClusterWork, ApiError> {
        let mut work = self.links.cluster_work(question).await?;
        let jobs: Vec<Option<JobId>> = work
            .groups
            .iter()
            .map(|group| group.job_id.parse().ok())
            .collect();
        let known: Vec<JobId> = jobs.iter().copied().flatten().collect();
        let names = lookup::names(&self.facts, &known).await;
        let names: BTreeMap<JobId, Option<String>> = known.into_iter().zip(names).collect();
        for (group, id) in work.groups.iter_mut().zip(jobs) {
            let name = id.and_then(|id| names.get(&id).cloned().flatten());
            // One that cannot be read stays without.
            group.job = name.unwrap_or_default();
        }
        Ok(work)
    }

    async fn plan_cluster_change(
        &self,
        wanted: v1::Cluster,
        mask: &[String],
    ) -> Result<v1::PlanClusterResponse, ApiError> {
        let (view, is_removal) = if wanted.name.is_empty() {
            let new = read_new(wanted)?;
            (planned_cluster(&self.facts, &new).await?, false)
        } else {
            let name = resource::cluster(&wanted.name, "cluster.name")?;
            let mut view = get_cluster(&self.facts, name).await?;
            let mut change = read_change(&wanted, mask)?;
            let is_removal = change
                .desired_state
                .take_if(|desired_state| *desired_state == DesiredState::Removing)
                .is_some();
            check(&change)?;
            view.cluster.desired_state = change.desired_state.unwrap_or(view.cluster.desired_state);
            if is_removal {
                view.cluster.desired_state = DesiredState::Removing;
            }
            view.cluster.labels = change.labels.unwrap_or(view.cluster.labels);
            (view, is_removal)
        };
        let work = self.work_of(&view.cluster).await?;
        let problems = if is_removal {
            let volumes = count_volumes(&self.facts, &view.cluster.id).await?;
            removal_problems(&view.cluster.name, &removal_facts(&view, &work, Some(volumes)))
        } else {
            Vec::new()
        };
        Ok(v1::PlanClusterResponse {
            cluster: Some(self.show(&view)),
            work: Some(work),
            problems,
            as_of: Some(timestamp(self.now())),
        })
    }

    /// What would become of a cluster's work if it were lost now. That it is not silent is no problem: the answer is to be
    /// known before.
    async fn plan_cluster_loss(
        &self,
        wanted: &v1::Cluster,
        mask: &[String],
    ) -> Result<v1::PlanClusterResponse, ApiError> {
        let name = resource::cluster(&wanted.name, "cluster.name")?;
        let change = read_change(wanted, mask)?;
        if change.desired_state.is_some() || change.labels.is_some() {
            let text = "must be false where the desired state or labels change: a plan is about one of them";
            return Err(ApiError::field("lost", text));
        }
        let view = get_cluster(&self.facts, name).await?;
        let question = ClusterQuestion {
            is_lost: true,
            ..question_about(&view.cluster)
        };
        Ok(v1::PlanClusterResponse {
            cluster: Some(self.show(&view)),
            work: Some(self.answered_work(&question).await?),
            problems: Vec::new(),
            as_of: Some(timestamp(self.now())),
        })
    }

    /// What would become of a cluster's work if it were removed now without its shard, and what is in the
    /// way.
    async fn plan_lost_removal(
        &self,
        wanted: &v1::Cluster,
        accepted: u64,
    ) -> Result<v1::PlanClusterResponse, ApiError> {
        let name = resource::cluster(&wanted.name, "cluster.name")?;
        let mut view = get_cluster(&self.facts, name).await?;
        let volumes = Some(count_volumes(&self.facts, &view.cluster.id).await?);
        let work = self.lost_work(&view.cluster).await?;
        let problems = lost_removal_problems(&view, &lost_removal_facts(&work, accepted, volumes));
        view.cluster.desired_state = DesiredState::Removing;
        Ok(v1::PlanClusterResponse {
            cluster: Some(self.show(&view)),
            work: Some(work),
            problems,
            as_of: Some(timestamp(self.now())),
        })
    }

    /// What a cluster holds, and what would become of that if it were removed without its shard.
    async fn lost_work(&self, cluster: &Cluster) -> Result<v1::ClusterWork, ApiError> {
        let question = ClusterQuestion {
            is_lost: true,
            desired: DesiredState::Removing,
            ..question_about(cluster)
        };
        self.answered_work(&question).await
    }

    async fn remove_as_lost(&self, request: &v1::RemoveClusterRequest) -> Result<ClusterView, ApiError> {
        let name = resource::cluster(&request.name, "name")?;
        let view = get_cluster(&self.facts, name).await?;
        if is_removed_as_lost(&view) {
            return Ok(view);
        }
        let work = self.lost_work(&view.cluster).await?;
        let volumes = if request.forget_volumes {
            None
        } else {
            Some(count_volumes(&self.facts, &view.cluster.id).await?)
        };
        let facts = lost_removal_facts(&work, request.accepted_loss, volumes);
        let problems = lost_removal_problems(&view, &facts);
        // What was read holds only for this version of its row.
        let read = view.cluster.version.to_string();
        let etag = if request.etag.is_empty() {
            &read
        } else {
            &request.etag
        };
        remove_lost_cluster(&self.facts, &view, etag, request.silence, &problems).await
    }

    async fn remove_when_empty(
        &self,
        name: &str,
        etag: &str,
        forget_volumes: bool,
    ) -> Result<ClusterView, ApiError> {
        let view = get_cluster(&self.facts, name).await?;
        if matches!(
            view.cluster.desired_state,
            DesiredState::Removing | DesiredState::Removed
        ) {
            return Ok(view);
        }
        let mut removed = view.cluster.clone();
        removed.desired_state = DesiredState::Removing;
        let work = self.work_of(&removed).await?;
        let volumes = if forget_volumes {
            None
        } else {
            Some(count_volumes(&self.facts, &view.cluster.id).await?)
        };
        let problems = removal_problems(&view.cluster.name, &removal_facts(&view, &work, volumes));
        // What was read holds only for this version of its row.
        let read = view.cluster.version.to_string();
        let etag = if etag.is_empty() { &read } else { etag };
        remove_cluster(&self.facts, name, etag, &problems).await
    }
}

fn question_about(shown: &Cluster) -> ClusterQuestion {
    ClusterQuestion {
        cluster: shown.id.clone(),
        name: shown.name.clone(),
        desired: shown.desired_state,
        labels: shown.labels.clone(),
        is_lost: false,
    }
}

/// Groups that a refusal names.
const MOST_NAMED: usize = 5;

fn lost_removal_facts(work: &v1::ClusterWork, accepted: u64, volumes: Option<u64>) -> LostRemovalFacts {
    // A group of which only results are there gives nothing up.
    let groups = work.groups.iter().filter(|group| group.instances > 0);
    let given_up = groups.filter(|group| group.departure() == v1::Departure::GivenUp);
    let mut groups: Vec<String> = given_up.map(named_group).collect();
    let more = groups.len().saturating_sub(MOST_NAMED);
    groups.truncate(MOST_NAMED);
    if more > 0 || work.groups_left_out > 0 {
        groups.push("and others, which `--plan` lists".to_owned());
    }
    LostRemovalFacts {
        groups,
        given_up: work.given_up,
        accepted,
        volumes,
    }
}

fn named_group(group: &v1::GroupWork) -> String {
    let job = if group.job.is_empty() {
        &group.job_id
    } else {
        &group.job
    };
    format!("{job}/{}: {}", group.group, group.instances)
}

fn removal_facts(view: &ClusterView, work: &v1::ClusterWork, volumes: Option<u64>) -> RemovalFacts {
    let reported = view.state.as_ref().and_then(|state| state.reported.as_ref());
    RemovalFacts {
        is_unused: view.heartbeat.is_none() && reported.is_none(),
        is_reported: work.reported,
        instances: work.instances.saturating_sub(work.ending),
        volumes,
    }
}

#[tonic::async_trait]
impl ClusterService for Gateway {
    async fn get_cluster(
        &self,
        request: Request<v1::GetClusterRequest>,
    ) -> Result<Response<v1::GetClusterResponse>, Status> {
        self.call("ClusterService/GetCluster", async {
            let name = request.into_inner().name;
            let found = get_cluster(&self.facts, resource::cluster(&name, "name")?).await?;
            Ok(v1::GetClusterResponse {
                cluster: Some(self.show(&found)),
            })
        })
        .await
    }

    async fn list_clusters(
        &self,
        request: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        self.call("ClusterService/ListClusters", async {
            let r = request.into_inner();
            let found = list_clusters(&self.facts, page(r.page_size, r.page_token)).await?;
            let (clusters, next_page_token) = shown(found, |view| self.show(view));
            Ok(v1::ListClustersResponse {
                clusters,
                next_page_token,
            })
        })
        .await
    }

    async fn add_cluster(
        &self,
        request: Request<v1::AddClusterRequest>,
    ) -> Result<Response<v1::AddClusterResponse>, Status> {
        self.call("ClusterService/AddCluster", async {
            let wanted = request.into_inner().cluster.ok_or_else(|| missing("cluster"))?;
            let added = add_cluster(&self.facts, &read_new(wanted)?).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::AddClusterResponse {
                cluster: Some(self.show(&added)),
            })
        })
        .await
    }

    async fn update_cluster(
        &self,
        request: Request<v1::UpdateClusterRequest>,
    ) -> Result<Response<v1::UpdateClusterResponse>, Status> {
        self.call("ClusterService/UpdateCluster", async {
            let r = request.into_inner();
            let wanted = r.cluster.ok_or_else(|| missing("cluster"))?;
            let name = resource::cluster(&wanted.name, "cluster.name")?;
            let mask = r.update_mask.map(|m| m.paths).unwrap_or_default();
            let after = update_cluster(&self.facts, name, read_change(&wanted, &mask)?).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::UpdateClusterResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }

    async fn plan_cluster(
        &self,
        request: Request<v1::PlanClusterRequest>,
    ) -> Result<Response<v1::PlanClusterResponse>, Status> {
        self.call("ClusterService/PlanCluster", async {
            let r = request.into_inner();
            let wanted = r.cluster.ok_or_else(|| missing("cluster"))?;
            let mask = r.update_mask.map(|m| m.paths).unwrap_or_default();
            let is_removal = wanted.desired_state() == v1::ClusterDesiredState::Removing;
            if r.lost && is_removal {
                self.plan_lost_removal(&wanted, r.accepted_loss).await
            } else if r.lost {
                self.plan_cluster_loss(&wanted, &mask).await
            } else {
                self.plan_cluster_change(wanted, &mask).await
            }
        })
        .await
    }

    async fn remove_cluster(
        &self,
        request: Request<v1::RemoveClusterRequest>,
    ) -> Result<Response<v1::RemoveClusterResponse>, Status> {
        self.call("ClusterService/RemoveCluster", async {
            let r = request.into_inner();
            let after = if r.lost {
                self.remove_as_lost(&r).await?
            } else {
                let name = resource::cluster(&r.name, "name")?;
                self.remove_when_empty(name, &r.etag, r.forget_volumes).await?
            };
            self.links.hint(Changed::Pools);
            Ok(v1::RemoveClusterResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }

    async fn declare_cluster_lost(
        &self,
        request: Request<v1::DeclareClusterLostRequest>,
    ) -> Result<Response<v1::DeclareClusterLostResponse>, Status> {
        self.call("ClusterService/DeclareClusterLost", async {
            let r = request.into_inner();
            let name = resource::cluster(&r.name, "name")?;
            let after = declare(&self.facts, name, r.silence, Declaration::Lost).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::DeclareClusterLostResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }

    async fn declare_cluster_alive(
        &self,
        request: Request<v1::DeclareClusterAliveRequest>,
    ) -> Result<Response<v1::DeclareClusterAliveResponse>, Status> {
        self.call("ClusterService/DeclareClusterAlive", async {
            let r = request.into_inner();
            let name = resource::cluster(&r.name, "name")?;
            let until = self.clock.now().plus(read_alive_for(r.alive_for)?);
            let after = declare(&self.facts, name, r.silence, Declaration::AliveUntil(until)).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::DeclareClusterAliveResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }

    async fn accept_cluster_loss(
        &self,
        request: Request<v1::AcceptClusterLossRequest>,
    ) -> Result<Response<v1::AcceptClusterLossResponse>, Status> {
        self.call("ClusterService/AcceptClusterLoss", async {
            let r = request.into_inner();
            let name = resource::cluster(&r.name, "name")?;
            let after = accept_loss(&self.facts, name, r.loss_number).await?;
            self.links.hint(Changed::Pools);
            Ok(v1::AcceptClusterLossResponse {
                cluster: Some(self.show(&after)),
            })
        })
        .await
    }
}

/// For how long a cluster is declared alive.
fn read_alive_for(given: Option<prost_types::Duration>) -> Result<Span, ApiError> {
    let mut problems = Problems::default();
    let span = given.map(|given| read_duration(&given, || "alive_for".to_owned(), &mut problems));
    let range = Span::minutes(1)..=Span::minutes(7 * 24 * 60);
    let span = span.filter(|span| range.contains(span));
    span.ok_or_else(|| ApiError::field("alive_for", "must be 1 minute to 7 days"))
}

fn read_new(wanted: v1::Cluster) -> Result<NewCluster, ApiError> {
    let desired_state = match wanted.desired_state {
        0 => DesiredState::Active,
        given => read_desired_state(given)
            .ok_or_else(|| ApiError::field("cluster.desired_state", "must be active or cordoned"))?,
    };
    Ok(NewCluster {
        name: wanted.display_name,
        desired_state,
        labels: wanted.labels,
    })
}

fn read_change(wanted: &v1::Cluster, mask: &[String]) -> Result<ClusterChange, ApiError> {
    if let Some(unknown) = mask
        .iter()
        .find(|p| !["desired_state", "labels", "*"].contains(&p.as_str()))
    {
        return Err(ApiError::field(
            "update_mask",
            format!("`{unknown}` cannot be changed; name desired_state or labels"),
        ));
    }
    let named = |field: &str, given: bool| {
        if mask.is_empty() {
            given
        } else {
            mask.iter().any(|p| p == field || p == "*")
        }
    };
    let desired_state = if named("desired_state", wanted.desired_state != 0) {
        let desired_state = read_desired_state(wanted.desired_state);
        Some(desired_state.ok_or_else(|| {
            ApiError::field("cluster.desired_state", "must be active, cordoned or draining")
        })?)
    } else {
        None
    };
    Ok(ClusterChange {
        desired_state,
        labels: named("labels", !wanted.labels.is_empty()).then(|| wanted.labels.clone()),
        etag: wanted.etag.clone(),
    })
}
