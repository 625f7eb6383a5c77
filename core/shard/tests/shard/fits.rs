//! How many instances of each class fit: answered within a second of the question, and again only when the answer changes.

use crate::world::{World, range, seconds};
use echelon_core_model::HostId;
use echelon_core_model::class::{ClassDigest, ClassFit, InstanceClass};
use echelon_core_model::directive::{ClassFits, NamedClasses, Order, ReportPart};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::Constraint;
use echelon_core_testkit::build::{JobBuilder, shape};

fn class(cores: u64, zone: Option<&str>) -> InstanceClass {
    InstanceClass {
        shape: shape(cores, 64),
        revocable: false,
        exclusive: false,
        host_pool: HostPoolChoice::Any,
        ports: Vec::new(),
        constraints: zone
            .map(|zone| Constraint::one_of("zone", &[zone]))
            .into_iter()
            .collect(),
    }
}

fn ask(w: &mut World, classes: Vec<(u128, InstanceClass)>) {
    let classes = classes.into_iter().map(|(n, class)| (ClassDigest(n), class));
    w.direct(Order::Classes(NamedClasses {
        classes: classes.collect(),
        left_out: 3,
    }));
}

fn answers(w: &World) -> Vec<ClassFits> {
    let parts = w.reports.iter().filter_map(|r| match &r.part {
        ReportPart::Fits(fits) => Some(fits.clone()),
        _ => None,
    });
    parts.collect()
}

/// What was reported last, by class.
fn last(w: &World) -> Vec<(u128, u64, u64)> {
    let last = answers(w).pop().unwrap_or_default();
    let all = last.fits.into_iter();
    all.map(|(digest, ClassFit { now, ever })| (digest.0, now, ever))
        .collect()
}

/// Three hosts of four cores that have made an offer, two of their cores in use.
fn two_in_use() -> World {
    let mut w = World::serving();
    w.store_job(&JobBuilder::service("web", 2).shape(shape(1, 64)).build());
    w.order(&[range(0, 1)], 2);
    w.run(seconds(3));
    assert_eq!(w.cluster.live().len(), 2);
    w
}

#[test]
fn nothing_is_said_that_was_not_asked() {
    let w = two_in_use();
    assert_eq!(answers(&w), []);
}

#[test]
fn each_class_is_answered_within_a_second_and_again_when_it_changes() {
    let mut w = two_in_use();
    ask(
        &mut w,
        vec![
            (1, class(1, None)),
            (2, class(4, None)),
            (3, class(5, None)),
            (4, class(1, Some("x"))),
        ],
    );
    w.run(seconds(1));
    assert_eq!(last(&w), [(1, 10, 12), (2, 1, 3), (3, 0, 0), (4, 0, 0)]);
    assert_eq!(answers(&w)[0].left_out, 3);
    w.run(seconds(30));
    assert_eq!(answers(&w).len(), 1, "nothing has changed");
    w.order(&[range(0, 2)], 3);
    w.run(seconds(3));
    assert_eq!(last(&w)[0], (1, 9, 12));
    // The same question over another stream has no answer yet.
    let n = answers(&w).len();
    ask(&mut w, vec![(1, class(1, None))]);
    w.run(seconds(1));
    assert_eq!(answers(&w).len(), n + 1);
    assert_eq!(last(&w), [(1, 9, 12)]);
    ask(&mut w, Vec::new());
    w.run(seconds(1));
    assert_eq!(last(&w), []);
}

#[test]
fn a_host_that_joins_counts_within_a_second_and_so_do_its_attributes() {
    let mut w = two_in_use();
    ask(&mut w, vec![(1, class(5, None)), (2, class(1, Some("x")))]);
    w.run(seconds(1));
    let before = answers(&w).pop().unwrap();
    assert_eq!(last(&w), [(1, 0, 0), (2, 0, 0)]);
    let large = HostId::new("large");
    w.cluster.hosts.insert(large.clone(), shape(12, 4096));
    w.cluster
        .attributes
        .insert(large, [("zone".to_owned(), "x".to_owned())].into());
    // It is offered only while something waits for hosts.
    w.order(&[range(0, 40)], 40);
    w.run(seconds(3));
    assert_eq!(
        last(&w).iter().map(|(_, _, ever)| *ever).collect::<Vec<_>>(),
        [2, 12]
    );
    assert!(answers(&w).pop().unwrap().revision > before.revision);
}

#[test]
fn a_full_report_repeats_the_answer() {
    let mut w = two_in_use();
    ask(&mut w, vec![(1, class(1, None))]);
    w.run(seconds(1));
    w.reports.clear();
    w.direct(Order::Report);
    w.run(seconds(1));
    assert_eq!(last(&w), [(1, 10, 12)]);
}
