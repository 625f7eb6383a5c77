//! What a gateway has against a job, told in terms of the file that it came from: line, and path of the field as the file has it.

use super::place::{self, Placed};
use crate::exit::Failure;
use echelon_clients_rust::{Error, v1};
use echelon_core_model::GroupName;
use std::path::Path;

/// A job as a file asks for it, with the file's places.
#[derive(Debug)]
pub struct Wanted {
    /// What is asked for.
    pub spec: v1::JobSpec,
    groups: Vec<String>,
    tree: Option<Placed>,
    shown: String,
}

impl Wanted {
    pub(super) fn new(spec: v1::JobSpec, bytes: &[u8], file: &Path) -> Self {
        Self {
            groups: spec.groups.iter().map(|g| g.name.clone()).collect(),
            spec,
            tree: std::str::from_utf8(bytes).ok().and_then(place::tree),
            shown: file.display().to_string(),
        }
    }

    /// A call's error; wrong fields are told one a line, as errors in the file are.
    pub fn failure(&self, error: Error) -> Failure {
        let violations = error.violations();
        if violations.is_empty() {
            return Failure::from(error);
        }
        let fields = violations
            .iter()
            .map(|v| format!("{}: {}", v.field, v.description));
        let fields: Vec<String> = fields.collect();
        let said = match &error {
            Error::Status(status) => status.message().to_owned(),
            _ => String::new(),
        };
        let reason = error.reason().map_or(String::new(), |r| format!(" [{r}]"));
        let told = violations.iter().map(|v| {
            let (line, path) = self.place(&v.field);
            format!("{}: {line}{path}: {}", self.shown, v.description)
        });
        // What is no more than the fields is not said twice.
        let head = Some(said).filter(|s| !s.is_empty() && *s != fields.join("; "));
        let lines: Vec<String> = head.into_iter().chain(told).collect();
        Failure::new(Failure::from(error).exit, lines.join("\n") + &reason)
    }

    /// Line, when it can be told, and path in the file of a field of the API.
    fn place(&self, field: &str) -> (String, String) {
        let rest = field.strip_prefix("job.").unwrap_or(field);
        let Some(rest) = rest.strip_prefix("spec.") else {
            return (String::new(), field.to_owned());
        };
        let path = in_file(&self.of_group(rest));
        let line = self.tree.as_ref().map(|t| t.line(&path)).filter(|l| *l > 0);
        (line.map_or(String::new(), |l| format!("line {l}: ")), path)
    }

    /// Groups are by name in a file, or its only one at the top.
    fn of_group(&self, path: &str) -> String {
        let found = path.strip_prefix("groups[").and_then(|rest| {
            let (number, rest) = rest.split_once(']')?;
            Some((self.groups.get(number.parse::<usize>().ok()?)?, rest))
        });
        match found {
            Some((name, rest)) if name == GroupName::DEFAULT && self.groups.len() == 1 => {
                rest.trim_start_matches('.').to_owned()
            }
            Some((name, rest)) => format!("groups.{name}{rest}"),
            None => path.to_owned(),
        }
    }
}

/// Names of the API that are others in files: units are with values there, and probes are not inside health checks.
fn in_file(path: &str) -> String {
    let mut out = path.to_owned();
    for (api, file) in [
        (".health.probe", ".health"),
        (".on_unreachable.replace_after", ".on_unreachable"),
        (".on_gone.replace_after", ".on_gone"),
        ("max_unavailable_percent", "max_unavailable"),
        (".percent", ""),
        ("cpus_milli", "cpus"),
        ("gpus_milli", "gpus"),
        ("memory_mib", "memory"),
        ("disk_mib", "disk"),
        ("size_mib", "size"),
    ] {
        out = format!(".{out}")
            .replace(api, file)
            .trim_start_matches('.')
            .to_owned();
    }
    keys(&out)
}

/// `env[A]` is `env.A`; numbers stay.
fn keys(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, inside)) = rest.split_once('[') {
        let (key, after) = inside.split_once(']').unwrap_or((inside, ""));
        let number = !key.is_empty() && key.bytes().all(|b| b.is_ascii_digit());
        out.push_str(before);
        out.push_str(&if number {
            format!("[{key}]")
        } else {
            format!(".{key}")
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_file::wanted;

    fn places(text: &str, fields: &[&str]) -> Vec<String> {
        let wanted = Wanted::new(
            wanted(text.as_bytes()).unwrap(),
            text.as_bytes(),
            Path::new("job.yaml"),
        );
        let told = fields.iter().map(|f| wanted.place(f));
        told.map(|(line, path)| format!("{line}{path}")).collect()
    }

    #[test]
    fn fields_of_the_api_are_found_in_the_file() {
        let one = "name: x\ncommand: y\nresources:\n  cpus: 1\n  memory: 5MiB\nenv:\n  A: ${B}\nhealth: {tcp: {port: web}}\non_unreachable: replace after 0s\non_gone: replace after 0s\n";
        assert_eq!(
            places(
                one,
                &[
                    "job.spec.groups[0].resources.memory_mib",
                    "spec.groups[0].env[A]",
                    "spec.groups[0].health.probe.tcp.port",
                    "spec.on_unreachable.replace_after",
                    "spec.on_gone.replace_after",
                    "spec.groups[0].ports[3].name",
                    "request_id",
                ]
            ),
            [
                "line 5: resources.memory",
                "line 7: env.A",
                "line 8: health.tcp.port",
                "line 9: on_unreachable",
                "line 10: on_gone",
                "line 1: ports[3].name",
                "request_id",
            ]
        );
        let two = "name: x\ngroups:\n  b:\n    command: y\n    resources: {cpus: 1}\n  a:\n    command: y\n    resources: {cpus: 0}\n";
        assert_eq!(
            places(
                two,
                &[
                    "spec.groups[0].resources.cpus_milli",
                    "spec.groups[1].volume.size_mib"
                ]
            ),
            ["line 8: groups.a.resources.cpus", "line 4: groups.b.volume.size"]
        );
        let volume = "name: x\nkind: stateful\ncommand: y\nvolume:\n  path: data\n  size: 1GiB\n  replace_after: 1h\nresources: {cpus: 1, memory: 1MiB}\n";
        let of_volume = ["spec.groups[0].volume.replace_after"];
        assert_eq!(places(volume, &of_volume), ["line 7: volume.replace_after"]);
    }
}
