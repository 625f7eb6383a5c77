//! What waits, in order of admission: by pool, and there in lines of those that are alike, so that the first of a line that gets
//! nothing answers for all behind it. Kept over cycles; changes where a job changes.

use crate::hierarchy::PoolIdx;
use crate::rooms::{ClusterIdx, Side};
use crate::terms::{Terms, Unit};
use echelon_core_model::{GroupName, JobId, Span, Timestamp};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeMap;
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
            lasts: None,
            user: None,
        }
    }
}

/// Those of a pool that are alike, with how many instances of each wait.
#[derive(Debug, Clone, Default)]
pub struct Line {
    turns: BTreeMap<Turn, u64>,
    waiting: u64,
    /// Since when nobody of it finds room in a cluster, as somebody noted.
    pub since: Option<Timestamp>,
    /// Since when that is so although one of it would fit whole inside its pool's entitlement.
    pub starved: Option<Timestamp>,
}

/// Who waits; since when is somebody's note.
impl PartialEq for Line {
    fn eq(&self, other: &Self) -> bool {
        (&self.turns, self.waiting) == (&other.turns, other.waiting)
    }
}

impl Eq for Line {}

impl Line {
    /// Who waits, in order of admission.
    pub fn turns(&self) -> impl Iterator<Item = &Turn> {
        self.turns.keys()
    }

    /// How many units wait.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.waiting
    }
}

/// Everybody who waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    pools: BTreeMap<PoolIdx, BTreeMap<Likeness, Line>>,
    /// Lines of revocable work.
    revocable: usize,
}

impl Queue {
    /// Somebody waits, with so many units.
    pub fn insert(&mut self, pool: PoolIdx, like: Likeness, turn: Turn, waiting: u64) {
        let side = like.terms.side;
        let line = self.pools.entry(pool).or_default().entry(like).or_default();
        if line.turns.is_empty() && side == Side::Revocable {
            self.revocable += 1;
        }
        let before = line.turns.insert(turn, waiting).unwrap_or_default();
        line.waiting = line.waiting.saturating_sub(before).saturating_add(waiting);
    }

    /// Somebody waits no more.
    pub fn remove(&mut self, pool: PoolIdx, like: &Likeness, turn: &Turn) {
        let Some(lines) = self.pools.get_mut(&pool) else {
            return;
        };
        let Some(line) = lines.get_mut(like) else { return };
        if let Some(before) = line.turns.remove(turn) {
            line.waiting = line.waiting.saturating_sub(before);
        }
        if line.turns.is_empty() {
            lines.remove(like);
            if like.terms.side == Side::Revocable {
                self.revocable -= 1;
            }
        }
        if lines.is_empty() {
            self.pools.remove(&pool);
        }
    }

    /// The lines of each pool in which somebody waits.
    pub fn pools(&self) -> impl Iterator<Item = (PoolIdx, &BTreeMap<Likeness, Line>)> {
        self.pools.iter().map(|(pool, lines)| (*pool, lines))
    }

    /// The lines of each pool, to note something in them.
    pub fn pools_mut(
        &mut self,
    ) -> impl Iterator<Item = (PoolIdx, impl Iterator<Item = (&Likeness, &mut Line)>)> {
        self.pools
            .iter_mut()
            .map(|(pool, lines)| (*pool, lines.iter_mut()))
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
