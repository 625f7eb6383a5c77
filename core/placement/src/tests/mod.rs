//! The language of the tests, then tables, then properties against a plain one-by-one reference.

mod cases;
mod example;
mod fits;
mod former;
mod gangs;
mod host_pools;
mod model;
mod packing;
mod properties;
mod rules;
mod size;
mod together;
mod victims;

use crate::{Answer, Problem, Wanted, check, place};
use echelon_core_model::cluster::{HostView, Slack};
use echelon_core_model::siting::Constraint;
use echelon_core_model::spec::JobKind;
use echelon_core_model::{HostId, HostPoolName, JobId, PortSet, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn host(name: &str, free: Resources) -> HostView {
    HostView {
        id: HostId::new(name),
        hostname: Arc::from(format!("{name}.example")),
        attributes: Arc::default(),
        host_pool: HostPoolName::default(),
        free,
        capacity: free,
        used: Resources::ZERO,
        slack: Slack::default(),
        draining: false,
        kept: false,
        others: echelon_core_model::sharing::Others::default(),
        ports: PortSet::new(),
        ports_left: None,
    }
}

pub fn with_attribute(mut host: HostView, name: &str, value: &str) -> HostView {
    Arc::make_mut(&mut host.attributes).insert(name.to_owned(), value.to_owned());
    host
}

pub fn in_pool(mut host: HostView, name: &str) -> HostView {
    host.host_pool = HostPoolName::new(name);
    host
}

pub fn kept(mut host: HostView, gpus: u64) -> HostView {
    host.free.gpus = gpus * 1000;
    host.capacity.gpus = gpus * 1000;
    host.kept = true;
    host
}

pub fn lending(mut host: HostView, lent: Resources) -> HostView {
    host.slack.free = lent;
    host.slack.capacity = lent;
    host
}

pub fn with_ports(mut host: HostView, first: u16, last: u16) -> HostView {
    host.ports.insert(first, last);
    host.ports_left = Some(host.ports.clone());
    host
}

pub fn group(job: u128, kind: JobKind, instances: u32, resources: Resources) -> Wanted {
    Wanted::plain(JobId(job), kind, instances, resources)
}

pub fn rule(attribute: &str, values: &[&str], negate: bool) -> Constraint {
    Constraint {
        negate,
        ..Constraint::one_of(attribute, values)
    }
}

pub fn problem(token: u64, groups: Vec<Wanted>, hosts: Vec<HostView>) -> Problem {
    Problem {
        token,
        groups,
        hosts: Arc::new(hosts.into()),
        ..Problem::default()
    }
}

/// Solves, has the answer judged, and shows it: a line a group, then the reasons.
pub fn solve(problem: &Problem) -> String {
    let answer = judged(problem);
    let mut lines: BTreeMap<JobId, Vec<String>> = BTreeMap::new();
    for c in &answer.choices {
        let line = lines.entry(c.instance.job).or_default();
        let ports: String = c.ports.iter().map(|p| format!("+{p}")).collect();
        line.push(format!("{}:{}{ports}", c.instance.number, c.host));
    }
    let mut out: Vec<String> = lines
        .into_iter()
        .map(|(job, places)| format!("{} {}", job.0, places.join(" ")))
        .collect();
    let why = |u: &crate::Unplaced| format!("{} [{}] {}", u.job.0, u.numbers, u.reason);
    out.extend(answer.unplaced.iter().map(why));
    out.join("\n")
}

pub fn judged(problem: &Problem) -> Answer {
    let (answer, report) = place(problem);
    let broken: Vec<String> = check(problem, &answer).iter().map(ToString::to_string).collect();
    assert!(broken.is_empty(), "{broken:#?}\n{problem:#?}\n{answer:#?}");
    assert_eq!(report.placed, answer.choices.len());
    answer
}
