//! Each rule about runs by an example, with the words of its reason.

use super::{group, host, problem, rule, solve, with_attribute};
use crate::{Broken, Neighbour, Problem, Wanted, check, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Preference, Test};
use echelon_core_model::spec::JobKind::{Batch, Service};
use echelon_core_model::{HostId, InstanceNumber, JobId};
use echelon_core_testkit::build::shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Hosts a and b in rack r1, c in r2, d in none.
fn hosts() -> Vec<HostView> {
    let plain = |name: &str| host(name, shape(9, 900));
    vec![
        with_attribute(plain("a"), "rack", "r1"),
        with_attribute(plain("b"), "rack", "r1"),
        with_attribute(plain("c"), "rack", "r2"),
        plain("d"),
    ]
}

fn label(app: &str) -> BTreeMap<String, String> {
    [("app".to_owned(), app.to_owned())].into()
}

fn by(app: &str, topology: &str, weight: Option<u32>) -> Vec<Affinity> {
    vec![Affinity {
        labels: label(app),
        topology: topology.to_owned(),
        weight,
    }]
}

/// A database on host a.
fn database() -> Neighbour {
    Neighbour {
        job: JobId(9),
        labels: Arc::new(label("db")),
        exclusive: false,
        away_from: Vec::new(),
        hosts: vec![HostId::new("a")],
    }
}

fn beside(others: Vec<Neighbour>, groups: Vec<Wanted>) -> Problem {
    Problem {
        others,
        ..problem(1, groups, hosts())
    }
}

fn with(n: u32, change: impl Fn(&mut Wanted)) -> Wanted {
    let mut wanted = group(1, Batch, n, shape(1, 10));
    change(&mut wanted);
    wanted
}

#[test]
fn no_more_than_may_be_are_on_a_host_or_in_a_rack() {
    let wanted = with(6, |w| {
        w.siting.max_per = [("hostname".to_owned(), 2), ("rack".to_owned(), 3)].into();
        w.present = [(HostId::new("c"), 1)].into();
    });
    assert_eq!(
        solve(&beside(vec![], vec![wanted.clone()])),
        "1 0:a 1:a 2:b 3:c 4:d 5:d",
        "who has no rack shares having none"
    );
    let mut more = wanted;
    more.items.push(crate::Item {
        number: InstanceNumber(6),
        avoid: Vec::new(),
        former: None,
    });
    let told = solve(&beside(vec![], vec![more]));
    let why = "1 [6] as many of its group as may be (max_per) are wherever it could run \
               (4 hosts: 4 with as many of it as may be there; one would fit without max_per hostname 2)";
    assert!(told.ends_with(why), "{told}");
}

/// Four agents on three machines: `a` and `b` share one.
fn agents() -> Vec<HostView> {
    let mut all: Vec<HostView> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| host(name, shape(4, 400)))
        .collect();
    all[1].hostname = all[0].hostname.clone();
    all
}

#[test]
fn agents_of_one_machine_are_one_host_to_rules() {
    let at_most_one = with(4, |w| {
        w.siting.max_per = [("hostname".to_owned(), 1)].into();
    });
    let told = solve(&problem(1, vec![at_most_one], agents()));
    assert!(told.starts_with("1 0:a 1:c 2:d\n"), "{told}");
    // Another agent of the machine counts, whichever of the two jobs wants its host for itself.
    let is_there = |exclusive: bool| Neighbour {
        job: JobId(9),
        labels: Arc::default(),
        exclusive,
        away_from: Vec::new(),
        hosts: vec![HostId::new("b")],
    };
    for theirs in [true, false] {
        let wanted = with(9, |w| w.siting.exclusive = !theirs);
        let others = vec![is_there(theirs)];
        let mut asked = problem(1, vec![wanted], agents());
        asked.others = others;
        let told = solve(&asked);
        assert!(!told.contains(":a") && !told.contains(":b"), "{told}");
    }
    // Members of a service go to other machines first.
    let mut service = with(3, |_| ());
    service.kind = Service;
    let told = solve(&problem(1, vec![service], agents()));
    let on_shared = told.matches(":a").count() + told.matches(":b").count();
    assert_eq!(on_shared, 1, "{told}");
}

#[test]
fn a_host_that_turns_out_to_be_of_another_machine_is_counted_there() {
    let mut hosts = crate::Hosts::new(agents());
    let mut view = agents()[1].clone();
    view.hostname = "b.example".into();
    hosts.update(view);
    assert!(hosts.beside(0).is_empty() && hosts.beside(1).is_empty());
    hosts.update(agents()[1].clone());
    assert_eq!((hosts.beside(0), hosts.beside(1)), (&[1][..], &[0][..]));
}

#[test]
fn instances_are_spread_over_racks_and_then_preferred_hosts_are_used() {
    let over = |n: u32| {
        with(n, |w| {
            w.siting.spread_over = vec!["rack".to_owned()];
            w.siting.preferences = vec![Preference {
                rule: rule("hostname", &["b.example"], false),
                weight: 10,
            }];
        })
    };
    assert_eq!(solve(&beside(vec![], vec![over(4)])), "1 0:b 1:c 2:d 3:b");
    let away = with(2, |w| {
        w.siting.preferences = vec![Preference {
            rule: rule("rack", &["r1", "r2"], false),
            weight: -1,
        }];
    });
    assert_eq!(solve(&beside(vec![], vec![away])), "1 0:d 1:d");
}

#[test]
fn affinity_keeps_jobs_near_and_away_by_what_hosts_share() {
    let near = with(2, |w| w.siting.affinity = by("db", "rack", None));
    assert_eq!(solve(&beside(vec![database()], vec![near.clone()])), "1 0:a 1:a");
    assert_eq!(
        solve(&beside(vec![], vec![near.clone()])),
        "1 [0-1] no host is near to the jobs that it has to be near to (affinity) \
         (4 hosts: 4 far from what it wants to be near to; one would fit without affinity app=db by rack)"
    );
    let away = with(1, |w| w.siting.anti_affinity = by("db", "rack", None));
    assert_eq!(solve(&beside(vec![database()], vec![away])), "1 0:c");
    let rather = with(1, |w| w.siting.anti_affinity = by("db", "rack", Some(5)));
    assert_eq!(solve(&beside(vec![database()], vec![rather])), "1 0:c", "a wish");
    let own = Neighbour {
        job: JobId(1),
        ..database()
    };
    let of_itself = solve(&beside(vec![own], vec![near]));
    assert!(of_itself.starts_with("1 [0-1] no host is near"), "{of_itself}");
}

#[test]
fn who_wants_to_be_away_is_kept_away_from_though_the_other_says_nothing() {
    let shy = Neighbour {
        away_from: by("web", "rack", None),
        ..database()
    };
    let web = with(1, |w| w.labels = Arc::new(label("web")));
    assert_eq!(solve(&beside(vec![shy.clone()], vec![web.clone()])), "1 0:c");
    assert_eq!(solve(&beside(vec![shy], vec![with(1, |_| ())])), "1 0:a");
    // Both in one question: the older one goes first.
    let mut db = with(1, |w| w.siting.anti_affinity = by("web", "rack", None));
    db.job = JobId(0);
    let p = beside(vec![], vec![web, db]);
    assert_eq!(solve(&p), "0 0:a\n1 0:c");
    let mut wrong = place(&p).0;
    wrong.choices.iter_mut().for_each(|c| c.host = HostId::new("b"));
    let broken = check(&p, &wrong);
    assert!(
        matches!(broken.as_slice(), [Broken::Near(..), Broken::Near(..)]),
        "{broken:?}"
    );
}

#[test]
fn an_exclusive_group_shares_no_host_with_other_jobs() {
    let alone = with(1, |w| w.siting.exclusive = true);
    assert_eq!(solve(&beside(vec![database()], vec![alone.clone()])), "1 0:b");
    let closed = Neighbour {
        exclusive: true,
        hosts: ["a", "b", "c"].map(HostId::new).into(),
        ..database()
    };
    assert_eq!(solve(&beside(vec![closed], vec![with(1, |_| ())])), "1 0:d");
    let everywhere = Neighbour {
        hosts: ["a", "b", "c", "d"].map(HostId::new).into(),
        ..database()
    };
    assert_eq!(
        solve(&beside(vec![everywhere], vec![alone])),
        "1 [0] no host is free of other jobs where one of both wants it for itself (exclusive) \
         (4 hosts: 4 shared with others; one would fit without exclusive)"
    );
}

#[test]
fn who_is_bound_to_a_host_keeps_its_rules_and_says_so() {
    let bound = |n: u32| crate::Bound {
        number: InstanceNumber(n),
        host: HostId::new("a"),
        hostname: "a.example".into(),
        offered: true,
    };
    let mut wanted = group(1, Service, 0, shape(1, 10));
    wanted.siting.max_per = [("rack".to_owned(), 1)].into();
    wanted.bound = vec![bound(0), bound(1)];
    assert_eq!(
        solve(&beside(vec![], vec![wanted.clone()])),
        "1 0:a\n1 [1] waits for the host that has its volume (a.example, which has as many of it as may be there)"
    );
    wanted.siting.exclusive = true;
    let told = solve(&beside(vec![database()], vec![wanted]));
    assert!(
        told.contains("1 [0] waits for the host that has its volume (a.example, which would be shared"),
        "{told}"
    );
}

#[test]
fn hosts_are_told_by_number_pattern_and_existence() {
    let of = |attribute: &str, test: Test| Constraint {
        test,
        ..rule(attribute, &[], false)
    };
    let numbered = |name: &str, cores: &str| with_attribute(host(name, shape(9, 900)), "cores", cores);
    let hosts = || {
        vec![
            numbered("a", "4"),
            numbered("b", "16,x"),
            host("c", shape(9, 900)),
        ]
    };
    let than = |how, n| of("cores", Test::Compares(how, Number(n)));
    for (rule, place) in [
        (than(Comparison::Less, 16_000_000), "a"),
        (than(Comparison::AtMost, 4_000_000), "a"),
        (than(Comparison::More, 4_000_000), "b"),
        (than(Comparison::AtLeast, 16_000_000), "b"),
        (of("cores", Test::Exists).turned(), "c"),
        (of("cores", Test::Matches("1.".to_owned())), "b"),
        (of("hostname", Test::Matches("[ac]\\..*".to_owned())), "a"),
        (of("hostname", Test::Matches("c".to_owned())).turned(), "a"),
    ] {
        let mut wanted = group(1, Batch, 1, shape(1, 10));
        wanted.constraints = vec![rule.clone()];
        let solved = solve(&problem(1, vec![wanted], hosts()));
        assert_eq!(solved, format!("1 0:{place}"), "{rule}");
    }
}

#[test]
fn hosts_that_are_changed_one_by_one_are_those_that_are_made_anew() {
    let mut kept = crate::Hosts::new(hosts());
    let mut now = hosts();
    now[1].free = shape(2, 20);
    now[2] = with_attribute(host("c", shape(99, 10)), "zone", "z");
    for view in &now {
        kept.update(view.clone());
    }
    now.push(host("e", shape(1, 1)));
    kept.update(now[4].clone());
    now.remove(0);
    kept.remove(&HostId::new("a"));
    let mut wanted = group(1, Service, 20, shape(1, 1));
    wanted.siting.spread_over = vec!["zone".to_owned()];
    let anew = problem(1, vec![wanted], now.clone());
    let other = Problem {
        hosts: Arc::new(kept.clone()),
        ..anew.clone()
    };
    assert_eq!(place(&anew), place(&other));
    now[0].draining = true;
    kept.renew(vec![now[0].clone()], &[HostId::new("a")]);
    assert_eq!(kept, crate::Hosts::new(now.clone()), "a was not there");
    let (gone, new) = (now.remove(0), host("a", shape(1, 1)));
    now[0].free = shape(1, 1);
    kept.renew(vec![new.clone(), now[0].clone()], &[gone.id]);
    now.push(new);
    assert_eq!(kept, crate::Hosts::new(now));
}
