use super::*;
use clap::Parser;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    flags: Simulate,
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What is shown of the example trace, its paths without the folder.
fn shown(flags: &[&str]) -> Result<String, Failure> {
    let trace = example("traces/events.jsonl");
    let flags: Vec<String> = flags
        .iter()
        .map(|f| f.replace("examples/", &example("")))
        .collect();
    let all = ["simulate", "--trace", &trace]
        .map(str::to_owned)
        .into_iter()
        .chain(flags);
    let flags = Flags::parse_from(all).flags;
    let recorded = trace::read("events.jsonl", BufReader::new(File::open(&flags.trace).unwrap()))?;
    let text = people(&recorded.trace, &columns(&recorded, &flags)?);
    let text = format!("{text}\n{}", left_out(&recorded, &flags).text());
    Ok(text.replace(&example(""), "examples/"))
}

#[test]
fn the_example_is_compared_under_two_trees() {
    let flags = ["--tree", "examples/traces/new.yaml"];
    insta::assert_snapshot!("example", shown(&flags).unwrap());
    assert_eq!(shown(&flags).unwrap(), shown(&flags).unwrap());
}

#[test]
fn another_capacity_is_compared_with_what_was_recorded() {
    insta::assert_snapshot!(
        "capacity",
        shown(&["--capacity", "east=cpus=32,memory=128GiB"]).unwrap()
    );
}

#[test]
fn a_tree_that_is_none_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    std::fs::write(&file, "pools: {ml: {limit: {cpus: 1}, reservation: {cpus: 2}}}").unwrap();
    let told = shown(&["--tree", file.to_str().unwrap()]).unwrap_err().message;
    assert!(
        told.contains("bad.yaml: pool `/ml` reserves cpus 2, above its limit of 1\n"),
        "{told}"
    );
}

/// The sentences are those of the rules, as `pool apply` shows them.
#[test]
fn each_problem_of_a_tree_is_reported_in_the_sentence_of_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.yaml");
    let deep = |levels: usize| {
        format!(
            "pools: {{{}}}",
            "a: {pools: {".repeat(levels) + &"}}".repeat(levels)
        )
    };
    for (text, told) in [
        (
            "pools: {a: {priority: {min: 3}, pools: {b: {priority: {max: 2}}}}}".to_owned(),
            "pool `/a/b` leaves no priority for its jobs: with the pools above it they need 3 at least and 2 at most",
        ),
        (
            "pools: {a: {revocable_limit: {gpus: 1}}}".to_owned(),
            "pool `/a` has a revocable_limit of gpus; leave it out, no host lends GPUs",
        ),
        (
            "pools: {a: {moved_from: b}}".to_owned(),
            "pool `/a` moved from `b`, which is not the path of a pool",
        ),
        (
            deep(65),
            "is not the path of a pool: it must be a path like `/ml/training`: 1 to 64 names of a-z, 0-9 and `-`, each \
             after a `/`",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let message = shown(&["--tree", file.to_str().unwrap()]).unwrap_err().message;
        assert!(message.contains(told), "{message}");
    }
    std::fs::write(&file, deep(64)).unwrap();
    let message = shown(&["--tree", file.to_str().unwrap()])
        .err()
        .map(|f| f.message);
    assert!(!message.unwrap_or_default().contains("not the path"));
}

#[test]
fn capacities_name_their_cluster() {
    assert_eq!(capacity("east=cpus=2").unwrap().1.cpus_milli, Some(2000));
    insta::assert_snapshot!(capacity("cpus=2").unwrap_err(), @"`cpus=2` is not CLUSTER=KIND=AMOUNT,..., such as east=cpus=100");
    insta::assert_snapshot!(capacity("east=cpu=2").unwrap_err(), @"`cpu` is not a kind of resource: use cpus, memory, disk or gpus");
}

#[test]
fn jobs_move_with_their_pools() {
    let moves = Moves(BTreeMap::from([("/a".to_owned(), "/b/c".to_owned())]));
    assert_eq!(moves.to("/a/x"), "/b/c/x");
    assert_eq!(moves.to("/ab"), "/ab");
}

#[test]
fn waits_are_told_in_units_that_fit() {
    let told = [0, 999, 59_999, 61_000, 3_700_000].map(|ms| wait(Wait::For(echelon_core_model::Span(ms))));
    assert_eq!(told, ["0ms", "999ms", "59.9s", "1m01s", "1h01m"]);
    assert_eq!(wait(Wait::Never), "never");
}
