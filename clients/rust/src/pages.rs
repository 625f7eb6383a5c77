//! Lists, page by page: each function gives rows of a request in order, until `limit` rows were given or there are no more,
//! and says whether more follow. Nobody ever holds more than a page that was not asked for.

use crate::{Client, Error, v1};

/// Rows of a list, with what is known of those that were not asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether more rows follow.
    pub more: bool,
    /// How many rows there are, where the gateway counts them.
    pub total: Option<u64>,
}

macro_rules! pages {
    ($($(#[$doc:meta])* $name:ident: $service:ident.$method:ident($request:ident) -> $rows:ident of $row:ident, $page:ident, $total:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// What the gateway says.
        pub async fn $name(client: &Client, mut request: v1::$request, limit: usize) -> Result<Found<v1::$row>, Error> {
            let mut rows = Vec::new();
            // One more than is wanted, so that it is known whether more follow.
            let wanted = limit.saturating_add(1);
            loop {
                let left = wanted.saturating_sub(rows.len());
                request.page_size = i32::try_from(left.min($page)).unwrap_or(i32::MAX);
                let answer = client.repeat(|| {
                    let (mut service, request) = (client.$service(), request.clone());
                    async move { service.$method(request).await }
                });
                let answer = answer.await?;
                let total: Option<i64> = $total(&answer);
                let total = total.and_then(|n| u64::try_from(n).ok());
                rows.extend(answer.$rows);
                let is_last = answer.next_page_token.is_empty();
                // Where a page may be empty only one more row says that there are more.
                let enough = if total.is_some() { limit } else { wanted };
                if is_last || rows.len() >= enough {
                    let more = rows.len() > limit || (total.is_some() && !is_last);
                    rows.truncate(limit);
                    return Ok(Found { rows, more, total });
                }
                request.page_token = answer.next_page_token;
            }
        }
    )*};
}

/// Rows asked for at once.
const PAGE: usize = 200;
/// The same where each page costs the gateway a look at all rows.
const LARGE_PAGE: usize = 1000;

pages! {
    /// Jobs.
    jobs: job_service.list_jobs(ListJobsRequest) -> jobs of Job, LARGE_PAGE, |a: &v1::ListJobsResponse| a.total_size;
    /// Instances of a job.
    instances: instance_service.list_instances(ListInstancesRequest) -> instances of Instance, PAGE, |_| None;
    /// Where a job's available instances can be reached.
    endpoints: instance_service.list_endpoints(ListEndpointsRequest) -> endpoints of Endpoint, PAGE, |_| None;
    /// Pools.
    pools: pool_service.list_pools(ListPoolsRequest) -> pools of Pool, PAGE, |_| None;
    /// Clusters.
    clusters: cluster_service.list_clusters(ListClustersRequest) -> clusters of Cluster, PAGE, |_| None;
    /// Hosts of a cluster.
    hosts: host_service.list_hosts(ListHostsRequest) -> hosts of Host, PAGE, |_| None;
    /// Runs on a host, or those of a cluster that are unreachable.
    host_runs: host_service.list_host_runs(ListHostRunsRequest) -> runs of HostRun, PAGE, |_| None;
    /// Volumes of a cluster.
    volumes: volume_service.list_volumes(ListVolumesRequest) -> volumes of HostVolume, PAGE, |_| None;
    /// Events of a job.
    events: event_service.list_events(ListEventsRequest) -> events of Event, LARGE_PAGE, |a: &v1::ListEventsResponse| a.total_size;
}
