//! Lists, page by page: each function gives all rows of a request as pages, in order, until `limit` rows were given or
//! there are no more. Nobody ever holds more than a page that was not asked for.

use crate::{Client, Error, v1};

macro_rules! pages {
    ($($(#[$doc:meta])* $name:ident: $service:ident.$method:ident($request:ident) -> $rows:ident of $row:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// What the gateway says.
        pub async fn $name(client: &Client, mut request: v1::$request, limit: usize) -> Result<Vec<v1::$row>, Error> {
            let mut all = Vec::new();
            loop {
                let left = limit.saturating_sub(all.len());
                request.page_size = i32::try_from(left.min(PAGE)).unwrap_or_default();
                let answer = client.repeat(|| {
                    let (mut service, request) = (client.$service(), request.clone());
                    async move { service.$method(request).await }
                });
                let answer = answer.await?;
                all.extend(answer.$rows);
                if answer.next_page_token.is_empty() || all.len() >= limit {
                    all.truncate(limit);
                    return Ok(all);
                }
                request.page_token = answer.next_page_token;
            }
        }
    )*};
}

/// Rows asked for at once.
const PAGE: usize = 200;

pages! {
    /// Jobs.
    jobs: job_service.list_jobs(ListJobsRequest) -> jobs of Job;
    /// Instances of a job.
    instances: instance_service.list_instances(ListInstancesRequest) -> instances of Instance;
    /// Where a job's available instances can be reached.
    endpoints: instance_service.list_endpoints(ListEndpointsRequest) -> endpoints of Endpoint;
    /// Pools.
    pools: pool_service.list_pools(ListPoolsRequest) -> pools of Pool;
    /// Clusters.
    clusters: cluster_service.list_clusters(ListClustersRequest) -> clusters of Cluster;
    /// Hosts of a cluster.
    hosts: host_service.list_hosts(ListHostsRequest) -> hosts of Host;
    /// Volumes of a cluster.
    volumes: volume_service.list_volumes(ListVolumesRequest) -> volumes of HostVolume;
    /// Events of a job.
    events: event_service.list_events(ListEventsRequest) -> events of Event;
}
