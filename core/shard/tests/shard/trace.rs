//! A whole run as a golden text: every effect between the order and the end, in order.

use crate::world::{World, job, range, seconds};
use echelon_core_hosts::{Call, TaskState};
use echelon_core_model::directive::ReportPart;
use echelon_core_model::store::{Op, Write};
use echelon_core_shard::Effect;
use echelon_core_testkit::build::JobBuilder;

/// A line for each effect that matters to a run.
pub fn note(trace: &mut Vec<String>, effect: &Effect) {
    let line = match effect {
        Effect::Storage(_, Op::Commit(batch)) => {
            let parts: Vec<String> = batch.writes.iter().filter_map(write).collect();
            if parts.is_empty() {
                return;
            }
            format!("commit {}", parts.join(" "))
        }
        Effect::Storage(_, Op::Decide(_)) => "decide".to_owned(),
        Effect::Storage(_, Op::Read(..)) => return,
        Effect::Cluster(call) => call_line(call),
        Effect::Report(_, report) => match &report.part {
            ReportPart::Slices(slices) => {
                let of = |s: &echelon_core_model::directive::SliceReport| {
                    format!(
                        "held {} active {} succeeded {} live {}",
                        s.held, s.active, s.succeeded, s.live
                    )
                };
                format!("report {}", slices.iter().map(of).collect::<Vec<_>>().join("; "))
            }
            _ => return,
        },
        Effect::Place(problem) => format!("place {} on {} hosts", problem.items(), problem.hosts.len()),
        Effect::FetchTails(asked) => format!("read the logs of {}", asked.run),
        Effect::Publish(epoch) => format!("publish epoch {epoch}"),
        Effect::Admit(_) | Effect::Mark(_) => return,
        Effect::Refuse { why, .. } => format!("refuse a stream: {why}"),
        Effect::StepDown { why } => format!("step down: {why}"),
        Effect::Alarm(alarm) => format!("alarm: {alarm}"),
    };
    trace.push(line.replace(&job().to_string(), "JOB"));
}

fn call_line(call: &Call) -> String {
    match call {
        Call::Subscribe { framework } => format!("SUBSCRIBE {framework:?}"),
        Call::Accept { host, launches, .. } => {
            let tasks: Vec<String> = launches.iter().map(|l| l.task.to_string()).collect();
            format!("ACCEPT {host} {}", tasks.join(" "))
        }
        Call::Discard { host, reserved, .. } => format!("DISCARD {host} {}", reserved.len()),
        Call::AcknowledgeOperation { id, .. } => format!("ACKNOWLEDGE_OPERATION {id}"),
        Call::Decline { offers, .. } => format!("DECLINE {}", offers.len()),
        Call::DrainAgent { host } => format!("DRAIN_AGENT {host}"),
        Call::ReactivateAgent { host } => format!("REACTIVATE_AGENT {host}"),
        Call::ListAgents => "LIST_AGENTS".to_owned(),
        Call::ReadFlags { host, .. } => format!("READ_FLAGS {host}"),
        Call::Revive => "REVIVE".to_owned(),
        Call::Suppress => "SUPPRESS".to_owned(),
        Call::AnswerInverse { host, accept, .. } => format!("ANSWER_INVERSE {host} {accept}"),
        Call::UpdateFramework => "UPDATE_FRAMEWORK".to_owned(),
        Call::Kill { task, .. } => format!("KILL {task}"),
        Call::Acknowledge { task, .. } => format!("ACKNOWLEDGE {task}"),
        Call::TearDown => "TEARDOWN".to_owned(),
        Call::Reconcile { tasks } => format!("RECONCILE {}", tasks.len()),
    }
}

fn write(write: &Write) -> Option<String> {
    match write {
        Write::Block(block) => {
            let states = block.instances.iter().map(|(n, r)| format!("{n}:{}", r.state()));
            Some(format!("block[{}]", states.collect::<Vec<_>>().join(" ")))
        }
        Write::Slice(_) => Some("slice".to_owned()),
        Write::Event(e) => Some(format!("event({})", e.state.map_or("-", |s| s.word()))),
        Write::Log(log) => Some(format!("log({})", log.task())),
        _ => None,
    }
}

#[test]
fn a_job_of_two_from_order_to_end() {
    let mut w = World::serving();
    let spec = JobBuilder::batch("hello", 2).build();
    w.store_job(&spec);
    w.trace.clear();
    w.order(&[range(0, 1)], 2);
    w.run(seconds(1));
    for n in 0..2 {
        let task = w.task(n, 1);
        w.cluster.set(&task, TaskState::Finished);
    }
    w.run(seconds(1));
    insta::assert_snapshot!(w.trace.join("\n"));
}
