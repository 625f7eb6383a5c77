//! An operator who changes the tree of pools while faults happen, through gateways that may die under a call: pools move with jobs in
//! them, are deleted, made and bounded anew, and now and then one is gone although it has jobs.

use crate::dice::Die;
use crate::homes::homes;
use crate::options::Options;
use crate::sites::Site;
use crate::storage::Asker;
use crate::world::{BEGIN, Item, World};
use echelon_core_gateway::ApiError;
use echelon_core_gateway::apply::{WantedPool, WantedTree, apply_pools};
use echelon_core_gateway::call::{Call, Next};
use echelon_core_gateway::pools::{PoolChange, create_pool, delete_pool, undelete_pool, update_pool};
use echelon_core_gateway::port::Facts;
use echelon_core_model::pool::{Pool, PoolKind, PoolTree};
use echelon_core_model::store::{Decision, Op, OpId, OpResult};
use echelon_core_model::{Kind, PoolId, Resources, Span};
use echelon_core_testkit::build::shape;
use std::collections::BTreeMap;
use std::fmt;

/// After the last fault the tree stays as it is for so long: who has no pool says so by then.
const LEFT_ALONE: Span = Span::minutes(2);
/// Cores that a limit or a reservation is drawn below.
const MOST_CORES: u64 = 12;
/// Thousandths of one.
const CORE: u64 = 1000;
/// MiB of an instance of one core.
const MEMORY: u64 = 64;

/// What is known of the tree and its changes.
#[derive(Default)]
pub struct Trees {
    /// Changes that are under way.
    calls: BTreeMap<u32, Call<Result<(), ApiError>>>,
    /// Pools as they were before anything changed.
    pub(crate) founded: BTreeMap<PoolId, Pool>,
    /// Whether pools have bounds.
    pub(crate) bounded: bool,
    /// The most that their bounds ever were.
    pub(crate) most: BTreeMap<PoolId, Pool>,
}

impl fmt::Debug for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trees")
            .field("calls", &self.calls.keys())
            .finish_non_exhaustive()
    }
}

/// Something that is done to the tree.
#[derive(Debug)]
enum Change {
    Create(String),
    /// The whole tree is applied anew, with a pool and those below it elsewhere.
    Move {
        from: String,
        to: String,
    },
    /// The whole tree is applied anew, without a pool and those below it.
    LeaveOut(String),
    /// So many thousandths of cores.
    Limit(String, u64),
    Reserve(String, Resources, PoolKind),
    Delete(String),
    Undelete(String),
    /// The pool is gone, jobs or not, as when somebody submits while it goes.
    Lose(String),
}

impl Change {
    /// The same without anything that brings jobs under bounds of other pools, or lifts any for ever.
    fn in_place(self) -> Self {
        match self {
            Self::Move { from, to } => {
                let name = to.rsplit('/').next().unwrap_or_default();
                let above = PoolTree::parent(&from).trim_end_matches('/');
                // Nor does it come to where others are submitted, who need other bounds.
                let to = format!("{above}/in-{name}");
                Self::Move { from, to }
            }
            Self::Limit(path, u64::MAX) => Self::Limit(path, MOST_CORES * CORE),
            Self::Lose(path) => Self::Delete(path),
            other => other,
        }
    }
}

impl World {
    /// Plans when the tree is changed.
    pub(crate) fn plan_trees(&mut self) {
        let changes = self.options.faults.trees;
        for n in 0..changes {
            let at = self.dice.trees.span(Span::seconds(1), self.options.faulty);
            self.queue.plan(BEGIN.plus(at), Item::ChangePools(n));
        }
        if changes > 0 {
            let at = BEGIN.plus(self.options.faulty).plus(LEFT_ALONE);
            self.queue.plan(at, Item::SettlePools);
        }
    }

    /// The operator begins a change, or goes on with it.
    pub(crate) fn change_pools(&mut self, n: u32) {
        if let Some(call) = self.trees.calls.get_mut(&n) {
            let next = call.on_pause();
            return self.change_goes_on(n, next);
        }
        if !self.is_faulty() {
            return;
        }
        let tree = self.tree();
        let drawn = draw(&mut self.dice.trees, &self.options, &tree, n);
        // What comes under another pool, or back into it, may be more than that allows.
        let change = if self.trees.bounded {
            drawn.in_place()
        } else {
            drawn
        };
        self.trace.line(self.now, &format!("operator{n}: {change:?}"));
        if let Change::Lose(path) = &change {
            return self.put_pools(without(&tree, path));
        }
        let chance = self.dice.trees.bits();
        let (call, next) = Call::start(move |facts| async move { make(&facts, change, &tree, chance).await });
        self.trees.calls.insert(n, call);
        self.change_goes_on(n, next);
    }

    /// Storage answered the operator's gateway; one time in fifty that has died meanwhile.
    pub(crate) fn change_hears(&mut self, n: u32, result: OpResult) {
        if self.is_faulty() && self.dice.losses.chance(20) {
            self.trees.calls.remove(&n);
            self.queue
                .plan(self.now.plus(Span::seconds(1)), Item::ChangePools(n));
            return;
        }
        if let Some(call) = self.trees.calls.get_mut(&n) {
            let next = call.on(result);
            self.change_goes_on(n, next);
        }
    }

    fn change_goes_on(&mut self, n: u32, next: Next<Result<(), ApiError>>) {
        match next {
            Next::Do(op) => self.ask_storage(Asker::Operator(n), OpId(0), op),
            Next::Wait(span) => self.queue.plan(self.now.plus(span), Item::ChangePools(n)),
            Next::Check(wanted) => {
                let answer = self.check_instances(Site::Centre, &wanted);
                let next = self.trees.calls.get_mut(&n).map(|call| call.on_check(answer));
                if let Some(next) = next {
                    self.change_goes_on(n, next);
                }
            }
            Next::Done(done) => {
                self.trees.calls.remove(&n);
                let told = done.map_err(|e| format!("{:?}: {}", e.reason, e.message));
                self.trace.line(self.now, &format!("operator{n}: {told:?}"));
            }
        }
    }

    /// Writes a tree, whatever others do.
    pub(crate) fn put_pools(&mut self, pools: BTreeMap<String, Pool>) {
        let expected = self.tree().version;
        let tree = PoolTree {
            version: expected.next(),
            pools,
        };
        self.store
            .perform(Op::Decide(Decision::PutPools { tree, expected }));
        self.note_bounds();
    }
}

/// Draws a change.
fn draw(die: &mut Die, options: &Options, tree: &PoolTree, n: u32) -> Change {
    let homes = homes(options);
    let missing: Vec<&String> = homes.iter().filter(|h| !tree.pools.contains_key(*h)).collect();
    let pick = |die: &mut Die, from: &[&String]| from.get(die.index(from.len())).map(|p| (*p).clone());
    let paths: Vec<&String> = tree.pools.keys().collect();
    let chosen = pick(die, &paths).unwrap_or_default();
    let others: Vec<&String> = paths.into_iter().filter(|p| !is_within(p, &chosen)).collect();
    let above = pick(die, &others).filter(|_| die.chance(400)).unwrap_or_default();
    let free = match pick(die, &missing) {
        Some(path) if die.chance(700) => path,
        _ => format!("{above}/n{n}"),
    };
    let cores = die.below(MOST_CORES);
    let kind = if die.chance(300) {
        PoolKind::Static
    } else {
        PoolKind::Elastic
    };
    match die.below(14) {
        0..=3 => Change::Move {
            from: chosen,
            to: free,
        },
        4 => Change::Delete(chosen),
        5 => Change::LeaveOut(chosen),
        6 | 7 => {
            let goes = tree.pools.values().find(|p| p.deleting);
            Change::Undelete(goes.map_or(chosen, |p| p.path.clone()))
        }
        8 => Change::Limit(chosen, u64::MAX),
        9 => Change::Limit(chosen, cores * CORE),
        10 if options.reserved == 0 => Change::Reserve(chosen, shape(cores, cores * MEMORY), kind),
        11 => Change::Lose(chosen),
        _ => Change::Create(free),
    }
}

async fn make<F: Facts>(facts: &F, change: Change, tree: &PoolTree, chance: u128) -> Result<(), ApiError> {
    match change {
        Change::Create(path) => {
            let new = Pool::new(PoolId::new(""), path);
            create_pool(facts, new, chance).await.map(drop)
        }
        Change::Move { from, to } => {
            let wanted = elsewhere(tree, &from, &to);
            apply_pools(facts, &wanted, chance).await.map(drop)
        }
        Change::LeaveOut(path) => {
            let mut wanted = elsewhere(tree, "", "");
            wanted.pools.retain(|w| !is_within(&w.pool.path, &path));
            apply_pools(facts, &wanted, chance).await.map(drop)
        }
        Change::Limit(path, cpus) => {
            let change = PoolChange {
                limit: vec![(Kind::Cpus, cpus)],
                ..PoolChange::default()
            };
            update_pool(facts, &path, change).await.map(drop)
        }
        Change::Reserve(path, room, kind) => {
            let change = PoolChange {
                reservation: Kind::ALL.map(|kind| (kind, room.get(kind))).to_vec(),
                kind: Some(kind),
                ..PoolChange::default()
            };
            update_pool(facts, &path, change).await.map(drop)
        }
        Change::Delete(path) => delete_pool(facts, &path, "").await.map(drop),
        Change::Undelete(path) => undelete_pool(facts, &path, "").await.map(drop),
        Change::Lose(_) => Ok(()),
    }
}

/// A file of the whole tree, with a pool elsewhere; what is to go is not in it.
fn elsewhere(tree: &PoolTree, from: &str, to: &str) -> WantedTree {
    let there = tree.pools.values().filter(|p| tree.deleting(&p.path).is_none());
    let pools = there.map(|pool| WantedPool {
        moved_from: if pool.path == from {
            from.to_owned()
        } else {
            String::new()
        },
        pool: Pool {
            path: path_after(&pool.path, from, to),
            ..pool.clone()
        },
    });
    WantedTree {
        pools: pools.collect(),
        ..WantedTree::default()
    }
}

fn is_within(path: &str, pool: &str) -> bool {
    path.strip_prefix(pool)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where a path is when `from` is at `to`.
fn path_after(path: &str, from: &str, to: &str) -> String {
    match path.strip_prefix(from) {
        Some(rest) if !from.is_empty() && is_within(path, from) => format!("{to}{rest}"),
        _ => path.to_owned(),
    }
}

fn without(tree: &PoolTree, path: &str) -> BTreeMap<String, Pool> {
    let mut pools = tree.pools.clone();
    pools.retain(|p, _| !is_within(p, path));
    pools
}
