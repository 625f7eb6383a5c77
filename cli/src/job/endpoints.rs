//! `echelon job endpoints`.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format, Listing};
use crate::shape;
use clap::Args;
use echelon_clients_rust::{self as client, v1};
use std::collections::{BTreeMap, BTreeSet};

/// Which endpoints.
#[derive(Debug, Args)]
pub struct Filter {
    /// Id or name of the job
    job: String,
    /// Only of this group
    #[arg(long)]
    group: Option<String>,
    /// Only on this cluster
    #[arg(long, default_value = "")]
    cluster: String,
    /// At most this many
    #[arg(long, default_value_t = 10_000)]
    limit: usize,
    /// Go on with what changes, a line each, until the job has ended: `+` is there, `-` is not any more
    #[arg(long)]
    watch: bool,
}

/// Lists where available instances can be reached, in order of group and number.
pub async fn list(context: &Context, filter: Filter) -> Result<(), Failure> {
    let group = filter
        .group
        .as_ref()
        .map(|g| format!("/groups/{g}"))
        .unwrap_or_default();
    if filter.watch {
        let request = v1::WatchEndpointsRequest {
            parent: format!("jobs/{}{group}", filter.job),
            cluster: filter.cluster,
        };
        return watch(context, request).await;
    }
    let request = v1::ListEndpointsRequest {
        parent: format!("jobs/{}{group}", filter.job),
        cluster: filter.cluster,
        ..v1::ListEndpointsRequest::default()
    };
    let found = client::endpoints(&context.client().await?, request, filter.limit).await?;
    let all = &found.rows;
    let listing = Listing {
        columns: &[
            "INSTANCE",
            "HOST",
            "PORTS",
            "AVAILABLE FOR",
            "CLUSTER",
            "AGE",
            "VERSION",
            "TASK",
        ],
        narrow: 7,
        rows: all.iter().map(row).collect(),
        names: all.iter().map(|e| format!("{}/{}", e.group, e.number)).collect(),
        values: all.iter().map(|e| output::message("Endpoint", e)).collect(),
    };
    output::print(output::list(&listing, context.format()));
    let left_out = output::left_out("endpoints", all.len(), found.more, found.total);
    left_out.iter().for_each(output::remark);
    for text in doubts(all) {
        output::remark(output::escape(&text));
    }
    Ok(())
}

/// How many of the marked ones are at which cluster, how old that is, and why they may be gone.
fn doubts(all: &[v1::Endpoint]) -> Vec<String> {
    let stale = || all.iter().filter(|e| e.stale);
    let unconfirmed = shape::unconfirmed_rows(stale().map(|e| (e.cluster.as_str(), e.age.as_ref())));
    let reasons: BTreeSet<&str> = stale().map(|e| e.stale_reason.as_str()).collect();
    let reasons = reasons.into_iter().filter(|reason| !reason.is_empty());
    unconfirmed
        .into_iter()
        .chain(reasons.map(str::to_owned))
        .collect()
}

/// What a watch was told so far: over broken streams, too.
#[derive(Default)]
struct Seen {
    known: BTreeMap<(String, u32), v1::Endpoint>,
    /// Told of the list that is being told anew.
    anew: BTreeSet<(String, u32)>,
}

impl Seen {
    /// Takes an answer in; what it says that was not known, in lines.
    fn lines(&mut self, told: &v1::WatchEndpointsResponse) -> Vec<String> {
        if told.begins {
            self.anew.clear();
        }
        let mut out = Vec::new();
        for e in &told.endpoints {
            let key = (e.group.clone(), e.number);
            self.anew.insert(key.clone());
            // An age alone is no change.
            let kept = v1::Endpoint {
                age: None,
                ..e.clone()
            };
            if self.known.get(&key) != Some(&kept) {
                out.push(format!("+ {}", output::escape(&change(e))));
                self.known.insert(key, kept);
            }
        }
        let mut gone: Vec<(String, u32)> = told.gone.iter().map(|e| (e.group.clone(), e.number)).collect();
        if told.whole {
            let left = self.known.keys().filter(|key| !self.anew.contains(key));
            gone.extend(left.cloned());
        }
        for key in gone {
            if self.known.remove(&key).is_some() {
                out.push(format!("- {}/{}", output::escape(&key.0), key.1));
            }
        }
        out
    }
}

async fn watch(context: &Context, request: v1::WatchEndpointsRequest) -> Result<(), Failure> {
    let client = context.client().await?;
    let json = context.format() == Format::Json;
    let mut seen = Seen::default();
    let follow = client.watch_endpoints(request, |told| {
        if json {
            output::line(output::message("WatchEndpointsResponse", told));
        } else {
            seen.lines(told).iter().for_each(output::line);
        }
        false
    });
    tokio::select! {
        done = follow => Ok(done?),
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, String::new())),
    }
}

/// A line of a watch, with why the endpoint may be gone.
fn change(e: &v1::Endpoint) -> String {
    let cells = row(e).join("  ");
    if e.stale_reason.is_empty() {
        cells
    } else {
        format!("{cells}  ({})", e.stale_reason)
    }
}

fn row(e: &v1::Endpoint) -> Vec<String> {
    let doubt = if e.stale { "?" } else { "" };
    vec![
        format!("{}/{}{doubt}", e.group, e.number),
        e.hostname.clone(),
        shape::ports(&e.ports),
        shape::ago(e.since.as_ref()),
        e.cluster.clone(),
        shape::age(e.age.as_ref()),
        e.spec_version.to_string(),
        e.task_id.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(number: u32, task: &str) -> v1::Endpoint {
        v1::Endpoint {
            group: "main".to_owned(),
            number,
            hostname: "h".to_owned(),
            task_id: task.to_owned(),
            ..v1::Endpoint::default()
        }
    }

    #[test]
    fn a_marked_endpoint_says_why_and_an_age_alone_is_no_news() {
        let aged = |seconds| v1::Endpoint {
            cluster: "west".to_owned(),
            age: Some(prost_types::Duration { seconds, nanos: 0 }),
            ..endpoint(0, "a")
        };
        let marked = v1::Endpoint {
            stale: true,
            stale_reason: "its cluster west is cut-off".to_owned(),
            ..aged(75)
        };
        let of = |e: &v1::Endpoint| v1::WatchEndpointsResponse {
            endpoints: vec![e.clone()],
            ..v1::WatchEndpointsResponse::default()
        };
        let mut seen = Seen::default();
        assert_eq!(seen.lines(&of(&aged(2))).len(), 1);
        assert!(seen.lines(&of(&aged(5))).is_empty());
        let told = seen.lines(&of(&marked)).remove(0);
        assert!(told.starts_with("+ main/0?  "), "{told}");
        assert!(told.contains("  west  1m  "), "{told}");
        assert!(told.ends_with("(its cluster west is cut-off)"), "{told}");
        assert_eq!(
            doubts(&[aged(2), marked]),
            [
                "those with a `?` are as last reported: 1 at west unconfirmed for 1m",
                "its cluster west is cut-off"
            ]
        );
        assert!(doubts(&[aged(2)]).is_empty());
    }

    fn told(endpoints: &[(u32, &str)], begins: bool, whole: bool) -> v1::WatchEndpointsResponse {
        v1::WatchEndpointsResponse {
            endpoints: endpoints.iter().map(|(n, task)| endpoint(*n, task)).collect(),
            begins,
            whole,
            ..v1::WatchEndpointsResponse::default()
        }
    }

    /// First words of the lines.
    fn lines(seen: &mut Seen, told: &v1::WatchEndpointsResponse) -> Vec<String> {
        let first = |line: &String| line.split("  ").next().unwrap_or_default().to_owned();
        seen.lines(told).iter().map(first).collect()
    }

    #[test]
    fn a_list_that_is_told_anew_says_only_what_is_new_and_what_has_gone() {
        let mut seen = Seen::default();
        assert_eq!(
            lines(&mut seen, &told(&[(0, "a"), (1, "b")], true, true)),
            ["+ main/0", "+ main/1"]
        );
        let mut gone = told(&[], false, false);
        gone.gone = vec![v1::GoneEndpoint {
            group: "main".to_owned(),
            number: 0,
        }];
        assert_eq!(lines(&mut seen, &gone), ["- main/0"]);
        // The stream broke and begins again, in two parts.
        assert_eq!(lines(&mut seen, &told(&[(0, "c")], true, false)), ["+ main/0"]);
        assert_eq!(
            lines(&mut seen, &told(&[(2, "d")], false, true)),
            ["+ main/2", "- main/1"]
        );
    }
}
