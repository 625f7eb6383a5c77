//! What waits, in order of admission: by pool, and there in lines of those that are alike, so that the first of a line that gets
//! nothing answers for all behind it. Kept over cycles; changes where a job changes.

use crate::hierarchy::PoolIdx;
use crate::rooms::{ClusterIdx, Side};
use crate::terms::{Terms, Unit};
use echelon_core_model::class::ClassDigest;
use echelon_core_model::{Few, GroupName, JobId, Resources, Span, Timestamp};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A waiting group's place: by priority, then age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Higher goes first.
    pub priority: Reverse<u32>,
    /// The job; older jobs have smaller ids.
    pub job: JobId,
    /// The group.
    pub group: GroupName,
}

/// Some clusters by index. Groups are mostly at one or two, which are then not looked up elsewhere.
pub type Clusters = SmallVec<[ClusterIdx; 2]>;

/// What groups of a pool have in common that get room, or none, for the same reasons.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likeness {
    /// On what terms they run.
    pub terms: Terms,
    /// What is admitted at once.
    pub unit: Unit,
    /// Where their instances wait, by index, in order.
    pub clusters: Clusters,
    /// Their class: which hosts take them.
    pub class: Option<ClassDigest>,
    /// What bounds them at single clusters, as a digest; `None`: nothing does.
    pub division: Option<u64>,
    /// The longest that one of them can take; `None`: for ever.
    pub lasts: Option<Span>,
    /// Whose they are, where the pool is fair to its users.
    pub user: Option<Arc<str>>,
}

impl Likeness {
    /// Clusters in any order, and some of them twice.
    pub fn new(terms: Terms, unit: Unit, clusters: impl Iterator<Item = ClusterIdx>) -> Self {
        let mut clusters: Clusters = clusters.collect();
        clusters.sort_unstable();
        clusters.dedup();
        Self {
            terms,
            unit,
            clusters,
            class: None,
            division: None,
            lasts: None,
            user: None,
        }
    }

    /// Whether several instances are admitted at once.
    #[must_use]
    pub const fn is_gang(&self) -> bool {
        self.unit.instances > 1
    }
}

/// Turns with how many units of each wait. Most lines are of one or two: a tree takes room for eleven as soon as it has one.
#[derive(Debug, Clone, Default)]
struct Turns {
    few: Few<Turn, u64>,
    /// All of them, once they were too many for `few`.
    many: BTreeMap<Turn, u64>,
}

/// Most turns that are not held in a tree.
const FEW: usize = 16;

impl Turns {
    fn iter(&self) -> impl DoubleEndedIterator<Item = (&Turn, &u64)> {
        self.few.iter().chain(&self.many)
    }

    fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    fn insert(&mut self, turn: Turn, waiting: u64) -> Option<u64> {
        if self.many.is_empty() && self.few.len() < FEW {
            return self.few.insert(turn, waiting);
        }
        self.many.extend(std::iter::from_fn(|| self.few.pop_last()));
        self.few.clear();
        self.many.insert(turn, waiting)
    }

    fn has(&self, turn: &Turn) -> bool {
        self.few.get(turn).or_else(|| self.many.get(turn)).is_some()
    }

    fn remove(&mut self, turn: &Turn) -> Option<u64> {
        self.few.remove(turn).or_else(|| self.many.remove(turn))
    }
}

/// Those of a pool that are alike, with how many instances of each wait.
#[derive(Debug, Clone, Default)]
pub struct Line {
    turns: Turns,
    waiting: u64,
    /// Since when nobody of it finds room in a cluster, as somebody noted.
    pub since: Option<Timestamp>,
    /// Since when that is so although one of it would fit whole inside its pool's entitlement.
    pub starved: Option<Timestamp>,
}

/// Who waits; since when is somebody's note.
impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        self.waiting == other.waiting && self.turns.iter().eq(other.turns.iter())
    }
}

impl Eq for Line {}

impl Line {
    /// Who waits, in order of admission.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = &Turn> {
        self.turns.iter().map(|(turn, _)| turn)
    }

    /// Whether a group waits here.
    #[must_use]
    pub fn has(&self, turn: &Turn) -> bool {
        self.turns.has(turn)
    }

    /// The waiting groups with how many units of each wait, in order of admission.
    pub fn units(&self) -> impl Iterator<Item = (&Turn, u64)> {
        self.turns.iter().map(|(turn, n)| (turn, *n))
    }

    /// How many units wait.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }

    /// A group has another number of units, which its turn has already. Whether the sum before matches that;
    /// else the sum is computed again.
    fn count(&mut self, before: u64, after: u64) -> bool {
        let rest = self.waiting.checked_sub(before);
        let sum = rest.and_then(|rest| rest.checked_add(after));
        let all = || self.turns.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        self.waiting = sum.unwrap_or_else(all);
        sum.is_some()
    }
}

/// The lines of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lines {
    all: BTreeMap<Arc<Likeness>, Box<Line>>,
    /// The least of each kind that any of them asks for at once: where even that is not left, nobody need be looked at.
    least: Resources,
}

impl Lines {
    /// All of them, with what those of each have in common.
    pub fn iter(&self) -> impl Iterator<Item = (&Likeness, &Line)> {
        self.all.iter().map(|(like, line)| (&**like, &**line))
    }

    /// What those of each have in common.
    pub fn likenesses(&self) -> impl Iterator<Item = &Likeness> {
        self.all.keys().map(|like| &**like)
    }

    /// The least of each kind that any of them asks for at once.
    #[must_use]
    pub const fn least(&self) -> Resources {
        self.least
    }

    fn settle_least(&mut self) {
        let shapes = self.all.keys().map(|like| like.unit.shape);
        self.least = shapes.reduce(Resources::min_each).unwrap_or_default();
    }
}

/// Everybody who waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    pools: BTreeMap<PoolIdx, Lines>,
    /// Pools with queues of which users are told apart.
    of_users: BTreeSet<PoolIdx>,
    /// What the queues ask for at once, and how many ask for each.
    shapes: BTreeMap<Resources, usize>,
    /// Lines of revocable work.
    revocable: usize,
    /// Lines of gangs.
    gangs: usize,
    /// How often the units of a line were not those of its groups.
    errors: u64,
}

impl Queue {
    /// Somebody waits, with so many units. Gives back what those of his line have in common, to be held only once.
    pub fn insert(&mut self, pool: PoolIdx, like: &Arc<Likeness>, turn: Turn, waiting: u64) -> Arc<Likeness> {
        let lines = self.pools.entry(pool).or_default();
        let like = lines.all.get_key_value(like).map_or(like, |(held, _)| held);
        let like = Arc::clone(like);
        let shape = like.unit.shape;
        lines.least = if lines.all.is_empty() {
            shape
        } else {
            lines.least.min_each(shape)
        };
        let line = lines.all.entry(Arc::clone(&like)).or_default();
        if line.turns.is_empty() {
            self.revocable += usize::from(like.terms.side == Side::Revocable);
            self.gangs += usize::from(like.is_gang());
            *self.shapes.entry(shape).or_default() += 1;
        }
        if like.user.is_some() {
            self.of_users.insert(pool);
        }
        let before = line.turns.insert(turn, waiting).unwrap_or_default();
        let matches = line.count(before, waiting);
        self.errors = self.errors.saturating_add((!matches).into());
        like
    }

    /// How often the units of a line were not those of its groups: a fault of this program.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Somebody waits no more.
    pub fn remove(&mut self, pool: PoolIdx, like: &Likeness, turn: &Turn) {
        let Some(lines) = self.pools.get_mut(&pool) else {
            return;
        };
        let Some((like, _)) = lines.all.get_key_value(like) else {
            return;
        };
        let like = Arc::clone(like);
        let Some(line) = lines.all.get_mut(&like) else {
            return;
        };
        if let Some(before) = line.turns.remove(turn) {
            let matches = line.count(before, 0);
            self.errors = self.errors.saturating_add((!matches).into());
        }
        if line.turns.is_empty() {
            lines.all.remove(&like);
            lines.settle_least();
            if lines.likenesses().all(|like| like.user.is_none()) {
                self.of_users.remove(&pool);
            }
            if let Entry::Occupied(mut n) = self.shapes.entry(like.unit.shape) {
                *n.get_mut() = n.get().saturating_sub(1);
                if *n.get() == 0 {
                    n.remove();
                }
            }
            self.revocable -= usize::from(like.terms.side == Side::Revocable);
            self.gangs -= usize::from(like.is_gang());
        }
        if lines.all.is_empty() {
            self.pools.remove(&pool);
        }
    }

    /// The lines of pools that are fair to their users.
    pub(crate) fn of_users(&self) -> impl Iterator<Item = (PoolIdx, &Lines)> {
        let pools = self.of_users.iter();
        pools.filter_map(|pool| Some((*pool, self.pools.get(pool)?)))
    }

    /// Whether anything that is asked for at once would fit into so much.
    #[must_use]
    pub fn any_fits(&self, most: Resources) -> bool {
        self.shapes.keys().any(|shape| shape.fits(most))
    }

    /// How many queues there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shapes.values().sum()
    }

    /// The lines of each pool in which somebody waits.
    pub fn pools(&self) -> impl Iterator<Item = (PoolIdx, &Lines)> {
        self.pools.iter().map(|(pool, lines)| (*pool, lines))
    }

    /// What waits in a pool that is alike.
    #[must_use]
    pub fn class(&self, pool: PoolIdx, like: &Likeness) -> Option<&Line> {
        self.pools.get(&pool)?.all.get(like).map(AsRef::as_ref)
    }

    /// The lines of a pool, if anybody waits there.
    #[must_use]
    pub fn lines_of(&self, pool: PoolIdx) -> Option<&Lines> {
        self.pools.get(&pool)
    }

    /// The last pool in which something waits.
    #[must_use]
    pub fn last_pool(&self) -> Option<PoolIdx> {
        self.pools.last_key_value().map(|(pool, _)| *pool)
    }

    /// The lines of a pool, to note something in them.
    pub fn lines_mut_of(&mut self, pool: PoolIdx) -> impl Iterator<Item = (&Likeness, &mut Line)> {
        let lines = self.pools.get_mut(&pool).into_iter();
        lines.flat_map(|lines| lines.all.iter_mut().map(|(like, line)| (&**like, &mut **line)))
    }

    /// The lines of gangs, in no order that means anything.
    pub fn gangs(&self) -> impl Iterator<Item = (&Likeness, &Line)> {
        let pools = self.pools.values().filter(|_| self.gangs > 0);
        pools.flat_map(Lines::iter).filter(|(like, _)| like.is_gang())
    }

    /// Whether anybody may wait on a side.
    #[must_use]
    pub fn has(&self, side: Side) -> bool {
        match side {
            Side::Ordinary => !self.pools.is_empty(),
            Side::Revocable => self.revocable > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_whose_units_are_not_those_of_its_groups_is_counted_anew() {
        let turn = |n: u128| Turn {
            priority: Reverse(0),
            job: JobId(n),
            group: GroupName::new(GroupName::DEFAULT),
        };
        let unit = Unit::one(Default::default());
        let like = Arc::new(Likeness::new(Terms::of(Side::Ordinary), unit, [0].into_iter()));
        let mut queue = Queue::default();
        (0..3).for_each(|n| drop(queue.insert(7, &like, turn(n), 3)));
        queue.lines_mut_of(7).for_each(|(_, line)| line.waiting = 2);
        queue.remove(7, &like, &turn(0));
        let waiting = |queue: &Queue| {
            queue
                .lines_of(7)
                .unwrap()
                .iter()
                .map(|(_, l)| l.waiting())
                .sum::<u64>()
        };
        assert_eq!((waiting(&queue), queue.errors()), (6, 1));
        queue.remove(7, &like, &turn(1));
        assert_eq!((waiting(&queue), queue.errors()), (3, 1));
    }

    #[test]
    fn a_line_is_the_same_whether_few_or_many_wait() {
        let turn = |n: u128| Turn {
            priority: Reverse(0),
            job: JobId(n),
            group: GroupName::new(GroupName::DEFAULT),
        };
        let like = Likeness::new(
            Terms::of(Side::Ordinary),
            Unit::one(Default::default()),
            [0].into_iter(),
        );
        let like = Arc::new(like);
        let (mut queue, mut few) = (Queue::default(), Queue::default());
        for n in (0..100).rev() {
            queue.insert(7, &like, turn(n), 2);
            queue.insert(7, &like, turn(n), 3);
        }
        for n in 3..100 {
            queue.remove(7, &like, &turn(n));
        }
        (0..3).for_each(|n| drop(few.insert(7, &like, turn(n), 3)));
        assert_eq!(queue, few);
        let lines = queue.pools().flat_map(|(_, lines)| lines.iter());
        let told: Vec<(u64, Vec<u128>)> = lines
            .map(|(_, l)| (l.waiting(), l.turns().map(|t| t.job.0).collect()))
            .collect();
        assert_eq!(told, [(9, vec![0, 1, 2])]);
        (0..3).for_each(|n| queue.remove(7, &like, &turn(n)));
        assert_eq!(queue, Queue::default());
    }
}
