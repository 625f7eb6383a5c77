use super::{group, host, judged, kept, lending, rule, solve, with_attribute, with_ports};
use crate::{Broken, Choice, Flaw, Problem, check, place};
use echelon_core_model::cluster::HostView;
use echelon_core_model::sharing::{Others, QuotaLimit, RoleShare, Sharing};
use echelon_core_model::spec::JobKind::{Batch, Service};
use echelon_core_model::{HostId, InstanceNumber, Kind, Resources};
use echelon_core_testkit::build::shape;

fn problem(groups: Vec<crate::Wanted>, hosts: Vec<HostView>) -> Problem {
    super::problem(7, groups, hosts)
}

fn three_hosts() -> Vec<HostView> {
    vec![
        host("a", shape(4, 400)),
        host("b", shape(2, 200)),
        host("c", shape(3, 300)),
    ]
}

#[test]
fn batch_fills_the_fullest_host_first() {
    let p = problem(vec![group(1, Batch, 4, shape(1, 100))], three_hosts());
    assert_eq!(solve(&p), "1 0:b 1:b 2:c 3:c");
}

#[test]
fn services_go_where_fewest_of_them_are_and_most_room_is() {
    let mut wanted = group(1, Service, 5, shape(1, 100));
    wanted.present = [(HostId::new("a"), 1)].into();
    assert_eq!(
        solve(&problem(vec![wanted], three_hosts())),
        "1 0:c 1:b 2:a 3:c 4:b"
    );
}

#[test]
fn higher_priority_then_older_jobs_go_first() {
    let mut late = group(3, Batch, 2, shape(2, 10));
    late.priority = 1;
    let groups = vec![
        group(2, Batch, 2, shape(2, 10)),
        group(1, Batch, 1, shape(2, 10)),
        late,
    ];
    let p = problem(groups, vec![host("a", shape(6, 600))]);
    assert_eq!(
        solve(&p),
        "1 0:a\n3 0:a 1:a\n2 [0-1] hosts have too little left: cpus needs 2, has at most 0 (1 host: 1 full)"
    );
}

#[test]
fn what_does_not_fit_does_not_block_what_does() {
    let mut big = group(1, Batch, 1, shape(5, 10));
    big.priority = 9;
    let p = problem(vec![big, group(2, Batch, 1, shape(1, 10))], three_hosts());
    assert_eq!(
        solve(&p),
        "2 0:b\n1 [0] hosts have too little left: cpus needs 5, has at most 4 \
         (3 hosts: 3 too small; one would fit with cpus 4)"
    );
}

#[test]
fn avoided_hosts_are_used_only_when_no_other_fits() {
    for kind in [Batch, Service] {
        let mut wanted = group(1, kind, 3, shape(2, 100));
        for item in &mut wanted.items {
            item.avoid = vec![HostId::new("a"), HostId::new("gone")];
        }
        let hosts = vec![
            host("a", shape(8, 800)),
            host("b", shape(3, 300)),
            host("c", shape(2, 200)),
        ];
        let (answer, report) = place(&problem(vec![wanted.clone()], hosts.clone()));
        let mut used: Vec<&str> = answer.choices.iter().map(|c| c.host.as_str()).collect();
        assert_eq!(used.pop(), Some("a"), "{kind}");
        used.sort_unstable();
        assert_eq!(used, ["b", "c"], "{kind}");
        assert_eq!(report.avoided_used, 1, "{kind}");
        judged(&problem(vec![wanted], hosts));
    }
}

#[test]
fn an_instance_that_avoids_does_not_change_where_the_next_one_goes() {
    let mut wanted = group(1, Batch, 3, shape(1, 100));
    wanted.items[1].avoid = vec![HostId::new("b")];
    assert_eq!(solve(&problem(vec![wanted], three_hosts())), "1 0:b 1:c 2:b");
}

#[test]
fn constraints_choose_hosts_by_attribute_and_name() {
    let hosts = vec![
        with_attribute(host("a", shape(4, 400)), "zone", "east"),
        with_attribute(host("b", shape(4, 400)), "zone", "west"),
        with_attribute(host("c", shape(4, 400)), "zone", "east,edge"),
        host("d", shape(4, 400)),
    ];
    for (rules, places) in [
        (vec![rule("zone", &["west"], false)], "b"),
        (vec![rule("zone", &["east", "west"], true)], "d"),
        (vec![rule("zone", &["edge"], false)], "c"),
        (
            vec![
                rule("zone", &["east"], false),
                rule("hostname", &["a.example"], true),
            ],
            "c",
        ),
        (vec![rule("hostname", &["d.example"], false)], "d"),
        (
            vec![rule("rack", &["r1"], true), rule("zone", &["east"], false)],
            "a",
        ),
    ] {
        let mut wanted = group(1, Batch, 1, shape(1, 100));
        wanted.constraints = rules.clone();
        let p = problem(vec![wanted], hosts.clone());
        assert_eq!(solve(&p), format!("1 0:{places}"), "{rules:?}");
    }
}

#[test]
fn reasons_are_true_and_have_numbers() {
    let busy = HostView {
        free: shape(1, 100),
        used: shape(3, 300),
        ..host("a", shape(4, 400))
    };
    let unoffered = HostView {
        free: Resources::ZERO,
        ..host("b", shape(4, 400))
    };
    let zone = vec![rule("zone", &["east", "west"], false)];
    let both = vec![
        rule("hostname", &["a.example"], false),
        rule("hostname", &["a.example"], true),
    ];
    let table = [
        (vec![], vec![], "the cluster has no hosts"),
        (
            vec![busy.clone()],
            vec![],
            "hosts have too little left: cpus needs 2, has at most 1 \
             (1 host: 1 full)",
        ),
        (
            vec![busy.clone(), unoffered],
            vec![],
            "waits for Mesos to offer hosts: cpus needs 2, has at most 1 (2 hosts: 1 full, 1 not offered)",
        ),
        (
            vec![busy.clone()],
            zone,
            "hosts do not meet a constraint (none of 1 hosts has zone east or west)",
        ),
        (
            vec![busy.clone(), host("c", shape(2, 100))],
            both,
            "hosts do not meet a constraint (none of 2 hosts meets all 2 constraints)",
        ),
        (
            // Each kind is there, but not on one host.
            vec![host("m", shape(1, 900)), host("p", shape(9, 100))],
            vec![],
            "hosts have too little left: cpus needs 2, has at most 1 \
             (2 hosts: 2 too small; one would fit with cpus 1)",
        ),
    ];
    for (hosts, constraints, text) in table {
        let mut wanted = group(1, Batch, 1, shape(2, 200));
        wanted.constraints = constraints;
        assert_eq!(solve(&problem(vec![wanted], hosts)), format!("1 [0] {text}"));
    }
}

/// A host of four cores that is not offered to us, of which others use and are offered some.
fn held(name: &str, used: u64, offered: u64) -> HostView {
    HostView {
        free: Resources::ZERO,
        others: Others {
            used: shape(used, 0),
            offered: shape(offered, 0),
        },
        ..host(name, shape(4, 400))
    }
}

#[test]
fn each_cause_that_a_host_is_not_offered_has_its_own_reason() {
    let role = |role: &str, used, offered| RoleShare {
        role: role.to_owned(),
        held: Others {
            used: shape(used, 0),
            offered: shape(offered, 0),
        },
    };
    let limit = |(ours, one_host)| QuotaLimit {
        role: "eng".to_owned(),
        kind: Kind::Cpus,
        limit: 4000,
        ours,
        one_host,
    };
    let roles = || vec![role("spark", 3, 0), role("*", 0, 3)];
    let busy = HostView {
        used: shape(2, 20),
        ..held("b", 0, 0)
    };
    let table = [
        (
            vec![held("a", 3, 0)],
            None,
            "other frameworks of this Mesos use what hosts have: cpus needs 2, has at most 0 \
             (role spark uses 3 cpus, role * is offered 3 cpus; 1 host: 1 used by other frameworks)",
        ),
        (
            vec![held("a", 3, 0), held("b", 0, 3)],
            None,
            "other frameworks of this Mesos hold offers of what hosts have, and do not use it: cpus needs 2, has at most 0 \
             (role spark uses 3 cpus, role * is offered 3 cpus; 2 hosts: 1 used by other frameworks, 1 offered to other frameworks)",
        ),
        (
            vec![held("a", 3, 0), held("b", 1, 1)],
            None,
            "waits for Mesos to offer hosts: cpus needs 2, has at most 0 \
             (2 hosts: 1 used by other frameworks, 1 not offered)",
        ),
        (
            vec![busy.clone()],
            Some((3000, 3000)),
            "Mesos' quota lets this role have no more: cpus needs 2, has at most 1 (the limit of role eng is 4)",
        ),
        (
            vec![busy.clone()],
            Some((9000, 1500)),
            "Mesos' quota lets this role have no more: cpus needs 2, has at most 1.5 (the limit of role eng is 4)",
        ),
        (
            vec![busy],
            Some((4000, 4000)),
            "waits for Mesos to offer hosts: cpus needs 2, has at most 0 (1 host: 1 not offered)",
        ),
    ];
    for (hosts, ours, text) in table {
        let mut problem = problem(vec![group(1, Batch, 1, shape(2, 100))], hosts);
        problem.sharing = Sharing::new(roles(), ours.map(|ours| vec![limit(ours)]));
        assert_eq!(solve(&problem), format!("1 [0] {text}"));
    }
}

#[test]
fn a_problem_with_flaws_is_solved_without_them() {
    let mut twice = group(1, Batch, 2, shape(1, 100));
    twice.items[1].number = InstanceNumber(0);
    let groups = vec![twice, group(1, Batch, 1, shape(1, 1))];
    let p = problem(groups, vec![host("a", shape(1, 100)), host("a", shape(9, 900))]);
    let (answer, report) = place(&p);
    assert_eq!(answer.choices.len(), 1);
    assert!(matches!(
        report.problems.as_slice(),
        [Flaw::HostTwice(_), Flaw::GroupTwice(..), Flaw::ItemTwice(_)]
    ));
}

#[test]
fn nothing_wanted_is_answered_with_nothing() {
    assert_eq!(solve(&problem(vec![], three_hosts())), "");
    assert_eq!(
        solve(&problem(vec![group(1, Service, 0, shape(1, 1))], vec![])),
        ""
    );
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let mut avoiding = group(1, Service, 2, shape(1, 100));
    avoiding.constraints = vec![rule("hostname", &["b.example"], true)];
    let p = problem(vec![avoiding], three_hosts());
    let good = judged(&p);
    let to = |host: &str| -> Vec<Choice> {
        let mut choices = good.choices.clone();
        choices.iter_mut().for_each(|c| c.host = HostId::new(host));
        choices
    };
    let with = |choices: Vec<Choice>| {
        let mut answer = good.clone();
        answer.choices = choices;
        check(&p, &answer)
    };
    assert!(matches!(with(to("a")).as_slice(), [Broken::Uneven(..)]));
    assert!(matches!(
        with(to("z")).as_slice(),
        [Broken::Unknown(..), Broken::Unknown(..)]
    ));
    assert!(matches!(
        with(to("b")).as_slice(),
        [Broken::Constraint(..), Broken::Constraint(..), Broken::Uneven(..)]
    ));
    assert!(matches!(
        with(vec![]).as_slice(),
        [Broken::Answered(_, 0), Broken::Answered(_, 0)]
    ));
    let thrice = [good.choices.clone(), good.choices.clone(), good.choices.clone()].concat();
    assert!(with(thrice).iter().any(|b| matches!(b, Broken::Answered(_, 3))));

    let mut left_out = good.clone();
    let choice = left_out.choices.pop().unwrap();
    left_out.unplaced.push(crate::Unplaced {
        job: choice.instance.job,
        group: choice.instance.group,
        numbers: [choice.instance.number].into_iter().collect(),
        reason: echelon_core_model::ReasonCode::NoHosts.into(),
        hosts: crate::Obstacles::default(),
    });
    let broken = check(&p, &left_out);
    assert!(
        matches!(broken.as_slice(), [Broken::RoomLeft(..), Broken::FalseReason(..)]),
        "{broken:?}"
    );

    let p = problem(
        vec![group(1, Batch, 5, shape(1, 100))],
        vec![host("a", shape(4, 900)), host("b", shape(1, 100))],
    );
    let mut over = judged(&p);
    over.choices.iter_mut().for_each(|c| c.host = HostId::new("a"));
    assert!(check(&p, &over).contains(&Broken::OverCommitted(
        HostId::new("a"),
        echelon_core_model::Kind::Cpus
    )));
}

#[test]
fn ports_are_given_with_the_host_and_never_twice() {
    let hosts = || {
        vec![
            with_ports(host("a", shape(8, 800)), 80, 81),
            with_ports(host("b", shape(8, 800)), 81, 83),
            host("c", shape(8, 800)),
        ]
    };
    let unasked = host("c", shape(8, 800));
    for (why, wishes, n, hosts, answer) in [
        ("any", vec![None], 3, hosts(), "1 0:a+80 1:a+81 2:b+81"),
        ("a certain one", vec![Some(81)], 2, hosts(), "1 0:a+81 1:b+81"),
        ("both", vec![None, Some(81)], 2, hosts(), "1 0:a+80+81 1:b+82+81"),
        (
            "one a host",
            vec![Some(81)],
            3,
            hosts(),
            "1 0:a+81 1:b+81\n1 [2] waits for Mesos to offer hosts (3 hosts: 2 without the ports, 1 not offered)",
        ),
        (
            "none anywhere",
            vec![Some(8080), None, None],
            1,
            hosts()[..2].to_vec(),
            "1 [0] hosts have not the ports that it needs (needs port 8080, 2 free ports; 2 hosts: 2 without the ports)",
        ),
        (
            "not known",
            vec![None],
            1,
            vec![unasked],
            "1 [0] waits for Mesos to offer hosts (1 host: 1 not offered)",
        ),
    ] {
        let mut wanted = group(1, Batch, n, shape(1, 100));
        wanted.ports = wishes;
        assert_eq!(solve(&problem(vec![wanted], hosts)), answer, "{why}");
    }
}

#[test]
fn a_group_that_finds_no_ports_keeps_nobody_else_from_a_host() {
    let mut certain = group(1, Batch, 1, shape(1, 100));
    certain.ports = vec![Some(8080)];
    let mut any = group(2, Batch, 1, shape(1, 100));
    any.ports = vec![None];
    let plain = group(3, Batch, 1, shape(1, 100));
    let hosts = vec![with_ports(host("a", shape(8, 800)), 80, 81)];
    let solved = solve(&problem(vec![certain, any, plain], hosts));
    assert!(solved.starts_with("2 0:a+80\n3 0:a\n1 [0] "), "{solved}");
}

#[test]
fn hosts_with_gpus_are_kept_for_work_that_asks_for_some() {
    let hosts = || {
        vec![
            kept(host("g", shape(8, 800)), 2),
            kept(host("h", shape(8, 800)), 1),
            host("c", shape(2, 200)),
        ]
    };
    let gpu = Resources {
        gpus: 1000,
        ..shape(1, 100)
    };
    let open = |mut h: HostView| {
        h.kept = false;
        h
    };
    for (why, wanted, hosts, answer) in [
        (
            "work with GPUs",
            group(1, Batch, 3, gpu),
            hosts(),
            "1 0:h 1:g 2:g",
        ),
        (
            "other work takes what is left and says how many hosts were set aside",
            group(1, Service, 3, shape(1, 100)),
            hosts(),
            "1 0:c 1:c\n1 [2] hosts have too little left: cpus needs 1, has at most 0 \
             (3 hosts: 2 kept for work with GPUs, 1 full)",
        ),
        (
            "nothing else is there",
            group(1, Batch, 1, shape(1, 100)),
            hosts()[..2].to_vec(),
            "1 [0] hosts with GPUs are kept for work that asks for GPUs (2 hosts: 2 kept for work with GPUs)",
        ),
        (
            "an operator has opened them",
            group(1, Batch, 1, shape(8, 100)),
            hosts()[..1].iter().cloned().map(open).collect(),
            "1 0:g",
        ),
    ] {
        assert_eq!(solve(&problem(vec![wanted], hosts)), answer, "{why}");
    }
    let p = problem(vec![group(1, Batch, 1, shape(1, 100))], hosts());
    let mut wrong = judged(&p);
    wrong.choices[0].host = HostId::new("g");
    assert!(matches!(check(&p, &wrong).as_slice(), [Broken::Constraint(..)]));
}

#[test]
fn revocable_work_runs_on_what_hosts_lend_and_other_work_never_does() {
    let revocable = |instances| {
        let mut wanted = group(1, Batch, instances, shape(2, 100));
        wanted.revocable = true;
        wanted
    };
    let cpus = |cores| shape(cores, 0);
    let idle = |mut h: HostView| {
        h.slack.free = Resources::ZERO;
        h
    };
    for (why, wanted, hosts, answer) in [
        (
            "processor time is lent, memory is not",
            revocable(4),
            vec![
                lending(host("a", shape(0, 150)), cpus(9)),
                lending(host("b", shape(9, 900)), cpus(5)),
            ],
            "1 0:a 1:b 2:b\n1 [3] hosts have too little left: cpus needs 2, has at most 1 \
             (2 hosts: 2 full; one would fit with memory 50MiB)",
        ),
        (
            "where memory is lent ordinary memory is not touched",
            revocable(3),
            vec![lending(host("a", shape(9, 900)), shape(8, 250))],
            "1 0:a 1:a\n1 [2] hosts have too little left: memory needs 100MiB, has at most 50MiB \
             (1 host: 1 full; one would fit with memory 50MiB)",
        ),
        (
            "ordinary processor time is never taken",
            revocable(1),
            vec![
                host("a", shape(9, 900)),
                lending(host("b", shape(9, 900)), cpus(1)),
            ],
            "1 [0] hosts lend too little room for revocable work: cpus needs 2, has at most 1 \
             (2 hosts: 2 lend too little; one would fit with cpus 1)",
        ),
        (
            "lent, not offered",
            revocable(1),
            vec![idle(lending(host("a", shape(9, 900)), cpus(4)))],
            "1 [0] waits for Mesos to offer hosts: cpus needs 2, has at most 0 (1 host: 1 not offered)",
        ),
        (
            "other work",
            group(1, Batch, 2, shape(2, 100)),
            vec![lending(host("a", shape(3, 900)), shape(8, 800))],
            "1 0:a\n1 [1] hosts have too little left: cpus needs 2, has at most 1 \
             (1 host: 1 full; one would fit with cpus 1)",
        ),
    ] {
        assert_eq!(solve(&problem(vec![wanted], hosts)), answer, "{why}");
    }
    let p = problem(
        vec![revocable(1)],
        vec![lending(host("a", shape(0, 900)), cpus(2))],
    );
    let good = judged(&p);
    let mut wrong = p.clone();
    wrong.groups[0].revocable = false;
    let broken = check(&wrong, &good);
    assert!(
        matches!(
            broken.as_slice(),
            [Broken::OverCommitted(_, echelon_core_model::Kind::Cpus)]
        ),
        "{broken:?}"
    );
}
