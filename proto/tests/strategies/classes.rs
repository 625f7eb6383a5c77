//! Classes of instances, and how many of each fit.

use super::host_pools::pool;
use super::{resources, text};
use echelon_core_model::class::{ClassDigest, ClassFit, InstanceClass, MOST_A_CLUSTER};
use echelon_core_model::directive::{ClassFits, NamedClasses};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::{Comparison, Constraint, Number, Test};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn digest() -> impl Strategy<Value = ClassDigest> {
    any::<u128>().prop_map(ClassDigest)
}

fn constraint() -> impl Strategy<Value = Constraint> {
    let compared = (select(Comparison::ALL.to_vec()), -9_000_000..9_000_000i64);
    let test = prop_oneof![
        vec("[a-z]{1,3}", 1..3).prop_map(Test::In),
        Just(Test::Exists),
        compared.prop_map(|(how, n)| Test::Compares(how, Number(n))),
        "[a-z]{1,3}".prop_map(Test::Matches),
    ];
    (text(), test, any::<bool>()).prop_map(|(attribute, test, negate)| Constraint {
        attribute,
        test,
        negate,
    })
}

fn class() -> impl Strategy<Value = InstanceClass> {
    let host_pool = prop_oneof![Just(HostPoolChoice::Any), pool().prop_map(HostPoolChoice::Only),];
    let ports = vec(of(1..=u16::MAX), 0..3);
    let flags = any::<(bool, bool)>();
    (resources(), flags, host_pool, ports, vec(constraint(), 0..3)).prop_map(
        |(shape, (revocable, exclusive), host_pool, ports, constraints)| InstanceClass {
            shape,
            revocable,
            exclusive,
            host_pool,
            ports,
            constraints,
        },
    )
}

pub fn named_classes() -> impl Strategy<Value = NamedClasses> {
    let classes = btree_map(digest(), class(), 0..3);
    (classes, any::<u32>()).prop_map(|(classes, left_out)| NamedClasses { classes, left_out })
}

fn fit() -> impl Strategy<Value = ClassFit> {
    let most = prop_oneof![Just(0), Just(MOST_A_CLUSTER), 0..=MOST_A_CLUSTER];
    let fit = most.prop_flat_map(|ever| (0..=ever, Just(ever)));
    fit.prop_map(|(now, ever)| ClassFit { now, ever })
}

pub fn class_fits() -> impl Strategy<Value = ClassFits> {
    let fits = btree_map(digest(), fit(), 0..3);
    (0..1u64 << 40, fits, any::<u32>()).prop_map(|(revision, fits, left_out)| ClassFits {
        revision,
        fits,
        left_out,
    })
}
