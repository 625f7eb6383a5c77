//! The schema is what the parser reads, and pages are what the schema says.

mod check;
mod page;

use super::*;
use crate::job_file::{file, parts_file, runtime_file, schema, shape, siting_file};
use check::Schema;
use std::collections::BTreeMap;

const SCHEMA: &str = "docs/job.schema.json";

/// All shapes by their names in the schema, each with the fields that its reader asks for.
fn shapes() -> Vec<(&'static str, &'static [&'static str])> {
    macro_rules! shapes {
        ($($module:ident::$name:ident,)*) => { vec![$((stringify!($name), shape::fields::<$module::$name>()),)*] };
    }
    shapes![
        file::JobFile,
        file::GroupFile,
        file::SidecarFile,
        parts_file::ClustersFile,
        parts_file::GangFile,
        parts_file::ScheduleFile,
        parts_file::AfterFile,
        parts_file::UpdateFile,
        parts_file::OverrideFile,
        parts_file::ResourcesFile,
        parts_file::PersistentVolumeFile,
        parts_file::RetryFile,
        runtime_file::SecretFile,
        runtime_file::UriFile,
        runtime_file::ContainerFile,
        runtime_file::VolumeFile,
        runtime_file::PortFile,
        runtime_file::ProbeFile,
        runtime_file::HealthFile,
        runtime_file::HttpFile,
        runtime_file::TcpFile,
        siting_file::ConstraintFile,
        siting_file::PreferenceFile,
        siting_file::AffinityFile,
    ]
}

/// A file of the repository; written anew where that is asked for.
fn is_kept(path: &str, text: &str) {
    let at = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("INSTA_UPDATE").is_some_and(|how| how == "always") {
        std::fs::write(&at, text).unwrap();
    }
    let kept = std::fs::read_to_string(&at).unwrap_or_default();
    assert!(
        kept == text,
        "{path} is not what the program says: INSTA_UPDATE=always cargo test -p echelon-cli writes it anew"
    );
}

#[test]
fn the_kept_schema_is_that_of_the_program() {
    is_kept(SCHEMA, &schema::text());
}

#[test]
fn every_field_of_the_parser_is_in_the_schema_and_the_other_way_round() {
    let schema = Schema::new();
    let mut objects = schema.objects();
    for (name, fields) in shapes() {
        let mut of_parser: Vec<&str> = fields.to_vec();
        of_parser.sort_unstable();
        let of_schema = objects.remove(name).unwrap_or_default();
        assert_eq!(of_parser, of_schema, "{name}");
    }
    assert!(
        objects.is_empty(),
        "shapes that this test does not know: {:?}",
        objects.keys()
    );
}

#[test]
fn every_example_is_valid() {
    let schema = Schema::new();
    let root = format!("{}/../examples", env!("CARGO_MANIFEST_DIR"));
    let folders = [root.clone(), format!("{root}/pipeline")];
    let entries = folders.iter().flat_map(|f| std::fs::read_dir(f).unwrap());
    let files = entries.map(|e| e.unwrap().path());
    let files: Vec<_> = files
        .filter(|f| f.extension().is_some_and(|e| e == "yaml"))
        .collect();
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(parse(text.as_bytes()).is_ok(), "{}", file.display());
        assert_eq!(schema.wrong(&text), Vec::<String>::new(), "{}", file.display());
    }
}

proptest! {
    #[test]
    fn whatever_is_written_is_valid(spec in echelon_core_testkit::specs::specs()) {
        let text = write(&super::write::writable(spec), crate::output::Format::Yaml);
        prop_assert_eq!(Schema::new().wrong(&text), Vec::<String>::new(), "{}", text);
    }
}

#[test]
fn what_no_shape_has_is_refused_by_both() {
    let schema = Schema::new();
    for text in [
        HELLO.replace("max_running", "max_runing"),
        HELLO.replace("memory", "memroy"),
        format!("{HELLO}retry: {{limt: 3}}\n"),
        format!("{HELLO}sidecars: [{{name: a, ports: []}}]\n"),
        format!("{HELLO}overrides: [{{instances: 1, resources: {{cpus: 1}}}}]\n"),
        format!("{HELLO}after: [{{condition: ended}}]\n"),
        format!("{HELLO}args: -v\n"),
        HELLO.replace("name: hello\n", ""),
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
        assert!(!schema.wrong(&text).is_empty(), "{text}");
    }
}

/// Not `1.`, `.5` and `1e3`: to JSON Schema these are the numbers that they are, however they are written.
const VALUES: &[&str] = &[
    "true",
    "false",
    "yes",
    "0",
    "1",
    "7",
    "-1",
    "0.5",
    "abc",
    "''",
    "25%",
    "25 %",
    "%",
    "64MiB",
    "1.5GiB",
    "64MB",
    "64",
    "5m",
    "1.5h",
    "5 m",
    "300ms",
    "wait",
    "replace after 5m",
    "replace soon",
    "all",
    "any",
    "batch",
    "service",
    "stateful",
    "none",
    "even",
    "on-failure",
    "always",
    "never",
    "roll_back",
    "pause",
    "continue",
    "keep",
    "delete",
    "0-3",
    "0-3,8",
    "3-",
    "\"8\"",
];

/// Where they are put, and what they stand instead of.
const PLACES: &[(&str, &str)] = &[
    ("preemptible: @", ""),
    ("max_wait: @", ""),
    ("max_failed: @", ""),
    ("completion: @", ""),
    ("kind: @", "kind: batch\n"),
    ("restart: @", ""),
    ("on_unreachable: @", ""),
    ("on_gone: @", ""),
    ("max_unavailable: @", ""),
    ("clusters: {spread: @}", ""),
    ("update: {on_failure: @, batch: @}", ""),
    ("priority: @", ""),
    ("volume: {path: a, size: @}", ""),
    ("volume: {path: a, size: 1GiB, reclaim: @}", ""),
    ("overrides: [{instances: @, command: a}]", ""),
    ("ports: [{name: a, port: @}]", ""),
    ("retry: {no_retry_exit_codes: [@]}", ""),
    ("after: [{job: a, condition: @}]", ""),
    ("constraints: [{attribute: a, less: @}]", ""),
    ("max_per: {rack: @}", ""),
    (
        "preferences: [{weight: @, rule: {attribute: a, exists: true}}]",
        "",
    ),
    ("container: {type: @, image: a}", ""),
    ("owner: @", ""),
    ("resources: {cpus: @}", "resources: {cpus: 0.1, memory: 32MiB}\n"),
    (
        "resources: {memory: @}",
        "resources: {cpus: 0.1, memory: 32MiB}\n",
    ),
];

/// A file with one value, and whether it is right.
#[test]
fn a_value_is_right_for_the_schema_when_it_is_for_the_parser() {
    let schema = Schema::new();
    for (line, instead_of) in PLACES {
        for value in VALUES {
            // `1GiB` is a whole number of MiB, and a number of instances may be anything: bounds are not a matter of form.
            let text = format!("{}{}\n", HELLO.replace(instead_of, ""), line.replace('@', value));
            let (parser, schema) = (parse(text.as_bytes()).is_ok(), schema.wrong(&text).is_empty());
            assert_eq!(
                parser,
                schema,
                "{line} with {value}: {:?}",
                parse(text.as_bytes()).err().map(|e| e.to_string())
            );
        }
    }
}

/// By name of shape.
type Objects = BTreeMap<String, Vec<String>>;
