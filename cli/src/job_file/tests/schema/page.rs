//! `docs/job-reference.md`: each field with its form, default and meaning, made of the schema and of what is written for files that leave
//! everything out that they can.

use super::check::{Schema, types};
use super::{is_kept, shapes};
use crate::job_file::{parse, write};
use crate::output::Format;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

const PAGE: &str = "docs/job-reference.md";

const HEAD: &str = "\
# Reference of job files

Every field of a [job file](job-files.md), made of the definition by which files are read; a test holds both equal
(`INSTA_UPDATE=always cargo test -p echelon-cli` writes this page anew). Editors take the same from [job.schema.json](job.schema.json), which
`echelon job schema` prints: with a first line of `# yaml-language-server: $schema=job.schema.json` many complete and check as one types.
`echelon job run --dry-run FILE` prints a file with every default written out.

A default is that of the kinds named; an empty one means that nothing is there unless it is given.
";

/// All that has defaults inside, with as little as it takes.
const LEAST: &str = "
name: x
priority: 0
command: x
resources: {cpus: 1}
gang: {}
schedule: {cron: '0 3 * * *'}
retry: {}
update: {}
clusters: {}
after: [{job: a}]
uris: [{uri: /a}]
ports: [{name: a}]
container: {image: a, volumes: [{path: a, sandbox_path: b}]}
health: {http: {port: a}}
readiness: {http: {port: a}}
volume: {path: a, size: 1GiB}
sidecars: [{name: a, command: a, resources: {}}]
";

const KINDS: [&str; 4] = ["batch", "service", "stateful", "daemon"];

/// For each kind, what was given and what is written.
struct Defaults(Vec<(&'static str, Value, Value)>);

impl Defaults {
    fn new() -> Self {
        let of = |kind: &'static str| {
            let line = if kind == "batch" {
                String::new()
            } else {
                format!("kind: {kind}\n")
            };
            let given = format!("{LEAST}{line}");
            let spec = parse(given.as_bytes()).unwrap();
            let written = write(&spec, Format::Json);
            let read = |text: &str| serde_saphyr::from_str::<Value>(text).unwrap();
            (kind, read(&given), read(&written))
        };
        Self(KINDS.map(of).into())
    }

    /// The default of the field at a path, `volume.reclaim` or `ports.protocol` of the first of a list.
    fn of(&self, path: &str) -> String {
        let plain = self.0.iter().filter(|(_, given, _)| at(given, path).is_none());
        let found = plain.filter_map(|(kind, _, written)| Some((*kind, shown(at(written, path)?)?)));
        let found: Vec<(&str, String)> = found.collect();
        match found.as_slice() {
            [] => String::new(),
            [(_, first), others @ ..] if others.iter().all(|(_, o)| o == first) => format!("`{first}`"),
            [(_, first), others @ ..] => {
                let differ = others.iter().filter(|(_, o)| o != first);
                let differ: Vec<String> = differ.map(|(kind, o)| format!("{kind}: `{o}`")).collect();
                format!("`{first}`; {}", differ.join("; "))
            }
        }
    }
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, field| {
        let value = value.get(0).unwrap_or(value);
        value.get(field)
    })
}

/// A plain value as it is written in a file.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Object(_) | Value::Array(_) | Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A shape and where it is met first.
struct Section {
    path: String,
    shape: String,
}

struct Page {
    schema: Schema,
    fields: BTreeMap<&'static str, &'static [&'static str]>,
    sections: Vec<Section>,
    defaults: Defaults,
}

impl Page {
    fn new() -> Self {
        let mut page = Self {
            schema: Schema::new(),
            fields: shapes().into_iter().collect(),
            sections: Vec::new(),
            defaults: Defaults::new(),
        };
        page.sections = page.met();
        page
    }

    /// Shapes in the order in which one meets them.
    fn met(&self) -> Vec<Section> {
        let mut out: Vec<Section> = Vec::new();
        let mut ahead = VecDeque::from([(String::new(), "JobFile".to_owned())]);
        while let Some((path, shape)) = ahead.pop_front() {
            if out.iter().any(|s| s.shape == shape) {
                continue;
            }
            for field in self.fields[shape.as_str()] {
                if let Some(inner) = self.shape_of(self.property(&shape, field)) {
                    ahead.push_back((format!("{path}{field}."), inner));
                }
            }
            out.push(Section { path, shape });
        }
        out
    }

    fn property(&self, shape: &str, field: &str) -> &Value {
        let of = if shape == "JobFile" {
            self.schema.root()
        } else {
            self.schema.named(&format!("#/$defs/{shape}"))
        };
        &of["properties"][field]
    }

    /// The shape that a field is, or is a list or map of.
    fn shape_of(&self, schema: &Value) -> Option<String> {
        let name = |s: &Value| {
            let name = s["$ref"].as_str()?.strip_prefix("#/$defs/")?;
            self.fields.contains_key(name).then(|| name.to_owned())
        };
        let parts = schema["anyOf"].as_array().into_iter().flatten();
        let inner = [schema, &schema["items"], &schema["additionalProperties"]];
        parts.chain(inner).find_map(name)
    }

    fn form(&self, schema: &Value) -> String {
        if let Some(shape) = self.shape_of(schema) {
            let section = self.sections.iter().find(|s| s.shape == shape).unwrap();
            let title = title(section);
            let link = format!("[{title}](#{})", title.replace('.', ""));
            return match types(&schema["type"]).first() {
                Some(&"array") => format!("list of {link}"),
                Some(&"object") => format!("{link} by name"),
                _ => link,
            };
        }
        if let Some(words) = schema["enum"]
            .as_array()
            .filter(|w| w.iter().all(Value::is_string))
        {
            let words: Vec<String> = words
                .iter()
                .map(|w| format!("`{}`", w.as_str().unwrap()))
                .collect();
            return words.join(", ");
        }
        if let Some(reference) = schema["$ref"].as_str() {
            return self.form(self.schema.named(reference));
        }
        if types(&schema["type"]).starts_with(&["string", "number"]) {
            return "text".to_owned();
        }
        let real = schema["anyOf"].as_array().and_then(|parts| parts.first());
        match (types(&schema["type"]).first(), real) {
            (_, Some(real)) => self.form(real),
            (Some(&"array"), _) => format!("list: {}", self.form(&schema["items"])),
            (Some(&"object"), _) => format!("by name: {}", self.form(&schema["additionalProperties"])),
            _ => schema["description"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn table(&self, section: &Section, fields: &[&str]) -> String {
        let mut out = "| field | form | default | meaning |\n| --- | --- | --- | --- |\n".to_owned();
        for field in fields {
            let schema = self.property(&section.shape, field);
            let meaning = schema["description"]
                .as_str()
                .unwrap_or_default()
                .replace('\n', " ");
            assert!(!meaning.is_empty(), "{}.{field} says nothing", section.shape);
            let path = format!("{}{field}", section.path.trim_start_matches("groups."));
            let default = self.defaults.of(&path);
            out += &format!("| `{field}` | {} | {default} | {meaning} |\n", self.form(schema));
        }
        out
    }

    fn text(&self) -> String {
        let of_group = self.fields["GroupFile"];
        let sections = self.sections.iter().map(|section| {
            let shape = if section.shape == "JobFile" {
                self.schema.root()
            } else {
                self.schema.named(&format!("#/$defs/{}", section.shape))
            };
            let about = shape["description"]
                .as_str()
                .unwrap_or_default()
                .replace('\n', " ");
            let all = self.fields[section.shape.as_str()];
            match section.shape.as_str() {
                "JobFile" => {
                    let own: Vec<&str> = all.iter().copied().filter(|f| !of_group.contains(f)).collect();
                    format!(
                        "\n## The file\n\n{}\n{}",
                        "Those of [groups](#groups) as well, where there is only one group.\n",
                        self.table(section, &own)
                    )
                }
                _ => format!(
                    "\n## {}\n\n{about}\n\n{}",
                    title(section),
                    self.table(section, all)
                ),
            }
        });
        HEAD.to_owned() + &sections.collect::<String>()
    }
}

fn title(section: &Section) -> String {
    section.path.trim_end_matches('.').to_owned()
}

#[test]
fn the_reference_is_what_the_parser_reads() {
    is_kept(PAGE, &Page::new().text());
}
