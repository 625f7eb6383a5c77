//! Launches of pods, field by field.

use super::*;

fn asks_http() -> HealthCheck {
    HealthCheck {
        probe: Probe {
            kind: ProbeKind::Tcp {
                port: PortReference::from("http"),
            },
            delay: Span::ZERO,
            interval: Span::seconds(1),
            timeout: Span::seconds(1),
        },
        grace: Span::ZERO,
        failures: 1,
    }
}

/// A pod of a main task with a port and a sidecar that asks it, and a run of one task.
fn pod_and_single() -> (Launch, Launch) {
    let shape = |cpus| Resources {
        cpus,
        memory: 64,
        ..Resources::ZERO
    };
    let single = Launch {
        revocable: Resources::ZERO,
        reserved: Vec::new(),
        volume: None,
        task: "0000000000000000000000000a.main.1.1.1".parse().unwrap(),
        name: "web.main.1".to_owned(),
        discovery: "main.web".to_owned(),
        runtime: Runtime::shell("one"),
        ports: Vec::new(),
        resources: shape(1000),
        grace: Span::seconds(4),
        max_run: Some(Span::seconds(60)),
        labels: [].into(),
        sidecars: Vec::new(),
    };
    let http = PortSpec {
        name: "http".to_owned(),
        fixed: None,
        container_port: None,
        protocol: Protocol::Tcp,
        visibility: Visibility::Cluster,
    };
    let pod = Launch {
        task: "0000000000000000000000000a.main.0.1.1".parse().unwrap(),
        name: "web.main.0".to_owned(),
        runtime: Runtime {
            ports: vec![http],
            ..Runtime::shell("serve")
        },
        ports: vec![Port {
            name: "http".to_owned(),
            number: 31_000,
        }],
        sidecars: vec![Sidecar {
            name: SidecarName::new("log"),
            runtime: Runtime {
                health: Some(asks_http()),
                ..Runtime::shell("ship")
            },
            resources: shape(250),
        }],
        ..single.clone()
    };
    (pod, single)
}

/// R72, R82, and R75 for the executor's id.
#[test]
fn a_pod_is_one_group_below_an_executor_of_its_own() {
    let (pod, single) = pod_and_single();
    let call = Call::Accept {
        offers: vec![OfferId("o1".into())],
        host: HostId::new("agent"),
        launches: vec![pod.clone(), single.clone()],
        refuse: Span::ZERO,
    };
    let accept = call_to_wire(&call, &framework(), Some("f-1"))
        .unwrap()
        .accept
        .unwrap();
    let operations = accept.operations;
    let ids = |tasks: &[TaskInfo]| -> Vec<String> { tasks.iter().map(|t| t.task_id.value.clone()).collect() };
    assert_eq!(operations.len(), 2);
    let launch = operations[0].launch.as_ref().unwrap();
    assert_eq!(ids(&launch.task_infos), [single.task.to_string()]);
    assert_eq!(operations[1].r#type(), operation::Type::LaunchGroup);
    let group = operations[1].launch_group.as_ref().unwrap();
    let executor = &group.executor;
    assert_eq!(executor.executor_id.value, pod.task.to_string());
    assert_eq!(executor.r#type(), executor_info::Type::Default);
    let framework_id = executor.framework_id.as_ref().unwrap();
    assert_eq!(framework_id.value, "f-1", "not filled in (R82)");
    assert!(executor.command.is_none() && executor.container.is_none());
    let tasks = &group.task_group.tasks;
    assert_eq!(ids(tasks), [pod.task.to_string(), format!("{}.log", pod.task)]);
    let all = tasks.iter().flat_map(|t| &t.resources);
    let all: Vec<Resource> = all.chain(&executor.resources).cloned().collect();
    assert_eq!(
        from_resources(&all),
        pod.room(),
        "what is asked for is what was placed"
    );
}

/// R91: nobody mixes lent and ordinary room in one kind, neither a task nor the executor; R123: the volume is made for the group.
#[test]
fn a_pod_takes_lent_room_with_every_task_and_its_volume_with_the_main_one() {
    let (pod, _) = pod_and_single();
    let wire = |launch: Launch| {
        let call = Call::Accept {
            offers: vec![OfferId("o1".into())],
            host: HostId::new("agent"),
            launches: vec![launch],
            refuse: Span::ZERO,
        };
        let wire = call_to_wire(&call, &framework(), Some("f-1")).unwrap();
        wire.accept.unwrap().operations
    };
    let lent = Resources {
        cpus: pod.room().cpus,
        ..Resources::ZERO
    };
    let revocable = Launch {
        revocable: lent,
        ..pod.clone()
    };
    let operations = wire(revocable);
    let group = operations[0].launch_group.as_ref().unwrap();
    let tasks = group.task_group.tasks.iter().map(|t| &t.resources);
    let each: Vec<&Vec<Resource>> = tasks.chain([&group.executor.resources]).collect();
    for resources in &each {
        let cpus = resources.iter().filter(|r| r.name == "cpus");
        assert!(cpus.clone().count() == 1 && cpus.clone().all(|r| r.revocable.is_some()));
        let others = resources.iter().filter(|r| r.name != "cpus");
        assert!(others.clone().count() > 0 && others.clone().all(|r| r.revocable.is_none()));
    }
    let all: Vec<Resource> = each.into_iter().flatten().cloned().collect();
    assert_eq!(from_revocable(&all), lent);
    assert_eq!(from_resources(&all), pod.room().minus(lent));
    let stateful = Launch {
        volume: Some(TaskVolume {
            id: VolumeId::new("v"),
            path: "data".to_owned(),
            size: 64,
            used: false,
            offered: None,
        }),
        ..pod
    };
    let operations = wire(stateful);
    let kinds: Vec<operation::Type> = operations.iter().map(|o| o.r#type()).collect();
    let wanted = [
        operation::Type::Reserve,
        operation::Type::Create,
        operation::Type::LaunchGroup,
    ];
    assert_eq!(kinds, wanted);
    let made = &operations[1].create.as_ref().unwrap().volumes[0];
    let tasks = &operations[2].launch_group.as_ref().unwrap().task_group.tasks;
    let with = tasks
        .iter()
        .map(|t| t.resources.iter().filter(|r| *r == made).count());
    assert_eq!(with.collect::<Vec<_>>(), [1, 0], "the main task's");
}

#[test]
fn a_sidecar_says_what_is_its_own() {
    let (pod, _) = pod_and_single();
    let call = Call::Accept {
        offers: vec![OfferId("o1".into())],
        host: HostId::new("agent"),
        launches: vec![pod],
        refuse: Span::ZERO,
    };
    let accept = call_to_wire(&call, &framework(), Some("f-1"))
        .unwrap()
        .accept
        .unwrap();
    assert_eq!(accept.operations.len(), 1, "no LAUNCH of nothing");
    let group = accept.operations[0].launch_group.as_ref().unwrap();
    let (main, log) = (&group.task_group.tasks[0], &group.task_group.tasks[1]);
    let has_ports = |t: &TaskInfo| t.resources.iter().any(|r| r.name == "ports");
    assert!(has_ports(main) && !has_ports(log));
    assert!(main.discovery.is_some() && log.discovery.is_none());
    assert!(main.max_completion_time.is_some() && log.max_completion_time.is_none());
    assert_eq!(main.kill_policy, log.kill_policy);
    assert_eq!(log.name, "web.main.0.log");
    assert_eq!(log.command.as_ref().unwrap().value(), "ship");
    let asked = log.health_check.as_ref().unwrap().tcp.as_ref().unwrap();
    assert_eq!(asked.port, 31_000);
}
