//! What is told of files that are wrong in their form: where, what was found, and what is right.

use super::*;

#[test]
fn what_has_another_form_is_told_in_words() {
    for (more, told) in [
        (
            "update: 3\n",
            "line 9: update: takes fields, like `{name: value}`; there is a single value",
        ),
        (
            "clusters: [a, b]\n",
            "line 9: clusters: takes fields, like `{name: value}`; there is a list",
        ),
        (
            "args: -v\n",
            "line 9: args: takes a list, like `[a, b]`; there is a single value",
        ),
        (
            "args: {a: b}\n",
            "line 9: args: takes a list, like `[a, b]`; there are fields",
        ),
        (
            "grace: [1s]\n",
            "line 9: grace: takes a single value; there is a list",
        ),
        (
            "grace: {a: 1s}\n",
            "line 9: grace: takes a single value; there are fields",
        ),
        ("after: [{condition: ended}]\n", "line 9: needs `job`"),
        (
            "env: {A: , B: b}\n",
            "line 9: env.A: has no value; write '' for an empty text",
        ),
        ("retry: {limit: 3\n", "line 9: "),
        ("name: twice\n", "line 9: "),
        ("\tgrace: 1s\n", "line 9: "),
    ] {
        let said = said(&format!("{HELLO}{more}"));
        assert!(said.starts_with(told), "{more}: {said}");
    }
}

#[test]
fn a_wrong_value_deep_in_a_file_is_told_with_its_line() {
    let file = "\
name: deep
labels:
  example.org/team: a
groups:
  one:
    resources: {cpus: 1}
    command: run
    retry:
      limit: 3
      backoff: soon
  two:
    resources:
      cpus: 1
      memory: 5
    command: |
      several
      lines
    uris:
      - uri: /opt/tool
      - uri: /opt/other
        cache: perhaps
";
    let lines = said(file);
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            "line 10: groups.one.retry.backoff: `soon` is not a unit of time: use ms, s, m, h or d",
            "line 21: groups.two.uris[1].cache: `perhaps` is neither true nor false",
            "line 14: groups.two.resources.memory: `5` has no unit: write for example `5MiB` (KiB, MiB, GiB, TiB)",
        ]
    );
}

#[test]
fn what_is_missing_is_told_where_it_should_be() {
    let said = said("name: x\ngroups:\n  a:\n    command: run\n");
    assert!(
        said.starts_with("line 4: groups.a.resources: is missing"),
        "{said}"
    );
}

#[test]
fn fields_of_groups_are_no_fields_of_overrides() {
    let said = said(&format!(
        "{HELLO}overrides:\n  - instances: 0-3\n    ports: [{{name: http}}]\n"
    ));
    assert_eq!(
        said,
        "line 11: `ports` cannot differ between instances of a group; make a group of those that need another, below `groups`"
    );
    let said = super::said(&format!("{HELLO}overrides: [{{instances: 0, commnd: x}}]\n"));
    assert_eq!(said, "line 9: unknown field `commnd`; did you mean `command`?");
}

#[test]
fn a_word_that_is_none_is_told_with_the_nearest() {
    for (line, told) in [
        (
            "kind: srvice",
            "`srvice` is not a kind of job: use batch, service, stateful or daemon; did you mean `service`?",
        ),
        (
            "restart: on_failure",
            "`on_failure` is not a restart policy: use on-failure, always or never; did you mean `on-failure`?",
        ),
        ("update: {on_failure: rollback}", "did you mean `roll_back`?"),
        (
            "max_unavailable: 25 percent",
            "`25 percent` is neither a number of instances nor a percentage",
        ),
        (
            "overrides: [{instances: 3-0, command: x}]",
            "overrides[0].instances: `3-0` is not a set of instances",
        ),
    ] {
        let said = said(&format!("{}{line}\n", HELLO.replace("kind: batch\n", "")));
        assert!(said.contains(told), "{said}");
    }
}

proptest! {
    #[test]
    fn whatever_is_wrong_is_told_without_a_panic(text in "(name|env|groups|update|a|b|:|\\{|\\}|\\[|\\]|\n| |-|1|'|\"|\\||&x|\\*x|,){0,40}") {
        if let Err(wrong) = parse(text.as_bytes()) {
            prop_assert!(!wrong.to_string().is_empty());
        }
    }
}
