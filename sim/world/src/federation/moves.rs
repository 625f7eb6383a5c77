//! No ping-pong: after the last change of the world each instance visits no cluster twice, and in the last
//! minutes nothing begins at another cluster than before.

use crate::world::World;
use echelon_core_model::{InstanceId, Span, Timestamp};
use std::collections::BTreeSet;

/// The invariant that is judged here.
const INVARIANT: u8 = 32;
/// In the end nothing moves for so long.
const AT_REST: Span = Span::minutes(2);

/// The clusters that an instance has visited, in order, each with when it came there.
type Visits = Vec<(Timestamp, usize)>;

/// Whether a cluster is visited that was left before, at a visit after this moment.
fn returns(visits: &Visits, after: Timestamp) -> Option<usize> {
    let last_before = visits.iter().rposition(|(at, _)| *at <= after).unwrap_or(0);
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let visits = visits.iter().skip(last_before);
    visits
        .map(|(_, cluster)| *cluster)
        .find(|cluster| !seen.insert(*cluster))
}

impl World {
    fn visits(&self, instance: &InstanceId) -> Visits {
        let mut visits = Visits::new();
        for (_, run) in self.federation.runs.of_instance(instance) {
            if visits.last().is_none_or(|(_, cluster)| *cluster != run.cluster) {
                visits.push((run.began, run.cluster));
            }
        }
        visits
    }

    /// In the end: nothing goes to and fro.
    pub(super) fn judge_moves(&mut self) {
        let (change, now) = (self.last_change(), self.now);
        let runs = self.federation.runs.all();
        let instances: BTreeSet<InstanceId> = runs.map(|(task, _)| task.instance.clone()).collect();
        for instance in instances {
            let visits = self.visits(&instance);
            self.federation.figures.moved += u64::from(visits.len() > 1);
            if let Some(cluster) = returns(&visits, change) {
                self.break_rule(INVARIANT, format!("{instance} is back at c{cluster}: {visits:?}"));
            }
            let last = visits.last().filter(|_| visits.len() > 1);
            if last.is_some_and(|(at, _)| now.since(*at) < AT_REST) {
                self.break_rule(
                    INVARIANT,
                    format!("{instance} still moves in the end: {visits:?}"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_back_after_the_last_change_goes_to_and_fro() {
        let visits = |clusters: &[usize]| -> Visits {
            let all = clusters.iter().zip(1..);
            all.map(|(cluster, at)| (Timestamp(at), *cluster)).collect()
        };
        assert_eq!(returns(&visits(&[0, 1, 0]), Timestamp(9)), None);
        assert_eq!(returns(&visits(&[0, 1, 0]), Timestamp(2)), None);
        assert_eq!(returns(&visits(&[0, 1, 0]), Timestamp(1)), Some(0));
        assert_eq!(returns(&visits(&[0, 1, 2]), Timestamp(0)), None);
        assert_eq!(returns(&visits(&[0, 1, 2, 1]), Timestamp(2)), Some(1));
    }
}
