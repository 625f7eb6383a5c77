//! Why instances wait. Every wanted instance that is neither active nor ended is counted under exactly one
//! reason, with the time since when it applies. Beside them there are active ones with a replacement that
//! waits for an operator or finds no host.

use crate::admission::router::GroupOf;
use crate::assignment::indexes::missing;
use crate::demand::slices::{Line, lines};
use crate::facts::FederationFacts;
use crate::facts::job::JobView;
use crate::facts::known::KnownWaiting;
use crate::facts::slice::{SliceCount, SliceKey};
use crate::lifecycle::dependencies;
use crate::picture::Picture;
use crate::progress::refused::{Refused, Unbound, refused, unbound_reason};
use echelon_core_model::directive::{Capacity, SliceReport};
use echelon_core_model::health::HealthCause;
use echelon_core_model::job::Waiting;
use echelon_core_model::reason::{Layer, Shortfall};
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, GroupName, JobId, Reason, ReasonCode, Resources, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Most reasons of a job that are listed one by one.
const MOST: usize = 64;

/// The reasons of a job's waiting instances. Reasons that were there before keep their time.
#[must_use]
pub fn waiting(picture: &Picture, id: JobId, job: &JobView, now: Timestamp) -> Vec<Waiting> {
    let mut out = dependencies::waiting(&picture.facts, job, now);
    if let Some(spec) = job.running_spec() {
        if let Some(refused) = job.rare.refused.as_ref().filter(|_| job.is_refused()) {
            out.extend(spec.groups.iter().map(|group| Waiting {
                group: group.name.clone(),
                cluster: None,
                reason: Reason::new(ReasonCode::RowRefused).at(&refused.why),
                count: 1,
                since: now,
            }));
        }
        let lines = lines(&picture.facts, id, job);
        let groups = spec.groups.iter();
        out.extend(groups.flat_map(|g| of_group(picture, (id, job), (spec, g), &lines, now)));
    }
    let before = job.progress.as_ref().map_or(&[][..], |p| &*p.waiting);
    for w in &mut out {
        let same =
            |b: &&KnownWaiting| b.group == w.group && b.cluster == w.cluster && b.code == w.reason.code;
        if let Some(old) = before.iter().find(same) {
            w.since = w.since.min(old.since);
        }
    }
    largest(out)
}

/// The reasons with the most instances in their order, and of each group the others in sum.
/// A job with many groups on many clusters has more reasons than fit into its row.
fn largest(all: Vec<Waiting>) -> Vec<Waiting> {
    if all.len() <= MOST {
        return all;
    }
    let mut by_count: Vec<usize> = (0..all.len()).collect();
    by_count.sort_by_key(|i| std::cmp::Reverse(all.get(*i).map_or(0, |w| w.count)));
    let kept: BTreeSet<usize> = by_count.into_iter().take(MOST).collect();
    let mut out = Vec::with_capacity(MOST);
    let mut others: BTreeMap<GroupName, Waiting> = BTreeMap::new();
    for (i, waiting) in all.into_iter().enumerate() {
        if kept.contains(&i) {
            out.push(waiting);
            continue;
        }
        let sum = others.entry(waiting.group.clone()).or_insert_with(|| Waiting {
            cluster: None,
            reason: Reason::new(ReasonCode::OtherReasons),
            count: 0,
            ..waiting.clone()
        });
        sum.count += waiting.count;
        sum.since = sum.since.min(waiting.since);
    }
    out.extend(others.into_values());
    out
}

fn of_group(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    (spec, group): (&JobSpec, &GroupSpec),
    lines: &[Line],
    now: Timestamp,
) -> Vec<Waiting> {
    let mut out = Tally {
        group: &group.name,
        left: u64::from(group.instances),
        out: Vec::new(),
    };
    let all = lines;
    let refused = refused(picture, &picture.admission.rooms, (id, job), (spec, group), lines);
    let lines = lines.iter().filter(|l| l.key.group == group.name);
    let counts: Vec<(&SliceKey, SliceCount)> = lines.map(|l| (&l.key, l.count)).collect();
    let begun = |c: &SliceCount| c.active.saturating_add(c.ended);
    out.left = out
        .left
        .saturating_sub(counts.iter().map(|(_, c)| begun(c)).sum());
    for (key, count) in &counts {
        let waits = count.assigned.saturating_sub(begun(count));
        let refused = refused.iter().find(|r| r.key == **key);
        of_slice(picture, (id, job), (key, waits, refused), now, &mut out);
    }
    let unbound = missing(job, &group.name);
    if unbound > 0 {
        let nowhere = Unbound {
            of: GroupOf { id, spec, group },
            job,
            lines: all,
            begins: 0,
        };
        let router = picture.router();
        let (reason, place) = unbound_reason(&router, &picture.admission, &picture.admission.rooms, &nowhere);
        let reason = place.map_or_else(
            || reason.clone(),
            |place| {
                held(
                    picture.preemption.holders(id, &group.name, &place),
                    reason.clone(),
                )
            },
        );
        out.add(None, reason, unbound, now);
    }
    // Indexes on their way from one place to another are nowhere at the moment.
    out.add(None, Reason::new(ReasonCode::Moved), out.left, now);
    out.out
}

fn of_slice(
    picture: &Picture,
    (id, job): (JobId, &JobView),
    (key, waits, refused): (&SliceKey, u64, Option<&Refused>),
    now: Timestamp,
    out: &mut Tally<'_>,
) {
    let cluster = Some(&key.cluster);
    // What its shard reported last is of no use any more.
    if let Some(reason) = cut_off(picture, key) {
        out.add(cluster, reason, waits, now);
        return;
    }
    let n = refused.map_or(0, |r| r.count).min(waits);
    if let Some(refused) = refused {
        // For quota or capacity it waits like what is bound nowhere.
        let is_of_cluster = matches!(
            refused.reason.code,
            ReasonCode::ClusterUnhealthy | ReasonCode::ClusterCordoned
        );
        out.add(
            cluster.filter(|_| is_of_cluster),
            told(picture, id, refused),
            n,
            now,
        );
    }
    let mut at_shard = waits - n;
    let report = picture.facts.report(id, key);
    let mut retries = report.map_or(0, |r| r.active.saturating_sub(r.live));
    for (reason, told, since) in report.into_iter().flat_map(shard_reasons) {
        let reason = with_why_not(picture, id, key, reason);
        let n = (*told).min(at_shard);
        at_shard -= n;
        // The others that find no host have run before, and still have their grant.
        let again = (told - n).min(retries);
        if again > 0 && reason.code.layer() == Layer::Placement {
            retries -= again;
            out.withheld(&key.cluster, reason.clone(), again, *since);
        }
        out.add(cluster, reason, n, *since);
    }
    let lost = report.into_iter().flat_map(|r| &r.waiting);
    for (reason, n, since) in lost.filter(|(r, ..)| r.code.withholds()) {
        out.withheld(&key.cluster, reason.clone(), *n, *since);
    }
    let heard = picture
        .facts
        .clusters
        .get(&key.cluster)
        .is_some_and(|c| c.takes_grants());
    let code = match (heard, job.grants.get(key)) {
        (false, _) => ReasonCode::ClusterUnhealthy,
        // The shard has the grant and reports nothing more: it is looking for hosts.
        (true, Some(line)) if report.is_some_and(|r| r.grant_number >= line.number()) && !line.is_new() => {
            ReasonCode::AwaitingOffer
        }
        (true, _) => ReasonCode::AwaitingGrant,
    };
    out.add(cluster, Reason::new(code).at(key.cluster.as_str()), at_shard, now);
}

/// Why what is assigned to a cluster that is cut off waits, and when it may go elsewhere by the start lease.
fn cut_off(picture: &Picture, key: &SliceKey) -> Option<Reason> {
    let view = picture.facts.clusters.get(&key.cluster)?;
    let health = view.state.as_ref().map(|state| &state.health)?;
    let name = view.row.as_ref().map_or(key.cluster.as_str(), |row| &row.name);
    let is_silent = health.causes.contains(&HealthCause::ShardSilent);
    let moves_at = view
        .moves_at
        .filter(|_| health.health.is_silence() && is_silent)?;
    let seconds = moves_at.0 / 1000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let text =
        format!("assigned to {name}, which is cut off; may move at {hour:02}:{minute:02}:{second:02} UTC");
    Some(Reason::new(ReasonCode::ClusterUnhealthy).at(text))
}

/// Why a shard finds no host, with why nothing is stopped for it where that is so.
fn with_why_not(picture: &Picture, id: JobId, key: &SliceKey, reason: &Reason) -> Reason {
    let words = &picture.preemption.unplaced.why_not;
    let words = words.get(&(id, key.group.clone()));
    let words = words.filter(|_| reason.code == ReasonCode::HostResources);
    match (words, &reason.detail) {
        (None, _) => reason.clone(),
        (Some(words), None) => reason.clone().at(words),
        (Some(words), Some(detail)) => reason.clone().at(format!("{detail}; {words}")),
    }
}

/// Why a slice gets no more.
fn told(picture: &Picture, id: JobId, refused: &Refused) -> Reason {
    let key = &refused.key;
    let reason = held(
        picture.preemption.holders(id, &key.group, &key.cluster),
        refused.reason.clone(),
    );
    let view = picture.facts.clusters.get(&key.cluster);
    match view.and_then(|view| view.capacity.as_ref()) {
        Some(capacity) => shared(capacity, reason),
        None => reason,
    }
}

/// A reason with what Mesos' quota and other frameworks have to do with it, where a cluster has no capacity
/// left.
fn shared(capacity: &Capacity, reason: Reason) -> Reason {
    let Some(short) = reason.shortfall.as_deref().copied() else {
        return reason;
    };
    if reason.code != ReasonCode::NoClusterCapacity {
        return reason;
    }
    let kind = short.kind;
    let place = reason.detail.as_deref().unwrap_or_default();
    let shape = Resources::ZERO.with(kind, short.need);
    if let Some(limit) = capacity.sharing.limit_for(shape, capacity.used) {
        let text = format!(
            "{place}: the limit of role {} is {}",
            limit.role,
            kind.show(limit.limit)
        );
        let have = limit.left(capacity.used.get(kind)).min(short.have);
        return Reason::new(ReasonCode::MesosQuota)
            .short(Shortfall { have, ..short })
            .at(text);
    }
    let roles = &capacity.sharing.roles;
    if roles.iter().all(|share| share.held.used.get(kind) == 0) {
        return reason;
    }
    let text = format!("{place}: {}", capacity.sharing.roles_in_words(kind));
    // What we have there ourselves is in the way, too.
    let code = if capacity.used.get(kind) == 0 {
        ReasonCode::UsedByOthers
    } else {
        ReasonCode::NoClusterCapacity
    };
    Reason {
        code,
        ..reason.at(text)
    }
}

/// A reason with the pools that have the cluster, where a group waits for it in vain.
fn held(holders: Option<&str>, reason: Reason) -> Reason {
    match holders {
        Some(holders) if reason.code == ReasonCode::NoClusterCapacity => Reason {
            code: ReasonCode::PoolClusterHeld,
            ..reason.at(holders)
        },
        _ => reason,
    }
}

/// What a shard reports of instances that may start. What it reports of missing grants is better known here,
/// and a retry waits as an active instance.
fn shard_reasons(report: &SliceReport) -> impl Iterator<Item = &(Reason, u64, Timestamp)> {
    let told = |r: &Reason| {
        let other = matches!(
            r.code,
            ReasonCode::AwaitingGrant
                | ReasonCode::NoResourceManager
                | ReasonCode::Backoff
                | ReasonCode::MaxRunning
        );
        !other && !r.code.withholds() && r.code.layer() != Layer::Pool
    };
    report.waiting.iter().filter(move |(r, _, _)| told(r))
}

struct Tally<'a> {
    group: &'a GroupName,
    left: u64,
    out: Vec<Waiting>,
}

impl Tally<'_> {
    /// Active instances that are not replaced at the moment:
    /// they wait, too, beside those that are counted out.
    fn withheld(&mut self, cluster: &ClusterId, reason: Reason, count: u64, since: Timestamp) {
        self.tell(Some(cluster), reason, count, since);
    }

    fn add(&mut self, cluster: Option<&ClusterId>, reason: Reason, n: u64, since: Timestamp) {
        let count = n.min(self.left);
        self.left -= count;
        self.tell(cluster, reason, count, since);
    }

    fn tell(&mut self, cluster: Option<&ClusterId>, reason: Reason, count: u64, since: Timestamp) {
        if count == 0 {
            return;
        }
        let same = |w: &&mut Waiting| w.cluster.as_ref() == cluster && w.reason == reason;
        if let Some(w) = self.out.iter_mut().find(same) {
            w.count += count;
            w.since = w.since.min(since);
            return;
        }
        self.out.push(Waiting {
            group: self.group.clone(),
            cluster: cluster.cloned(),
            reason,
            count,
            since,
        });
    }
}

/// Instances of a job that is not to run any more, and that live on because nothing is killed.
pub(crate) fn withheld(facts: &FederationFacts, id: JobId, job: &JobView) -> Vec<Waiting> {
    let mut out = Vec::new();
    for key in job.slices().keys() {
        let told = facts.report(id, key).into_iter().flat_map(|r| &r.waiting);
        let withheld = told.filter(|(reason, ..)| reason.code == ReasonCode::KillsOff);
        out.extend(withheld.map(|(reason, count, since)| Waiting {
            group: key.group.clone(),
            cluster: Some(key.cluster.clone()),
            reason: reason.clone(),
            count: *count,
            since: *since,
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Kind;
    use echelon_core_model::sharing::{Others, RoleShare, Sharing};

    #[test]
    fn a_job_tells_its_largest_reasons_and_the_others_in_sum() {
        let waiting = |n: u64| Waiting {
            group: GroupName::new(if n.is_multiple_of(2) { "even" } else { "odd" }),
            cluster: Some(ClusterId::new(format!("c{n}"))),
            reason: Reason::new(ReasonCode::NoHosts),
            count: n,
            since: Timestamp(1000 - n),
        };
        let few: Vec<Waiting> = (1..=64).map(waiting).collect();
        assert_eq!(largest(few.clone()), few);
        let all: Vec<Waiting> = (1..=300).map(waiting).collect();
        let told = largest(all.clone());
        assert_eq!(told.len(), 66);
        let sum = |list: &[Waiting]| list.iter().map(|w| w.count).sum::<u64>();
        assert_eq!(sum(&told), sum(&all), "every instance is counted");
        let (kept, others) = told.split_at(64);
        assert!(kept.iter().all(|w| w.count > 236));
        let codes: Vec<ReasonCode> = others.iter().map(|w| w.reason.code).collect();
        assert_eq!(codes, [ReasonCode::OtherReasons; 2]);
        let since: Vec<u64> = others.iter().map(|w| w.since.0).collect();
        assert_eq!(since, [764, 765], "since the first of them");
    }

    #[test]
    fn a_cluster_that_others_fill_alone_is_used_by_others() {
        let cpus = |milli| Resources::ZERO.with(Kind::Cpus, milli);
        let role = |used, offered| RoleShare {
            role: "spark".to_owned(),
            held: Others {
                used: cpus(used),
                offered: cpus(offered),
            },
        };
        let short = Shortfall {
            kind: Kind::Cpus,
            have: 500,
            need: 1000,
        };
        let reason = || Reason::new(ReasonCode::NoClusterCapacity).short(short).at("east");
        for (used, share, text) in [
            (
                0,
                role(7000, 0),
                "other frameworks of this Mesos use what hosts have: cpus needs 1, has at most 0.5 (east: role spark uses 7 cpus)",
            ),
            (
                100,
                role(7000, 0),
                "no cluster has room for it: cpus needs 1, has at most 0.5 (east: role spark uses 7 cpus)",
            ),
            (
                0,
                role(0, 7000),
                "no cluster has room for it: cpus needs 1, has at most 0.5 (east)",
            ),
        ] {
            let capacity = Capacity {
                used: cpus(used),
                sharing: Sharing::new([share], None),
                ..Capacity::default()
            };
            assert_eq!(shared(&capacity, reason()).to_string(), text);
        }
        let other = Reason::new(ReasonCode::PoolEntitlement).short(short).at("/a");
        let capacity = Capacity {
            sharing: Sharing::new([role(7000, 0)], None),
            ..Capacity::default()
        };
        assert_eq!(shared(&capacity, other.clone()), other);
    }
}
