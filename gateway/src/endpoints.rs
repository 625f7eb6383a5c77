//! Endpoints of a job as one list, and as it changes: a watch looks at storage when something of the job has changed, and sends what has come,
//! changed or gone.
//! What cannot be read is nothing that has gone: the caller keeps what it has until it can.

use crate::context::Gateway;
use crate::error::status;
use crate::show::show_endpoint;
use echelon_core_gateway::instances::{InstanceFilter, InstanceView, list_endpoints};
use echelon_core_gateway::jobs::get_job;
use echelon_core_gateway::page::PageRequest;
use echelon_core_gateway::resource::{self, JobRef};
use echelon_core_gateway::{ApiError, ErrorReason};
use echelon_core_model::JobId;
use echelon_proto::echelon::v1;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Rows asked for at once.
const PAGE: i32 = 1000;
/// Most pages: nobody wants a longer list in one answer.
const PAGES: usize = 100;
/// Endpoints of one answer of a watch.
const CHUNK: usize = 1000;

/// Between two looks at a job that changes again and again.
const PAUSE: Duration = Duration::from_millis(100);
/// A look that could not be done is done again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// The answers of a watch.
pub(crate) type Watching = ReceiverStream<Result<v1::WatchEndpointsResponse, Status>>;

/// All endpoints of a job that pass a filter.
pub(crate) async fn all(
    gateway: &Gateway,
    job: &JobRef,
    filter: &InstanceFilter,
) -> Result<(JobId, Vec<InstanceView>), ApiError> {
    let (mut out, mut token) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let page = PageRequest {
            size: PAGE,
            token: std::mem::take(&mut token),
        };
        let found = list_endpoints(&gateway.facts, job, filter.clone(), page, gateway.now()).await?;
        out.extend(found.page.items);
        match found.page.next {
            Some(next) => token = next,
            None => return Ok((found.job, out)),
        }
    }
    Err(ApiError::new(
        ErrorReason::FieldInvalid,
        "more endpoints than one list may have; ask for one group, or page through /v1/jobs/{job}/endpoints",
    ))
}

/// Where an endpoint is among the others.
type Key = (String, u32);

/// An endpoint apart from its age, which changes by itself.
#[derive(Debug, Clone)]
struct ShownEndpoint {
    endpoint: v1::Endpoint,
    age: Option<prost_types::Duration>,
}

impl ShownEndpoint {
    fn new(mut endpoint: v1::Endpoint) -> Self {
        let age = endpoint.age.take();
        Self { endpoint, age }
    }

    fn message(&self) -> v1::Endpoint {
        v1::Endpoint {
            age: self.age,
            ..self.endpoint.clone()
        }
    }
}

struct Watch {
    gateway: Gateway,
    // A name may be another job's later.
    job: JobId,
    filter: InstanceFilter,
    /// What the caller was told of; `None`: nothing yet.
    told: Option<BTreeMap<Key, ShownEndpoint>>,
}

/// Begins a watch: its first answers are the whole list.
pub(crate) async fn watch(
    gateway: Gateway,
    request: v1::WatchEndpointsRequest,
) -> Result<Watching, ApiError> {
    let (job, group) = resource::job_or_group(&request.parent, "parent")?;
    let view = get_job(&gateway.facts, &job, gateway.now()).await?;
    let filter = InstanceFilter {
        group,
        cluster: request.cluster,
        ..InstanceFilter::default()
    };
    let watch = Watch {
        job: view.head.job,
        gateway,
        filter,
        told: None,
    };
    // A wrong group is told at once, and not as the end of a stream.
    if watch.filter.group.is_some() {
        watch.look().await.map(drop).or_else(later)?;
    }
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(watch.run(send));
    Ok(ReceiverStream::new(receive))
}

/// What may be better in a moment is no reason not to begin.
fn later(error: ApiError) -> Result<(), ApiError> {
    if error.is_retryable() { Ok(()) } else { Err(error) }
}

impl Watch {
    async fn run(mut self, send: mpsc::Sender<Result<v1::WatchEndpointsResponse, Status>>) {
        self.gateway.telemetry.streams.inc();
        let feed = self.gateway.feeds.follow(self.job);
        let mut changes = feed.changes();
        'watch: loop {
            changes.mark_unchanged();
            let mut is_known = true;
            match self.look().await {
                Ok((now, ended)) => {
                    for answer in answers(self.told.as_ref(), &now) {
                        if send.send(Ok(answer)).await.is_err() {
                            break 'watch;
                        }
                    }
                    self.told = Some(now);
                    if ended {
                        break;
                    }
                }
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "a watch of endpoints could not look");
                    is_known = false;
                }
                Err(error) => {
                    let _ = send.send(Err(status(&error))).await;
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
            tokio::select! {
                // The sender is part of the feed.
                _ = changes.changed() => {}
                () = tokio::time::sleep(AGAIN), if !is_known => {}
                () = send.closed() => break,
                () = self.gateway.stop.cancelled() => {
                    let _ = send.send(Err(Status::unavailable("this gateway ends; watch again at another"))).await;
                    break;
                }
            }
        }
        self.gateway.telemetry.streams.dec();
    }

    /// The list as it is now, and whether there will be no other: the job has ended.
    async fn look(&self) -> Result<(BTreeMap<Key, ShownEndpoint>, bool), ApiError> {
        let (id, found) = all(&self.gateway, &JobRef::Id(self.job), &self.filter).await?;
        let shown = found
            .iter()
            .filter_map(|i| show_endpoint(i, id))
            .map(|e| ((e.group.clone(), e.number), ShownEndpoint::new(e)));
        let now: BTreeMap<Key, ShownEndpoint> = shown.collect();
        if !now.is_empty() {
            return Ok((now, false));
        }
        let view = get_job(&self.gateway.facts, &JobRef::Id(self.job), self.gateway.now()).await?;
        Ok((now, view.state().is_ended()))
    }
}

/// What has to be said to who was told `before`; of the first list all of it, even when it is empty.
fn answers(
    before: Option<&BTreeMap<Key, ShownEndpoint>>,
    now: &BTreeMap<Key, ShownEndpoint>,
) -> Vec<v1::WatchEndpointsResponse> {
    let known = |key: &Key| before.and_then(|b| b.get(key)).map(|e| &e.endpoint);
    let came: Vec<v1::Endpoint> = now
        .iter()
        .filter(|(key, e)| known(key) != Some(&e.endpoint))
        .map(|(_, e)| e.message())
        .collect();
    let mut out: Vec<v1::WatchEndpointsResponse> = came
        .chunks(CHUNK)
        .map(|endpoints| v1::WatchEndpointsResponse {
            endpoints: endpoints.to_vec(),
            ..v1::WatchEndpointsResponse::default()
        })
        .collect();
    let gone = before
        .into_iter()
        .flatten()
        .filter(|(key, _)| !now.contains_key(*key));
    let gone: Vec<v1::GoneEndpoint> = gone
        .map(|((group, number), _)| v1::GoneEndpoint {
            group: group.clone(),
            number: *number,
        })
        .collect();
    if !gone.is_empty() {
        out.push(v1::WatchEndpointsResponse {
            gone,
            ..v1::WatchEndpointsResponse::default()
        });
    }
    if before.is_none() {
        if out.is_empty() {
            out.push(v1::WatchEndpointsResponse::default());
        }
        if let Some(first) = out.first_mut() {
            first.begins = true;
        }
        if let Some(last) = out.last_mut() {
            last.whole = true;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(of: &[(u32, &str)]) -> BTreeMap<Key, ShownEndpoint> {
        let endpoint = |(number, task): &(u32, &str)| {
            let endpoint = v1::Endpoint {
                group: "main".to_owned(),
                number: *number,
                task_id: (*task).to_owned(),
                ..v1::Endpoint::default()
            };
            (("main".to_owned(), *number), ShownEndpoint::new(endpoint))
        };
        of.iter().map(endpoint).collect()
    }

    /// `+` what came, `-` what went, `[` where a list begins, `]` where it is whole.
    fn told(before: Option<&BTreeMap<Key, ShownEndpoint>>, now: &BTreeMap<Key, ShownEndpoint>) -> String {
        let mut out = String::new();
        for answer in answers(before, now) {
            out.push_str(if answer.begins { "[" } else { "" });
            let came = answer
                .endpoints
                .iter()
                .map(|e| format!("+{}:{} ", e.number, e.task_id));
            let gone = answer.gone.iter().map(|e| format!("-{} ", e.number));
            out.extend(came.chain(gone));
            out.push_str(if answer.whole { "]" } else { "" });
        }
        out
    }

    #[test]
    fn first_all_is_told_and_then_what_changes() {
        let (none, two) = (list(&[]), list(&[(0, "a"), (1, "b")]));
        assert_eq!(told(None, &none), "[]", "an empty list is told, too");
        assert_eq!(told(None, &two), "[+0:a +1:b ]");
        assert_eq!(told(Some(&two), &two), "");
        assert_eq!(told(Some(&two), &list(&[(1, "c"), (2, "d")])), "+1:c +2:d -0 ");
        assert_eq!(told(Some(&two), &none), "-0 -1 ");
    }

    #[test]
    fn an_age_alone_is_no_change_and_a_mark_is_one() {
        let aged = |seconds, stale| {
            let mut all = list(&[(0, "a")]);
            for e in all.values_mut() {
                e.age = Some(prost_types::Duration { seconds, nanos: 0 });
                e.endpoint.stale = stale;
            }
            all
        };
        let fresh = aged(2, false);
        assert!(answers(Some(&fresh), &aged(5, false)).is_empty());
        let marked = answers(Some(&fresh), &aged(9, true));
        let sent = &marked[0].endpoints[0];
        assert_eq!((sent.stale, sent.age.map(|age| age.seconds)), (true, Some(9)));
    }

    #[test]
    fn a_long_list_comes_in_parts() {
        let many: Vec<(u32, &str)> = (0..2500).map(|n| (n, "t")).collect();
        let all = answers(None, &list(&many));
        let sizes: Vec<(usize, bool, bool)> = all
            .iter()
            .map(|a| (a.endpoints.len(), a.begins, a.whole))
            .collect();
        assert_eq!(
            sizes,
            [(1000, true, false), (1000, false, false), (500, false, true)]
        );
    }
}
