use super::*;

const HEAD: &str = r#"{"trace":{"version":1,"until_ms":9000}}"#;
const CLUSTER: &str = r#"{"cluster":{"at_ms":0,"name":"east","capacity":{"cpus_milli":4000}}}"#;

fn wrong(lines: &[&str]) -> String {
    read("t", lines.join("\n").as_bytes()).unwrap_err().message
}

fn third(line: &str) -> String {
    wrong(&[HEAD, CLUSTER, line])
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_to_do() {
    let job = |rest: &str| {
        third(&format!(
            r#"{{"job":{{"submit_ms":5,"pool":"/a","groups":[{{"name":"main","shape":{{"cpus_milli":1}},{rest}}}"#
        ))
    };
    let told = [
        wrong(&[]),
        wrong(&[CLUSTER]),
        wrong(&[HEAD]),
        wrong(&[r#"{"trace":{"version":2,"until_ms":1}}"#]),
        third(HEAD),
        third("{"),
        third(r#"{"jbo":{}}"#),
        third(r#"{"job":{"submit":1}}"#),
        third(r#"{"job":{"submit_ms":1.5}}"#),
        third(r#"{"job":{"submit_ms":1,"pool":"/a","groups":[]}}"#),
        third(r#"{"pool":{"path":"/a","shares":1}}"#),
        job(r#""instances":0}]}"#),
        job(r#""instances":2,"runs":[{"count":3,"ms":1}]}]}"#),
        job(r#""instances":2}],"stop_ms":4}"#),
        third(r#"{"job":{"submit_ms":1,"pool":"/a","gro"#),
        third(r#"{"job":{"submit_ms":18446744073709551616,"pool":"/a","groups":[]}}"#),
        third(r#"{"job":{"submit_ms":-1,"pool":"/a","groups":[]}}"#),
        job(r#""instances":1}],"stop_ms":9007199254740993}}"#),
        job(r#""instances":1,"runs":[{"count":1,"ms":9007199254740993}]}]}}"#),
        job(r#""instances":10000000}],"gang":true}}"#),
        job(r#""instances":2,"max_running":1}],"gang":true}}"#),
        job(r#""instances":1,"volume":{"mib":5}}]}}"#),
        job(r#""instances":1,"host_pool":"Not a pool"}]}}"#),
        job(r#""instances":1,"max_unavailable":"101%"}]}}"#),
        third(
            r#"{"job":{"submit_ms":1,"pool":"/a","groups":[{"name":"m","instances":10000000,"shape":{"cpus_milli":1099511627776}}]}}"#,
        ),
        third(
            r#"{"job":{"submit_ms":1,"pool":"/a","groups":[{"name":"m","instances":1,"shape":{"cpus_milli":1099511627777}}]}}"#,
        ),
        third(r#"{"cluster":{"at_ms":0,"name":"e"}}"#),
        third(
            r#"{"cluster":{"at_ms":0,"name":"e","hosts":[{"count":4000000000,"capacity":{"cpus_milli":1}}]}}"#,
        ),
        third(r#"{"cluster":{"at_ms":0,"name":"e","capacity":{"cpus_milli":1125899906842625}}}"#),
        third(r#"{"end":{"jobs":7}}"#),
        wrong(&[HEAD, CLUSTER, r#"{"end":{"jobs":0}}"#, CLUSTER]),
        wrong(&[r#"{"trace":{"version":1,"from_ms":2,"until_ms":1}}"#]),
        wrong(&[
            HEAD,
            CLUSTER,
            r#"{"pool":{"path":"/b","pool_id":"p1"}}"#,
            r#"{"job":{"submit_ms":1,"pool":"/a","groups":[{"name":"m","instances":1,"shape":{"cpus_milli":1}}]}}"#,
        ]),
    ];
    insta::assert_snapshot!("wrong", told.join("\n"));
}

#[test]
fn every_line_reads_back_as_it_was_written() {
    let pool = v1::Pool {
        path: "/a".to_owned(),
        pool_id: "p1".to_owned(),
        reservation: Some(v1::Resources {
            cpus_milli: 1000,
            ..v1::Resources::default()
        }),
        kind: v1::PoolKind::Static.into(),
        ..v1::Pool::default()
    };
    let amounts = Amounts {
        cpus_milli: 1000,
        memory_mib: 64,
        disk_mib: 32,
        ..Amounts::default()
    };
    let lines = [
        Line::pool(&pool),
        Line::Job(JobLine {
            submit_ms: 5,
            stop_ms: Some(7),
            pool: "/a".to_owned(),
            owner: "ann".to_owned(),
            priority: 3,
            kind: Some(KindWord::Stateful),
            gang: Some(false),
            preemptible: Some(false),
            controller: Some(true),
            revocable: true,
            clusters: vec!["east".to_owned()],
            spread: true,
            unrecorded: BTreeSet::from([Unrecorded::Ports]),
            groups: vec![GroupLine {
                name: "main".to_owned(),
                instances: 3,
                max_running: Some(2),
                max_unavailable: Some("10%".to_owned()),
                shape: amounts,
                host_pool: Some("gpu".to_owned()),
                volume: Some(VolumeLine { mib: 32, keep: true }),
                runs: vec![RunsLine { count: 2, ms: 9 }],
                first_start_ms: Some(6),
                last_start_ms: None,
            }],
        }),
        Line::Cluster(ClusterLine {
            at_ms: 7,
            name: "east".to_owned(),
            capacity: None,
            hosts: Some(vec![HostsLine {
                count: 3,
                capacity: amounts,
                lent: amounts,
                host_pool: Some("gpu".to_owned()),
            }]),
        }),
        Line::LeftOut(LeftOutLine {
            cause: RecordCause::Daemons,
            count: 2,
        }),
        Line::End(EndLine { jobs: 1 }),
    ];
    for line in &lines {
        assert_eq!(parse(line.text().trim_end().as_bytes()).unwrap(), *line);
    }
    let text: String = lines.iter().map(Line::text).collect();
    let text = format!("{HEAD}\n{CLUSTER}\n{text}");
    let read = read("t", text.as_bytes()).unwrap();
    assert_eq!(read.tree.pools["/a"].reservation.cpus, 1000);
    assert_eq!(read.tree.pools["/a"].id.as_str(), "p1");
    assert_eq!(read.trace.jobs.len(), 1);
    let causes: Vec<(&str, u64)> = read.left_out.rows().map(|(cause, n, _)| (cause, n)).collect();
    assert_eq!(causes, [("daemons", 2), ("ports", 1), ("hosts_unknown", 1)]);
    insta::assert_snapshot!("written", text);
}

#[test]
fn moments_count_from_the_first_submit_or_from_where_the_trace_begins() {
    let job = r#"{"job":{"submit_ms":5000,"stop_ms":8000,"pool":"/a","groups":[{"name":"m","instances":1,"shape":{"cpus_milli":1},"first_start_ms":6000}]}}"#;
    let of = |head: &str| {
        read("t", format!("{head}\n{CLUSTER}\n{job}\n").as_bytes())
            .unwrap()
            .trace
    };
    let trace = of(HEAD);
    assert_eq!(
        (trace.until, trace.jobs[0].submitted),
        (Timestamp(4_000), Timestamp(0))
    );
    assert_eq!(trace.jobs[0].groups[0].first_started, Some(Timestamp(1_000)));
    let trace = of(r#"{"trace":{"version":1,"from_ms":4000,"until_ms":9000}}"#);
    assert_eq!(
        (trace.until, trace.jobs[0].submitted),
        (Timestamp(5_000), Timestamp(1_000))
    );
    assert_eq!(trace.capacities[0].at, Timestamp(0));
}

#[test]
fn what_fits_on_no_host_is_told_with_its_line() {
    let cluster =
        r#"{"cluster":{"at_ms":0,"name":"east","hosts":[{"count":2,"capacity":{"cpus_milli":4000}}]}}"#;
    let job = |gang: bool, instances: u32, cpus: u64| {
        format!(
            r#"{{"job":{{"submit_ms":1,"pool":"/a","gang":{gang},"groups":[{{"name":"m","instances":{instances},"shape":{{"cpus_milli":{cpus}}}}}]}}}}"#
        )
    };
    let of = |job: &str| {
        let read = read("t", format!("{HEAD}\n{cluster}\n{job}\n").as_bytes()).unwrap();
        let mut rows = read.left_out.rows();
        rows.find(|(cause, ..)| *cause == "fits_nowhere")
            .map(|(_, _, what)| what)
    };
    assert_eq!(of(&job(false, 1, 4_000)), None);
    assert_eq!(of(&job(true, 2, 3_000)), None);
    for too_large in [job(false, 1, 4_001), job(true, 3, 3_000), job(true, 2, 4_001)] {
        let told = of(&too_large).unwrap_or_default();
        assert!(told.ends_with("(first in line 3)"), "{told}");
    }
}
