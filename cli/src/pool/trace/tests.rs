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
            revocable: true,
            clusters: vec!["east".to_owned()],
            spread: true,
            groups: vec![GroupLine {
                name: "main".to_owned(),
                instances: 3,
                max_running: Some(2),
                shape: amounts,
                runs: vec![RunsLine { count: 2, ms: 9 }],
                first_start_ms: Some(6),
                last_start_ms: None,
            }],
        }),
    ];
    for line in &lines {
        assert_eq!(parse(line.text().trim_end().as_bytes()).unwrap(), *line);
    }
    let text = format!("{HEAD}\n{CLUSTER}\n{}{}", lines[0].text(), lines[1].text());
    let read = read("t", text.as_bytes()).unwrap();
    assert_eq!(read.tree.pools["/a"].reservation.cpus, 1000);
    assert_eq!(read.tree.pools["/a"].id.as_str(), "p1");
    assert_eq!(read.trace.jobs.len(), 1);
    insta::assert_snapshot!("written", text);
}
