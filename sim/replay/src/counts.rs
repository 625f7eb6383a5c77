//! What a replay cost: writes, messages and moves.

use echelon_core_model::assignment::{AssignedRange, Assignment};
use echelon_core_model::directive::{Directive, Order, Report, ReportPart};
use echelon_core_model::store::{Decision, Op};
use echelon_core_model::{ClusterId, Generation, GroupName, InstanceRange, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// How often things happened, from the first moment of the trace on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Instances that began, those that began again included.
    pub starts: u64,
    /// Conditional writes of assignments.
    pub conditional_writes: u64,
    /// Commits of owned rows.
    pub owned_commits: u64,
    /// Directives to shards.
    pub directives: u64,
    /// Slices that these ordered.
    pub orders: u64,
    /// Messages from shards.
    pub messages: u64,
    /// Slices that these reported.
    pub reports: u64,
    /// Ranges, or parts of them, that were marked to go to another cluster.
    pub moves: u64,
    /// The same, marked to go to no cluster.
    pub returns: u64,
    /// The most instances that waited at once.
    pub peak_waiting: u64,
    /// The most things that the resource manager held, by its footprint, looked at once a minute.
    pub peak_held: u64,
}

/// What is marked of a range, and where it is to go.
type Mark = (
    GroupName,
    InstanceRange,
    Generation,
    Option<ClusterId>,
    Option<u64>,
);

/// Counts what passes.
#[derive(Debug, Default)]
pub struct Counter {
    /// The sums.
    pub sums: Counts,
    /// The marks in the newest assignment of each job that has any.
    marked: BTreeMap<JobId, BTreeSet<Mark>>,
}

impl Counter {
    /// An operation is asked of storage.
    pub fn operation(&mut self, op: &Op) {
        match op {
            Op::Decide(Decision::PutAssignments { put, .. }) => {
                self.sums.conditional_writes += 1;
                put.iter().for_each(|assignment| self.assignment(assignment));
            }
            Op::Commit(_) => self.sums.owned_commits += 1,
            Op::Decide(_) | Op::Read(..) => {}
        }
    }

    fn assignment(&mut self, assignment: &Assignment) {
        let mut marks = BTreeSet::new();
        for (group, ranges) in &assignment.groups {
            marks.extend(ranges.iter().filter_map(|range| mark(group, range)));
        }
        let before = self.marked.remove(&assignment.job);
        let is_new = |mark: &&Mark| before.as_ref().is_none_or(|before| !before.contains(*mark));
        for (.., to, _) in marks.iter().filter(is_new) {
            match to {
                Some(_) => self.sums.moves += 1,
                None => self.sums.returns += 1,
            }
        }
        if !marks.is_empty() {
            self.marked.insert(assignment.job, marks);
        }
    }

    /// A directive is sent.
    pub fn directive(&mut self, directive: &Directive) {
        self.sums.directives += 1;
        if let Order::Slices(orders) = &directive.order {
            self.sums.orders += count(orders.len());
        }
    }

    /// A report arrives.
    pub fn report(&mut self, report: &Report) {
        self.sums.messages += 1;
        if let ReportPart::Slices(slices) = &report.part {
            self.sums.reports += count(slices.len());
        }
    }
}

fn mark(group: &GroupName, of: &AssignedRange) -> Option<Mark> {
    let mark = of.releasing.as_ref()?;
    Some((
        group.clone(),
        of.range,
        of.generation,
        mark.to.clone(),
        mark.count,
    ))
}

/// A length as a number of 64 bits.
pub fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
