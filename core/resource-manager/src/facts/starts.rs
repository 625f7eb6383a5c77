//! The share of starts that fail at a cluster by the platform, compared over all clusters. A cluster that
//! fails everything quickly always has capacity left, so it would attract all work. One team's bad image
//! must not condemn a cluster, though, and neither must one bad host, or what fails at all clusters alike.
//!
//! The share is the median, over groups of starts (one pool, image and set of files), of failed / begun
//! within five minutes. So a group counts once, however many starts it has. It is known only with enough
//! evidence:
//!
//! | rule | because |
//! | --- | --- |
//! | at least 3 groups | one team's image is one group |
//! | failures on at least 3 hosts | a bad host is avoided as a host |
//! | at least 10 starts | a few failures are chance |
//! | a group that fails elsewhere, too, is left out | its image or a store of all clusters is bad |
//!
//! A share that is not known has no effect, and ends the state. So does a report that is older than the
//! window: what it counted is over. A new leader of the shard begins to count anew.
//!
//! At such a cluster new work is a last resort. It gets no trickle of trial starts: what runs there is
//! restarted there, jobs that may use no other cluster start there, and where nothing starts at all the
//! counts are over after five minutes, so the cluster is tried again after the hold against flapping. A
//! trickle would need a budget in routing that survives a change of leaders, to gain at most these minutes.

use crate::facts::cluster::ClusterView;
use echelon_core_model::health::HealthCause;
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::starts::{GroupStarts, HostHash, START_WINDOW, StartCounts, StartGroup};
use echelon_core_model::{ClusterId, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Fewest groups.
const FEWEST_GROUPS: usize = 3;
/// Fewest hosts on which something failed.
const FEWEST_HOSTS: usize = 3;
/// Fewest starts of all groups together.
const FEWEST_STARTS: u64 = 10;
/// Fewest starts of a group at another cluster that show how it does there.
const FEWEST_ELSEWHERE: u64 = 3;
/// A cluster is degraded from this share on, in percent.
const ENTERS: u32 = 50;
/// Once degraded it stays so above this share, in percent.
const LEAVES: u32 = 20;

/// The share of starts that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FailedShare {
    /// The median over groups, in percent.
    pub(crate) percent: u32,
    /// What most of the failing groups fail by.
    pub(crate) by: PlatformCause,
}

/// What is known of a cluster's starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KnownStarts {
    /// The last report over the present stream, and when it came.
    report: Option<(Arc<StartCounts>, Timestamp)>,
    /// Its share as it was last compared; `None`: it is not known, or nothing fails.
    share: Option<FailedShare>,
}

impl KnownStarts {
    /// Takes a report in. It replaces the one before.
    pub(crate) fn take(&mut self, report: StartCounts, now: Timestamp) {
        self.report = Some((Arc::new(report), now));
    }

    /// The counts that are not over.
    fn counts(&self, now: Timestamp) -> Option<&StartCounts> {
        let (counts, at) = self.report.as_ref()?;
        (now.since(*at) < START_WINDOW).then_some(counts)
    }

    /// That starts fail, by the share and by the causes of the health before.
    pub(crate) fn cause(&self, before: &[HealthCause]) -> Option<HealthCause> {
        let FailedShare { percent, by } = self.share?;
        let is_degraded = before.iter().any(HealthCause::is_of_starts);
        let fails = percent >= ENTERS || (is_degraded && percent > LEAVES);
        fails.then_some(HealthCause::StartsFail { percent, by })
    }
}

/// How a group does at a cluster.
#[derive(Debug, Clone, Copy)]
struct GroupRecord<'a> {
    cluster: &'a ClusterId,
    begun: u64,
    failed: u64,
}

impl<'a> GroupRecord<'a> {
    /// What has failed had begun, although an earlier leader of the shard may have counted that.
    fn of(cluster: &'a ClusterId, group: &GroupStarts) -> Self {
        Self {
            cluster,
            begun: group.begun.max(group.failed).into(),
            failed: group.failed.into(),
        }
    }

    /// Whether it fails at least half as often as another one: of what has just begun there, some has not
    /// failed yet.
    fn fails_like(&self, other: &Self) -> bool {
        let product = |failed: u64, begun: u64| u128::from(failed) * u128::from(begun);
        product(self.failed, other.begun) * 2 >= product(other.failed, self.begun)
    }
}

/// How each group does at each cluster.
type GroupRecords<'a> = BTreeMap<StartGroup, Vec<GroupRecord<'a>>>;

/// Compares the starts of all clusters, and notes the share of each. `O(clusters x groups)`, with at most
/// 64 groups each; nothing while nothing fails anywhere.
pub(crate) fn compare_starts(clusters: &mut BTreeMap<ClusterId, ClusterView>, now: Timestamp) {
    let known = clusters
        .iter()
        .filter_map(|(id, view)| Some((id, view.starts.counts(now)?)));
    let known: Vec<(&ClusterId, &StartCounts)> = known.collect();
    let fails = |counts: &StartCounts| counts.groups.iter().any(|group| group.failed > 0);
    let mut shares = BTreeMap::new();
    if known.iter().any(|(_, counts)| fails(counts)) {
        let records = records(&known);
        let share =
            |(id, counts): &(&ClusterId, &StartCounts)| Some(((*id).clone(), share(id, counts, &records)?));
        shares = known.iter().filter_map(share).collect();
    }
    for (id, view) in clusters {
        view.starts.share = shares.get(id).copied();
    }
}

fn records<'a>(known: &[(&'a ClusterId, &'a StartCounts)]) -> GroupRecords<'a> {
    let mut records = GroupRecords::new();
    for (cluster, counts) in known {
        for group in &counts.groups {
            let record = GroupRecord::of(cluster, group);
            records.entry(group.group).or_default().push(record);
        }
    }
    records
}

/// Whether a group fails as often at every other cluster that has begun enough of it, and at one at least.
fn fails_elsewhere(own: &GroupRecord<'_>, of_group: &[GroupRecord<'_>]) -> bool {
    let others = of_group.iter().filter(|r| r.cluster != own.cluster);
    let mut others = others.filter(|r| r.begun >= FEWEST_ELSEWHERE).peekable();
    own.failed > 0 && others.peek().is_some() && others.all(|r| r.fails_like(own))
}

/// The share of a cluster's starts that fail; `None`: it is not known, or nothing fails.
fn share(id: &ClusterId, counts: &StartCounts, records: &GroupRecords<'_>) -> Option<FailedShare> {
    let own = counts
        .groups
        .iter()
        .map(|group| (group, GroupRecord::of(id, group)));
    let is_left_out = |group: &GroupStarts, own: &GroupRecord<'_>| {
        let of_group = records.get(&group.group).map_or(&[][..], Vec::as_slice);
        fails_elsewhere(own, of_group)
    };
    let kept = own.filter(|(group, own)| own.begun > 0 && !is_left_out(group, own));
    let kept: Vec<(&GroupStarts, GroupRecord<'_>)> = kept.collect();
    let hosts: BTreeSet<HostHash> = kept.iter().flat_map(|(group, _)| group.hosts.clone()).collect();
    let starts: u64 = kept.iter().map(|(_, own)| own.begun).sum();
    if kept.len() < FEWEST_GROUPS || hosts.len() < FEWEST_HOSTS || starts < FEWEST_STARTS {
        return None;
    }
    let mut percents: Vec<u64> = kept.iter().map(|(_, own)| own.failed * 100 / own.begun).collect();
    percents.sort_unstable();
    // Of an even number the lower one in the middle: in doubt a cluster is not condemned.
    let percent = *percents.get((percents.len() - 1) / 2)?;
    let failing = kept.iter().filter_map(|(group, _)| group.cause);
    let mut causes: BTreeMap<PlatformCause, u32> = BTreeMap::new();
    failing.for_each(|cause| *causes.entry(cause).or_default() += 1);
    let by = causes.into_iter().max_by_key(|(cause, n)| (*n, Reverse(*cause)));
    Some(FailedShare {
        percent: u32::try_from(percent).unwrap_or(100),
        by: by?.0,
    })
}

#[cfg(test)]
mod tests;
