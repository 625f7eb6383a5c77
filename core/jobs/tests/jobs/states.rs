//! Every row of the table of a run's states is visited, and nothing else is.

use crate::{ALL_TOLD, FIRST, NOW, begun, news, policy, record};
use echelon_core_jobs::{give_up, give_up_stopping, hear, settle_older, stop_older, stop_run};
use echelon_core_model::instance::InstanceRecord;
use echelon_core_model::run::TRANSITIONS;
use echelon_core_model::spec::JobKind;
use echelon_core_model::time::Span;
use echelon_core_model::{ReasonCode, RunState};
use std::collections::BTreeSet;

/// A record whose latest run is in a state, or, when that was given up, is kept as an older one.
fn in_state(state: RunState) -> InstanceRecord {
    let mut of = record(state);
    if state == RunState::Lost {
        of = record(RunState::Running);
        give_up(&mut of, NOW);
    }
    of
}

/// The state of the first run, wherever it is kept; of an older one that is known dead none is.
fn state(of: &InstanceRecord) -> Option<RunState> {
    let mut runs = of.run.iter().chain(&of.older);
    runs.find(|r| (r.generation, r.number) == FIRST).map(|r| r.state)
}

/// All that can happen to a run, each in a copy of its own.
fn ways(from: RunState) -> Vec<InstanceRecord> {
    let mut out = Vec::new();
    let mut one = |act: &dyn Fn(&mut InstanceRecord)| {
        let mut of = in_state(from);
        act(&mut of);
        out.push(of);
    };
    for told in ALL_TOLD {
        for kind in [JobKind::Batch, JobKind::Service] {
            one(&|of| {
                hear(of, FIRST, &news(told), Some(&policy(kind)), NOW);
            });
        }
    }
    one(&|of| {
        stop_run(of, ReasonCode::StopRequested.into(), Span::ZERO, NOW);
    });
    one(&|of| {
        if of.run.as_ref().is_some_and(|r| r.may_have_task()) {
            give_up(of, NOW);
        }
    });
    one(&|of| {
        if of.run.as_ref().is_some_and(|r| r.state == RunState::Stopping) {
            give_up_stopping(of, &policy(JobKind::Batch), NOW);
        }
    });
    for followed in [false, true] {
        one(&|of| {
            if followed {
                begun(of);
            }
            settle_older(of, FIRST, false, Span::ZERO, NOW);
        });
    }
    one(&|of| {
        let reason = ReasonCode::HostUnreachable.into();
        if let Some(older) = of.older.first_mut() {
            stop_older(older, reason, Span::ZERO, NOW);
        }
    });
    out
}

#[test]
fn every_row_is_visited_and_nothing_else_is() {
    let mut seen: BTreeSet<(RunState, RunState)> = BTreeSet::new();
    for from in RunState::ALL {
        if matches!(from, RunState::Pending | RunState::Placing) {
            continue;
        }
        for of in ways(from) {
            let to = state(&of).unwrap_or(from);
            if to != from {
                seen.insert((from, to));
            }
        }
    }
    // The end of an older run that is known dead is in its event, and in the record only while no newer one is there.
    let mut first = InstanceRecord::default();
    let before = first.state();
    begun(&mut first);
    seen.insert((before, first.state()));
    let rows: BTreeSet<(RunState, RunState)> = TRANSITIONS.iter().map(|(a, b, _)| (*a, *b)).collect();
    let missing: Vec<_> = rows.difference(&seen).collect();
    let beyond: Vec<_> = seen.difference(&rows).collect();
    assert!(
        missing.is_empty() && beyond.is_empty(),
        "never visited: {missing:?}; not in the table: {beyond:?}"
    );
}
