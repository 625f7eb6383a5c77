//! `echelon pool apply`: the whole tree from a file, or what it would change and who would gain and lose now.

use super::file;
use crate::context::Context;
use crate::exit::Failure;
use crate::{output, shape};
use echelon_clients_rust::{Client, v1};
use std::path::Path;

/// Applies a file; with `plan` nothing is changed.
pub async fn apply(
    context: &Context,
    client: &Client,
    file: &Path,
    (plan, etag): (bool, String),
) -> Result<(), Failure> {
    let request = v1::ApplyPoolsRequest {
        pools: file::read(file)?,
        etag,
        validate_only: plan,
    };
    // Again it changes nothing, so that it may be repeated.
    let answer = client.change(|| {
        let (mut service, request) = (client.pool_service(), request.clone());
        async move { service.apply_pools(request).await }
    });
    let told = answer.await?;
    let value = output::message("ApplyPoolsResponse", &told);
    output::print(output::one(
        &value,
        &told.etag,
        &people(&told, plan),
        context.format(),
    ));
    Ok(())
}

fn people(told: &v1::ApplyPoolsResponse, plan: bool) -> String {
    let mut lines: Vec<String> = told.differences.iter().map(difference).collect();
    if lines.is_empty() {
        lines.push("the tree is as the file says".to_owned());
    }
    if plan {
        lines.extend(told.effects.iter().map(effect));
        if told.effects.is_empty() {
            lines.push("with the demand and capacity of now nobody gains or loses".to_owned());
        }
        lines.push(format!(
            "nothing was changed; `--etag {}` applies it to no other tree than this one",
            output::escape(&told.etag)
        ));
    }
    lines.join("\n") + "\n"
}

fn difference(d: &v1::PoolDifference) -> String {
    let path = |p: &Option<v1::Pool>| output::escape(p.as_ref().map_or("", |p| p.path.as_str()));
    match d.action() {
        v1::PoolAction::Added => format!("added:   {} ({})", path(&d.after), amounts(d.after.as_ref())),
        v1::PoolAction::Deleted => format!("deleted: {}", path(&d.before)),
        v1::PoolAction::Moved => {
            let (from, to) = (path(&d.before), path(&d.after));
            format!("moved:   {from} to {to}{}", changes(d))
        }
        v1::PoolAction::Deleting => {
            format!("deleting: {}, when its last job has ended", path(&d.after))
        }
        v1::PoolAction::Changed | v1::PoolAction::Unspecified => {
            format!("changed: {}{}", path(&d.after), changes(d))
        }
    }
}

fn amounts(pool: Option<&v1::Pool>) -> String {
    fields(pool)
        .map(|(name, value)| format!("{name} {value}"))
        .join("; ")
}

fn fields(pool: Option<&v1::Pool>) -> [(&'static str, String); 13] {
    [
        (
            "reservation",
            shape::resources(pool.and_then(|p| p.reservation.as_ref())),
        ),
        ("limit", shape::limit(pool.and_then(|p| p.limit.as_ref()))),
        ("share", super::share_text(pool.and_then(|p| p.share))),
        (
            "kind",
            super::kind_word(pool.map_or(v1::PoolKind::Elastic, v1::Pool::kind)).to_owned(),
        ),
        (
            "max_instance",
            shape::limit(pool.and_then(|p| p.max_instance.as_ref())),
        ),
        ("priority", super::bounds_text(pool.and_then(|p| p.priority))),
        (
            "controller_limit",
            shape::limit(pool.and_then(|p| p.controller_limit.as_ref())),
        ),
        (
            "revocable_limit",
            shape::limit(pool.and_then(|p| p.revocable_limit.as_ref())),
        ),
        ("fair_users", pool.is_some_and(|p| p.fair_users).to_string()),
        (
            "preempt_within",
            super::within_word(pool.map_or(v1::PreemptWithin::Unspecified, v1::Pool::preempt_within))
                .to_owned(),
        ),
        (
            "on_cluster_loss",
            super::loss_text(pool.and_then(|p| p.on_cluster_loss)),
        ),
        ("max_jobs", super::most_text(pool.and_then(|p| p.max_jobs))),
        (
            "max_instances",
            super::most_text(pool.and_then(|p| p.max_instances)),
        ),
    ]
}

fn changes(d: &v1::PoolDifference) -> String {
    let both = fields(d.before.as_ref())
        .into_iter()
        .zip(fields(d.after.as_ref()));
    let other = both.filter(|((_, before), (_, after))| before != after);
    let told: Vec<String> = other
        .map(|((name, before), (_, after))| format!("{name} {before} -> {after}"))
        .collect();
    if told.is_empty() {
        String::new()
    } else {
        format!(": {}", told.join("; "))
    }
}

/// By how much of each kind a pool gains or loses.
fn effect(e: &v1::PoolEffect) -> String {
    use echelon_core_model::resources::Kind;
    use echelon_proto::convert::quantity::read_resources;
    let (before, after) = (read_resources(e.before), read_resources(e.after));
    let kinds = Kind::ALL.into_iter().filter(|k| before.get(*k) != after.get(*k));
    let one = |kind: Kind| {
        let (old, new) = (before.get(kind), after.get(kind));
        let word = if new > old { "gains" } else { "loses" };
        let (by, old, new) = (kind.show(old.abs_diff(new)), kind.show(old), kind.show(new));
        format!("{word} {kind} {by} ({old} -> {new})")
    };
    let told: Vec<String> = kinds.map(one).collect();
    format!("{} {}", output::escape(&e.path), told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(path: &str, cpus: u64) -> v1::Pool {
        v1::Pool {
            path: path.to_owned(),
            reservation: Some(v1::Resources {
                cpus_milli: cpus,
                ..v1::Resources::default()
            }),
            share: Some(v1::Resources {
                cpus_milli: 1,
                memory_mib: 1,
                disk_mib: 1,
                gpus_milli: 1,
            }),
            ..v1::Pool::default()
        }
    }

    #[test]
    fn a_plan_says_what_changes_and_who_gains_and_loses() {
        let difference =
            |action: v1::PoolAction, before: Option<v1::Pool>, after: Option<v1::Pool>| v1::PoolDifference {
                action: action.into(),
                before,
                after,
            };
        let cpus = |n| {
            Some(v1::Resources {
                cpus_milli: n,
                ..v1::Resources::default()
            })
        };
        let told = v1::ApplyPoolsResponse {
            differences: vec![
                difference(v1::PoolAction::Added, None, Some(pool("/a", 1000))),
                difference(v1::PoolAction::Changed, Some(pool("/b", 1)), Some(pool("/b", 0))),
                difference(v1::PoolAction::Moved, Some(pool("/c", 1)), Some(pool("/d", 1))),
                difference(v1::PoolAction::Deleted, Some(pool("/e", 1)), None),
            ],
            effects: vec![
                v1::PoolEffect {
                    path: "/a".to_owned(),
                    before: None,
                    after: cpus(1500),
                },
                v1::PoolEffect {
                    path: "/b".to_owned(),
                    before: cpus(2000),
                    after: cpus(500),
                },
            ],
            etag: "7".to_owned(),
        };
        insta::assert_snapshot!(people(&told, true), @r"
        added:   /a (reservation cpus 1; limit none; share 1; kind elastic; max_instance none; priority any; controller_limit none; revocable_limit none; fair_users false; preempt_within auto; on_cluster_loss default; max_jobs none; max_instances none)
        changed: /b: reservation cpus 0.001 -> nothing
        moved:   /c to /d
        deleted: /e
        /a gains cpus 1.5 (0 -> 1.5)
        /b loses cpus 1.5 (2 -> 0.5)
        nothing was changed; `--etag 7` applies it to no other tree than this one
        ");
        assert_eq!(
            people(&v1::ApplyPoolsResponse::default(), false),
            "the tree is as the file says\n"
        );
    }
}
