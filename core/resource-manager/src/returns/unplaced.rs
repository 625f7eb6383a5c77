//! What is granted and cannot begin: since when, where it goes, and which clusters it does not go to.

use crate::admission::router::{GroupOf, take};
use crate::demand::host_limits;
use crate::demand::request::{avoided, have, unit_of};
use crate::demand::slices::{Line, is_unplaced, keeps_from_beginning};
use crate::facts::job::{Avoided, JobView, UnbegunSince};
use crate::facts::slice::SliceKey;
use crate::returns::Returns;
use echelon_core_model::class::InstanceClass;
use echelon_core_model::directive::SliceReport;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{ClusterId, JobId, Span, Timestamp};
use std::collections::BTreeMap;

/// How often the time for which a cluster is avoided doubles at most.
const MOST_DOUBLED: u32 = 2;
/// How many times longer an instance waits for a host before it makes way for smaller work.
const IN_PIECES: u64 = 2;

/// Instances of a slice that are granted and cannot begin.
pub(super) struct Stuck {
    /// How many of the slice are granted.
    granted: u64,
    /// How many of these cannot begin, whatever they wait for.
    count: u64,
    /// How many of these find no host.
    pub(super) unplaced: u64,
    /// Preemption may make capacity for them on hosts.
    pub(super) hopeful: bool,
    /// They have found none for so long that smaller work may have their capacity.
    in_pieces: bool,
}

impl Returns<'_> {
    /// Work that is granted and cannot begin goes to a cluster with capacity, whatever it waits for. If there is none and
    /// it finds no host, its grant is of more use to other work that waits for capacity of its pools, or for smaller
    /// pieces of its cluster.
    pub(super) fn unplaced(&mut self, of: GroupOf<'_>, job: &mut JobView, line: &Line, report: &SliceReport) {
        let GroupOf { id, spec, group } = of;
        let key = &line.key;
        let Some(Stuck {
            granted,
            count,
            unplaced,
            hopeful,
            in_pieces,
        }) = self.stuck(id, job, key, report)
        else {
            return;
        };
        let beyond = self.is_beyond(key, spec, group, granted.saturating_sub(line.count.on_hosts()));
        let mut avoid = avoided(job, &key.group);
        avoid.push(key.cluster.clone());
        avoid.extend(self.without_hosts(of, job, 1));
        let have = have(job, &key.group);
        let unit = unit_of(&self.picture.facts, group);
        let shares = self.router.places(of, count, self.within(&have, &avoid));
        let elsewhere: u64 = shares.iter().map(|s| s.count).sum();
        let count = if elsewhere > 0 {
            elsewhere
        } else if unplaced == 0 || hopeful && !beyond {
            // It may begin here yet: offers come, or capacity is made for it on hosts.
            return;
        } else if beyond
            || self.contention().is_about_pool(&spec.pool)
            || in_pieces && self.is_wanted_in_pieces(&key.cluster, unit.shape.times(unplaced))
        {
            unplaced
        } else {
            return;
        };
        for share in shares {
            take(&mut self.rooms, &share.cluster, spec, unit, share.count);
        }
        self.lowered
            .push((id, key.clone(), granted.saturating_sub(count)));
        if elsewhere > 0 {
            self.send_on(of, count);
        }
        self.give_back(job, key, count, report);
        self.avoid(of, job, &key.cluster);
    }

    /// Clusters at which instances of a group would only wait. Their shards report free capacity for fewer than so many
    /// of them, or the group has left them and they have no more free capacity since.
    pub(super) fn without_hosts(&mut self, of: GroupOf<'_>, job: &mut JobView, least: u64) -> Vec<ClusterId> {
        let Some(class) = InstanceClass::of(of.spec, of.group).map(|class| class.digest()) else {
            return Vec::new();
        };
        let mut out = Vec::new();
        for (id, view) in &self.picture.facts.clusters {
            let Some(now) = view.fits.now(class) else {
                continue;
            };
            let key = (of.group.name.clone(), id.clone());
            let left = job.avoid.get_mut(&key).and_then(|left| left.fewest_free.as_mut());
            let has_more = match left {
                Some(fewest) if now < *fewest => {
                    *fewest = now;
                    self.changed = true;
                    false
                }
                Some(fewest) => now > *fewest,
                None => true,
            };
            if now < least || !has_more {
                out.push(id.clone());
            }
        }
        out
    }

    /// Notes since when something of a slice is granted and has not begun. It counts from the last grant of more: what
    /// was granted then has not waited before. It counts by this clock: that of the shard may be wrong.
    pub(super) fn note_unbegun(&mut self, job: &mut JobView, lines: &[Line]) {
        let mut noted = BTreeMap::new();
        for line in lines {
            let granted = job.grants.get(&line.key).map_or(0, |g| g.granted());
            let mut reasons = line.report.iter().flat_map(|report| &report.waiting);
            let waits = reasons.any(|(reason, ..)| keeps_from_beginning(reason.code));
            if granted > 0 && waits {
                let known = job.rare.unbegun.get(&line.key);
                let since = known
                    .filter(|known| known.granted >= granted)
                    .map_or(self.now, |known| known.since);
                noted.insert(line.key.clone(), UnbegunSince { since, granted });
            }
        }
        if noted != job.rare.unbegun {
            job.rare.unbegun = noted;
            self.changed = true;
        }
    }

    /// The instances of a slice that could not begin for long enough, if there are any.
    pub(super) fn stuck(
        &self,
        id: JobId,
        job: &JobView,
        key: &SliceKey,
        report: &SliceReport,
    ) -> Option<Stuck> {
        if !self.is_heard(&key.cluster) {
            return None;
        }
        let grant = job
            .grants
            .get(key)
            .filter(|g| report.grant_number >= g.number())?;
        let long = |since: Timestamp| self.now.since(since) >= self.spill_after;
        job.rare.unbegun.get(key).filter(|noted| long(noted.since))?;
        let for_long = || report.waiting.iter().filter(|(.., since)| long(*since));
        let kept = for_long().filter(|(r, ..)| keeps_from_beginning(r.code));
        let kept: u64 = kept.map(|(_, n, _)| *n).sum();
        let unplaced = for_long().filter(|(r, ..)| is_unplaced(r.code));
        let unplaced: u64 = unplaced.map(|(_, n, _)| *n).sum();
        let stays = report
            .active
            .saturating_sub(report.preempting + report.between_runs);
        // What has run and waits for the next run goes elsewhere only if it finds no host. While it moves it is
        // unavailable, and no cluster counts that.
        let unplaced = unplaced.min(report.unstarted.saturating_add(report.between_runs));
        let others = kept.saturating_sub(unplaced);
        let others = others.min(report.unstarted.saturating_sub(unplaced));
        let count = unplaced.saturating_add(others);
        let count = count.min(grant.granted().saturating_sub(stays));
        let in_pieces = Span(self.spill_after.0.saturating_mul(IN_PIECES));
        let mut waiting = report.waiting.iter();
        let in_pieces =
            waiting.any(|(r, _, since)| is_unplaced(r.code) && self.now.since(*since) >= in_pieces);
        let hopeful = &self.picture.preemption.unplaced.hopeful;
        let hopeful = hopeful.iter().any(|(of, group)| *of == id && *group == key.group);
        (count > 0).then(|| Stuck {
            granted: grant.granted(),
            count,
            unplaced: unplaced.min(count),
            hopeful,
            in_pieces,
        })
    }

    /// Whether more of a slice waits for hosts than its cluster's hosts hold when they are empty. Then no
    /// ending instance makes capacity for it.
    fn is_beyond(&self, key: &SliceKey, spec: &JobSpec, group: &GroupSpec, waiting: u64) -> bool {
        let ever = host_limits::ever_at(
            &self.picture.facts,
            &self.picture.demand.ledger,
            &key.cluster,
            spec,
            group,
        );
        ever.is_some_and(|ever| waiting > ever)
    }

    pub(super) fn avoid(&self, of: GroupOf<'_>, job: &mut JobView, cluster: &ClusterId) {
        let key = (of.group.name.clone(), cluster.clone());
        let class = InstanceClass::of(of.spec, of.group).map(|class| class.digest());
        let view = self.picture.facts.clusters.get(cluster);
        let tries = job.avoid.get(&key).map_or(0, |avoided| avoided.tries);
        let span = Span(self.spill_after.0.saturating_mul(2 << tries.min(MOST_DOUBLED)));
        let avoided = Avoided {
            until: self.now.plus(span),
            tries: tries.saturating_add(1),
            is_over: false,
            fewest_free: class.zip(view).and_then(|(class, view)| view.fits.now(class)),
        };
        job.avoid.insert(key, avoided);
    }
}
