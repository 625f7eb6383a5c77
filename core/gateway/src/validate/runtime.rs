//! Rules of what a run's task is made of: command, environment, secrets, user, folder and files to fetch. What Mesos, its
//! fetcher or its containerizers would refuse or silently leave out is refused here.

use super::text::{is_line, is_path, is_variable};
use super::{Violations, container, probes};
use echelon_core_model::limits::{ARGUMENTS, URIS, VARIABLES};
use echelon_core_model::nearest;
use echelon_core_model::runtime::{Containerizer, Port, Runtime, SecretReference, Uri};
use std::collections::BTreeSet;

/// Longest command and longest arguments together: they travel in every launch.
const COMMAND: usize = 64 * 1024;
/// What the hosts' fetcher can read; all but the first five by the hosts' Hadoop client.
const SCHEMES: [&str; 10] = [
    "http", "https", "ftp", "ftps", "file", "hdfs", "s3", "s3a", "s3n", "gs",
];

/// Checks what a group's own task is made of.
pub(super) fn check(r: &Runtime, path: &str, out: &mut Violations) {
    probes::ports(r, &format!("{path}.ports"), out);
    check_sidecar(r, path, out);
}

/// The same of a sidecar, whose ports are its group's and are judged there.
pub(super) fn check_sidecar(r: &Runtime, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    command(r, path, out);
    entrypoint(r, &at("entrypoint"), out);
    env(r, &at("env"), out);
    secrets(r, &at("secrets"), out);
    user(r, &at("user"), out);
    folder(r, &at("working_dir"), out);
    uris(r, &at("uris"), out);
    if let Some(c) = &r.container {
        container::check(c, &at("container"), out);
    }
    probes::check(r, path, out);
}

/// Whether the hosts' Docker runs it.
fn by_docker(r: &Runtime) -> bool {
    let container = r.container.as_ref();
    container.is_some_and(|c| c.containerizer == Containerizer::Docker)
}

fn command(r: &Runtime, path: &str, out: &mut Violations) {
    let field = format!("{path}.command");
    let image = r.container.as_ref().is_some_and(|c| !c.image.is_empty());
    out.check(
        image || !r.command.trim().is_empty(),
        field.clone(),
        "must not be empty",
    );
    let whole = r.command.len() <= COMMAND && !r.command.contains('\0');
    out.check(
        whole,
        field,
        "must be at most 65536 bytes without NUL; put longer scripts into a file and fetch it with `uris`",
    );
    let args = r.args.iter().flatten();
    let fits = args.clone().map(String::len).sum::<usize>() <= COMMAND && args.clone().count() <= ARGUMENTS;
    out.check(
        fits && !args.clone().any(|a| a.contains('\0')),
        format!("{path}.args"),
        format!("must be at most {ARGUMENTS} arguments, 65536 bytes in all, without NUL"),
    );
}

/// Both containerizers can start something else than an image's entry point, Docker only one word of it in another place.
fn entrypoint(r: &Runtime, field: &str, out: &mut Violations) {
    let Some(words) = &r.entrypoint else { return };
    let plain =
        words.iter().map(String::len).sum::<usize>() <= COMMAND && !words.iter().any(|w| w.contains('\0'));
    out.check(
        plain && words.len() <= ARGUMENTS && words.first().is_some_and(|w| !w.trim().is_empty()),
        field,
        format!(
            "must be a program and its first arguments, at most {ARGUMENTS} and 65536 bytes without NUL, for example [/bin/server, --verbose]"
        ),
    );
    out.check(
        r.container.as_ref().is_some_and(|c| !c.image.is_empty()),
        field,
        "stands in place of an image's entry point, and there is no image: say the program as `command`, with `args`",
    );
    out.check(
        r.command.is_empty(),
        field,
        "stands in place of `command`, which must be left out: say in `args` what follows, for a shell line `entrypoint: [/bin/sh, -c]` \
         with the line as its only argument",
    );
}

fn env(r: &Runtime, path: &str, out: &mut Violations) {
    out.check(
        r.env.len() <= VARIABLES,
        path,
        format!("must be at most {VARIABLES}"),
    );
    for (name, value) in &r.env {
        let field = format!("{path}[{name}]");
        variable(r, name, &field, out);
        out.check(!value.contains('\0'), field, "values must not contain NUL");
    }
}

/// A variable's name: well-formed, and not one that the system sets.
fn variable(r: &Runtime, name: &str, field: &str, out: &mut Violations) {
    out.check(
        is_variable(name),
        field,
        "names must be letters, digits and `_`, not beginning with a digit",
    );
    out.check(
        !(name.starts_with("ECHELON_") || name.starts_with("MESOS_")),
        field,
        "names that begin with ECHELON_ or MESOS_ are set by the system; use another",
    );
    out.check(
        !port_variables(r).contains(name),
        field,
        "is set by the system to one of the group's ports; use another name",
    );
}

/// The variables that the group's ports will set, whatever their numbers.
fn port_variables(r: &Runtime) -> BTreeSet<String> {
    let ports = r.ports.iter().map(|p| Port {
        name: p.name.clone(),
        number: 0,
    });
    let ports: Vec<Port> = ports.collect();
    r.port_variables(&ports).into_keys().collect()
}

fn secrets(r: &Runtime, path: &str, out: &mut Violations) {
    out.check(
        r.secrets.len() <= VARIABLES,
        path,
        format!("must be at most {VARIABLES}"),
    );
    out.check(
        r.secrets.is_empty() || !by_docker(r),
        path,
        "are given only to containers that Mesos runs itself; use container type mesos",
    );
    for (name, of) in &r.secrets {
        let field = format!("{path}[{name}]");
        variable(r, name, &field, out);
        out.check(
            !r.env.contains_key(name),
            field.clone(),
            "has the name of a variable in `env`",
        );
        secret(of, &field, out);
    }
}

/// A reference to a secret.
pub(super) fn secret(of: &SecretReference, field: &str, out: &mut Violations) {
    out.check(
        !of.name.is_empty() && is_line(&of.name, 255),
        format!("{field}.name"),
        "must be 1 to 255 bytes without control characters",
    );
    out.check(
        is_line(&of.key, 255),
        format!("{field}.key"),
        "must be at most 255 bytes without control characters",
    );
}

fn user(r: &Runtime, field: &str, out: &mut Violations) {
    if r.user.is_empty() {
        return;
    }
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    let good = r.user.len() <= 32 && r.user.bytes().all(inside) && !r.user.starts_with('-');
    out.check(
        good,
        field,
        "must be the name of a user: at most 32 letters, digits and `_.-`, not beginning with `-`",
    );
    out.check(
        !by_docker(r),
        field,
        "is not heeded by Docker: the image says as whom its process runs; use container type mesos",
    );
}

fn folder(r: &Runtime, field: &str, out: &mut Violations) {
    if r.working_dir.is_empty() {
        return;
    }
    out.check(
        is_line(&r.working_dir, 1024),
        field,
        "must be at most 1024 bytes without control characters",
    );
    out.check(
        r.args.is_none() && !r.command.trim().is_empty(),
        field,
        "needs a shell line: leave `args` out, or let the image set its own folder",
    );
}

fn uris(r: &Runtime, path: &str, out: &mut Violations) {
    out.check(
        r.uris.len() <= URIS,
        path,
        format!("must be at most {URIS}; pack files into an archive"),
    );
    let mut targets = BTreeSet::new();
    for (i, u) in r.uris.iter().enumerate() {
        let field = format!("{path}[{i}]");
        uri(u, &format!("{field}.uri"), out);
        let named = format!("{field}.output_file");
        // The fetcher's own rules.
        let good = u.output_file.is_empty()
            || (is_path(&u.output_file, 255)
                && !u.output_file.starts_with('/')
                && is_fetchable(&u.output_file));
        out.check(
            good,
            named.clone(),
            "must be a path within the sandbox, without `..`, `\\` and `'`",
        );
        out.check(
            targets.insert(target(u)),
            named,
            format!(
                "is `{}` for an earlier file too; give one of them another name",
                target(u)
            ),
        );
    }
}

fn is_fetchable(text: &str) -> bool {
    !text.contains(['\\', '\''])
}

/// The name that a file gets in the sandbox.
fn target(u: &Uri) -> &str {
    let last = u.uri.rsplit('/').next().unwrap_or_default();
    if u.output_file.is_empty() {
        last
    } else {
        &u.output_file
    }
}

fn uri(u: &Uri, field: &str, out: &mut Violations) {
    let line = is_line(&u.uri, 4096) && is_fetchable(&u.uri) && !u.uri.contains(' ');
    out.check(
        line,
        field,
        "must be at most 4096 bytes without spaces, control characters, `\\` and `'`",
    );
    out.check(
        !u.output_file.is_empty() || !target(u).is_empty(),
        field,
        "ends with `/`, so that its file has no name; say `output_file`",
    );
    let Some((scheme, rest)) = u.uri.split_once("://") else {
        out.check(
            u.uri.starts_with('/'),
            field,
            "must be a URI like `https://example.com/file.tar.gz`, or an absolute path on the host",
        );
        return;
    };
    let known = SCHEMES.contains(&scheme);
    let meant = nearest(scheme, SCHEMES).map_or(String::new(), |s| format!("; did you mean `{s}`?"));
    out.check(
        known,
        field,
        format!(
            "hosts cannot fetch by `{scheme}`, only by {}{meant}",
            SCHEMES.join(", ")
        ),
    );
    out.check(
        scheme != "file" || rest.starts_with('/'),
        field,
        "a file of the host is `file:///` with its absolute path",
    );
    out.check(!rest.is_empty(), field, "names no file");
}
