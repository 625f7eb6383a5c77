//! Endpoints of a job for Prometheus' HTTP service discovery: all of them in one list, or an error, on which Prometheus keeps what it has.

use crate::context::Gateway;
use crate::endpoints;
use crate::error::status;
use crate::json::error::problem;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use echelon_core_gateway::instances::{InstanceFilter, InstanceView, RecordSource};
use echelon_core_gateway::{ApiError, resource};
use echelon_core_model::GroupName;
use echelon_core_model::instance::Run;
use echelon_core_model::runtime::Port;
use http::header;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Serves `/http_sd/jobs/{job}?group=...&port=...`: each port of each endpoint, or only that of a name.
pub(crate) async fn serve(
    State(gateway): State<Gateway>,
    Path(job): Path<String>,
    Query(fields): Query<BTreeMap<String, String>>,
) -> Response {
    match targets(&gateway, &job, &fields).await {
        Ok(all) => (
            [(header::CONTENT_TYPE, "application/json")],
            Value::Array(all).to_string(),
        )
            .into_response(),
        Err(error) => problem(&status(&error)),
    }
}

async fn targets(
    gateway: &Gateway,
    job: &str,
    fields: &BTreeMap<String, String>,
) -> Result<Vec<Value>, ApiError> {
    let group = fields.get("group").map(|g| GroupName::parse(g));
    let group = group
        .transpose()
        .map_err(|e| ApiError::field("group", e.to_string()))?;
    let asked = resource::job(&format!("jobs/{job}"), "job")?;
    let filter = InstanceFilter {
        group,
        ..InstanceFilter::default()
    };
    let (_, found) = endpoints::all(gateway, &asked, &filter).await?;
    let port = fields.get("port").map(String::as_str);
    Ok(found.iter().flat_map(|i| of_instance(i, job, port)).collect())
}

fn of_instance(view: &InstanceView, job: &str, port: Option<&str>) -> Vec<Value> {
    let Some((run, source)) = view.endpoint() else {
        return Vec::new();
    };
    let wanted = run
        .ports
        .iter()
        .filter(|p| port.is_none_or(|name| p.name == name));
    wanted.map(|p| target(view, (run, source), p, job)).collect()
}

/// Where something can be scraped, with what is known of it, in Prometheus' form.
fn target(view: &InstanceView, endpoint: (&Run, &RecordSource), port: &Port, job: &str) -> Value {
    let (run, source) = endpoint;
    let age = source.age.map(|age| (age.0 / 1000).to_string());
    json!({
        "targets": [format!("{}:{}", run.hostname, port.number)],
        "labels": {
            "__meta_echelon_job": job,
            "__meta_echelon_group": view.group.as_str(),
            "__meta_echelon_instance": view.number.to_string(),
            "__meta_echelon_cluster": source.part.name,
            "__meta_echelon_cluster_health": source.part.health.word(),
            "__meta_echelon_stale": source.part.is_stale().to_string(),
            "__meta_echelon_age_seconds": age.unwrap_or_default(),
            "__meta_echelon_host": &*run.hostname,
            "__meta_echelon_port": port.name,
            "__meta_echelon_version": run.spec_version.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_gateway::view::{Federation, Part};
    use echelon_core_model::health::Health;
    use echelon_core_model::instance::InstanceRecord;
    use echelon_core_model::{
        ClusterId, Generation, HostId, InstanceNumber, Reason, ReasonCode, RunState, Span, Timestamp,
    };

    fn view() -> InstanceView {
        let part = Part {
            health: Health::CutOff,
            ..Federation::default().part(&ClusterId::new("west"), Timestamp(1))
        };
        let port = |name: &str, number| Port {
            name: name.to_owned(),
            number,
        };
        let run = Run {
            ports: vec![port("http", 31_000), port("admin", 31_001)].into(),
            available_at: Some(Timestamp(1)),
            ..Run::first(RunState::Running, HostId::new("h"), "host-1", Timestamp(1))
        };
        InstanceView {
            group: GroupName::new("main"),
            number: InstanceNumber(3),
            state: Some(RunState::Running),
            reason: Reason::new(ReasonCode::Running),
            since: None,
            cluster: None,
            record: Some(InstanceRecord {
                generation: run.generation,
                run: Some(run),
                ..InstanceRecord::default()
            }),
            source: Some(RecordSource {
                part,
                generation: Generation(1),
                former: None,
                age: Some(Span::seconds(75)),
            }),
            ended: false,
            crash_loops: false,
        }
    }

    #[test]
    fn each_port_is_a_target_or_only_that_of_a_name() {
        let all = of_instance(&view(), "web", None);
        let targets: Vec<&str> = all.iter().filter_map(|t| t["targets"][0].as_str()).collect();
        assert_eq!(targets, ["host-1:31000", "host-1:31001"]);
        let one = of_instance(&view(), "web", Some("admin"));
        assert_eq!(one.len(), 1);
        assert_eq!(one[0]["labels"]["__meta_echelon_instance"], "3");
        let label = |name: &str| one[0]["labels"][format!("__meta_echelon_{name}")].clone();
        assert_eq!(
            [
                label("cluster"),
                label("cluster_health"),
                label("stale"),
                label("age_seconds")
            ],
            ["west", "cut-off", "true", "75"]
        );
        assert!(of_instance(&view(), "web", Some("other")).is_empty());
    }
}
