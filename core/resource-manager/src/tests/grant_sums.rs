//! The sum of grants never exceeds entitlement: whenever a grant is raised, what shards may make of all
//! grants of a pool, and of each pool above it, is within what that pool is entitled to. Told by what shards
//! were sent, and not by the manager's own sums.

use crate::admission::GrantChange;
use crate::facts::slice::SliceKey;
use crate::tests::case::Case;
use crate::tests::pressure::{cases, scene};
use crate::tests::shard::ModelShard;
use echelon_core_model::directive::{Directive, Order, OwnChanges};
use echelon_core_model::{Epoch, JobId, Span};
use echelon_core_pools::hierarchy::{PoolIdx, ROOT};
use proptest::prelude::*;
use std::collections::BTreeMap;

type SliceSums = BTreeMap<(JobId, SliceKey), u64>;

/// A grant as it was decided: active instances, and the changes of its shard that it takes into account.
#[derive(Clone, Copy)]
struct CountedGrant {
    active: u64,
    known: OwnChanges,
}

/// What is granted, told from outside.
#[derive(Default)]
struct GrantBook {
    leader: Option<Epoch>,
    /// What this leader decided last, sent or not.
    decided: BTreeMap<(JobId, SliceKey), CountedGrant>,
    /// What slices could use when this looked last.
    known: SliceSums,
}

/// How many instances of a slice may be active at its shard. What is being preempted is not granted any more.
fn usable(shard: &ModelShard) -> impl Iterator<Item = ((JobId, SliceKey), u64)> + '_ {
    shard.slices.iter().map(|(key, slice)| {
        let (job, group, generation) = key.clone();
        let cluster = shard.id.clone();
        let stays = slice.active.minus(&slice.dying).count();
        let could = slice.active.count() + shard.startable(key);
        let usable = stays.max(slice.in_force().min(could));
        let key = SliceKey {
            group,
            cluster,
            generation,
        };
        ((job, key), usable)
    })
}

/// What a shard may make active of a slice by the grant that it obeys.
fn granted(case: &Case, slice: &(JobId, SliceKey)) -> u64 {
    let (job, slice) = slice;
    let key = (*job, slice.group.clone(), slice.generation);
    let known = case.shards.get(&slice.cluster).and_then(|s| s.slices.get(&key));
    known.map_or(0, |s| s.in_force())
}

/// What a grant allows at its shard: what the shard has changed since it was decided lowers or raises it.
fn allowed(case: &Case, granted: &(JobId, SliceKey), grant: CountedGrant) -> u64 {
    let (job, slice) = granted;
    let key = (*job, slice.group.clone(), slice.generation);
    let known = case.shards.get(&slice.cluster).and_then(|s| s.slices.get(&key));
    let own = known.map(|s| s.own).unwrap_or_default();
    own.since(grant.known, grant.active)
}

/// What directives that are still on their way grant.
fn under_way(case: &Case) -> SliceSums {
    let mut out = SliceSums::new();
    let Some((cluster, kept)) = &case.held else {
        return out;
    };
    let link = case.links.get(cluster);
    let arrive = kept.iter().filter(|(over, _)| Some(over) == link);
    let orders = arrive.flat_map(|(_, Directive { order, .. })| match order {
        Order::Slices(orders) => orders.as_slice(),
        _ => &[],
    });
    for order in orders {
        // Nothing begins under an expired grant.
        for (generation, grant) in order.grants.iter().filter(|(_, grant)| grant.lease > Span::ZERO) {
            let slice = SliceKey {
                group: order.group.clone(),
                cluster: cluster.clone(),
                generation: *generation,
            };
            let grant = CountedGrant {
                active: grant.active,
                known: grant.known,
            };
            let key = (order.job, slice);
            let allowed = allowed(case, &key, grant);
            raise(&mut out, key, allowed);
        }
    }
    out
}

fn raise(sums: &mut SliceSums, key: (JobId, SliceKey), least: u64) {
    let sum = sums.entry(key).or_default();
    *sum = least.max(*sum);
}

impl GrantBook {
    /// Looks at a step.
    fn look(&mut self, case: &Case) {
        if self.leader != case.rm.leading() {
            self.leader = case.rm.leading();
            self.decided.clear();
        }
        let facts = &case.rm.picture().facts;
        let line = |job: &JobId, slice: &SliceKey| facts.jobs.get(job)?.grants.get(slice);
        let cycle = case.rm.last_cycle().filter(|_| self.leader.is_some());
        let changes = cycle.map(|c| c.admission.granted.iter().chain(&c.returns.lowered));
        let mut raised: Vec<&GrantChange> = Vec::new();
        for change in changes.into_iter().flatten() {
            let key = (change.job, change.slice.clone());
            let Some(active) = change.target.amount() else {
                self.decided.remove(&key);
                continue;
            };
            let grant = CountedGrant {
                active,
                known: line(&change.job, &change.slice)
                    .map(|line| line.known())
                    .unwrap_or_default(),
            };
            // What an older leader has granted is taken over, also where its shard knows too few indexes to
            // use it.
            let before = self.known.get(&key).copied().unwrap_or_default();
            let before = before.max(granted(case, &key));
            // What this leader has decided before was judged then, whether or not its order has arrived.
            let decided = self
                .decided
                .get(&key)
                .map_or(0, |last| allowed(case, &key, *last));
            let before = before.max(decided);
            if allowed(case, &key, grant) > before {
                raised.push(change);
            }
            self.decided.insert(key, grant);
        }
        // Grants of a slice that nothing is bound to any more are sent no more.
        self.decided.retain(|(job, slice), _| line(job, slice).is_some());
        self.known = case.shards.values().flat_map(usable).collect();
        for (key, n) in under_way(case) {
            raise(&mut self.known, key, n);
        }
        for (key, grant) in &self.decided {
            raise(&mut self.known, key.clone(), allowed(case, key, *grant));
        }
        // Nothing of a job that has ended can begin, whatever is granted or on its way.
        let has_ended = |job: JobId| case.state(job).is_some_and(|state| state.is_ended());
        self.known.retain(|(job, _), _| !has_ended(*job));
        if !raised.is_empty() {
            judge(case, &self.known, &raised);
        }
    }
}

/// Holds what slices may use against what the pools of the raised ones, and all above them, are entitled to.
fn judge(case: &Case, slices: &SliceSums, raised: &[&GrantChange]) {
    let picture = case.rm.picture();
    let hierarchy = &picture.facts.hierarchy;
    let pool_of = |job: &JobId| hierarchy.find(&case.head(*job)?.pool);
    let mut sums: BTreeMap<PoolIdx, u64> = BTreeMap::new();
    for ((job, _), n) in slices {
        let pool = pool_of(job);
        for i in pool
            .into_iter()
            .flat_map(|i| std::iter::once(i).chain(hierarchy.above(i)))
        {
            *sums.entry(i).or_default() += n * 1000;
        }
    }
    let has = |i: PoolIdx| sums.get(&i).copied().unwrap_or_default();
    let cycle = case.rm.last_cycle().unwrap();
    let second = picture.admission.second_round.as_ref();
    // What the first round gives, or the second.
    let entitled = |i: PoolIdx| {
        let first = cycle.division.entitled.ordinary.amount(i).cpus;
        let again = second
            .and_then(|again| again.ordinary.given.get(i))
            .map_or(0, |r| r.cpus);
        first.max(again)
    };
    for change in raised {
        let pool = pool_of(&change.job).unwrap();
        let over = std::iter::once(pool)
            .chain(hierarchy.above(pool))
            .find(|i| has(*i) > entitled(*i));
        let Some(over) = over else { continue };
        let path = hierarchy.pool(over).map_or("/", |p| p.path.as_str());
        let told = format!(
            "{change:?}: {path} may use {} of {}\n{slices:?}\n{}",
            has(over),
            entitled(over),
            case.trace.join("\n")
        );
        // Whole instances of what is too little for any pool's share: never of what another pool can use of
        // its own.
        let Some(again) = second else { panic!("{told}") };
        let leaves = hierarchy.indexes().filter(|i| hierarchy.is_leaf(*i));
        let kept: u64 = leaves
            .map(|i| has(i).max(again.ordinary.usable.get(i).map_or(0, |r| r.cpus)))
            .sum();
        assert!(
            over != ROOT && kept <= cycle.division.capacity.cpus,
            "{kept} of {}: {told}",
            cycle.division.capacity
        );
        let limit = hierarchy.pool(over).map_or(u64::MAX, |p| p.limit.cpus);
        assert!(has(over) <= limit, "limit {limit}: {told}");
    }
}

proptest! {
    #![proptest_config(cases(250))]
    #[test]
    fn the_sum_of_grants_never_exceeds_entitlement(scene in scene(40)) {
        let mut book = GrantBook::default();
        scene.play(move |case| book.look(case), |_| {});
    }
}
