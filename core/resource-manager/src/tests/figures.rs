//! What pools are told to be entitled to is what the cycle goes by, and proves itself.

use super::case::{Case, batch};
use crate::figures::figures;
use crate::{Config, Effect, Event, PlanToken, ResourceManager};
use echelon_core_model::pool::{Pool, PoolKind};
use echelon_core_model::{PoolId, Resources, Span, Timestamp};
use echelon_core_pools::certificate::check;

const fn cores(n: u64) -> Resources {
    Resources {
        cpus: n * 1000,
        ..Resources::ZERO
    }
}

fn amount(told: &crate::PoolFigures, path: &str) -> u64 {
    let line = told.certificate.lines.iter().find(|l| l.path == path);
    line.map_or(u64::MAX, |l| l.amount.cpus / 1000)
}

fn two_pools() -> Case {
    let mut case = Case::new().pool("/x", 100).pool("/y", 100).cluster("a", 10);
    case.store_job(1, batch(20).pool("/x"));
    case.store_job(2, batch(2).pool("/y"));
    case.elect();
    case.run_for(Span::seconds(2));
    case
}

fn proven(told: &crate::PoolFigures) {
    let there = told.certificate.capacity;
    assert_eq!(check(&told.tree, &told.demand, there, &told.certificate), []);
    assert_eq!(told.allocated["/y"].cpus, cores(2).cpus);
}

#[test]
fn figures_are_those_of_the_cycle_and_prove_themselves() {
    let case = two_pools();
    let picture = case.rm.picture();
    let told = figures(picture, None);
    assert_eq!((amount(&told, "/x"), amount(&told, "/y")), (8, 2));
    assert_eq!(told.demand["/x"].cpus, 20_000);
    assert_eq!(told.tree, picture.pools);
    proven(&told);
}

#[test]
fn another_tree_is_judged_by_the_demand_of_now() {
    let case = two_pools();
    let picture = case.rm.picture();
    let mut tree = picture.pools.clone();
    let kept = Pool {
        reservation: cores(6),
        kind: PoolKind::Static,
        ..Pool::new(PoolId::new("z"), "/z")
    };
    tree.pools.insert(kept.path.clone(), kept);
    let told = figures(picture, Some(tree));
    assert_eq!(["/x", "/y", "/z"].map(|p| amount(&told, p)), [2, 2, 6]);
    proven(&told);
}

#[test]
fn who_does_not_lead_tells_nothing() {
    let mut out = Vec::new();
    let event = Event::Figures {
        token: PlanToken(1),
        tree: None,
    };
    ResourceManager::new(Config::new("one", 7)).step(event, Timestamp(1), &mut out);
    let nothing = Effect::FiguresAnswer {
        token: PlanToken(1),
        figures: None,
    };
    assert_eq!(out, [nothing]);
}
