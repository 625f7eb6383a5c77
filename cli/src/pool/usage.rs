//! `echelon pool usage`: what pools want, use and are entitled to, a line for each kind of resource that matters to them.

use super::lent::of_lent_room;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{self, Listing};
use echelon_clients_rust::{Client, v1};
use echelon_core_model::resources::Kind;
use echelon_proto::convert::quantity::{read_limit, read_resources};
use std::collections::BTreeMap;

/// Asks for the figures of all pools.
pub async fn figures(client: &Client) -> Result<v1::PoolFigures, Failure> {
    let answer = client.repeat(|| {
        let mut service = client.pool_service();
        async move { service.get_pool_figures(v1::GetPoolFiguresRequest {}).await }
    });
    Ok(answer.await?.figures.unwrap_or_default())
}

/// The path of a figure's pool.
pub fn path_of(figure: &v1::PoolFigure) -> &str {
    figure.pool.as_ref().map_or("", |p| p.path.as_str())
}

/// That there is no such pool.
pub fn not_found(path: &str) -> Failure {
    let path = output::escape(path);
    Failure::new(
        Exit::NotFound,
        format!("there is no pool `{path}`; `echelon pool list` shows what there is [POOL_NOT_FOUND]"),
    )
}

/// Shows them.
pub async fn usage(context: &Context, client: &Client, path: Option<&str>) -> Result<(), Failure> {
    let told = figures(client).await?;
    let chosen = chosen(&told, path);
    if let (Some(path), true) = (path, chosen.is_empty()) {
        return Err(not_found(path));
    }
    output::print(output::list(
        &listing(&chosen, all_rows(&told, path)),
        context.format(),
    ));
    Ok(())
}

/// A pool and those below it, in order of path; all, with the root, when none is named.
fn chosen<'a>(told: &'a v1::PoolFigures, path: Option<&str>) -> Vec<&'a v1::PoolFigure> {
    let path = path.map_or("", |p| p.trim_end_matches('/'));
    let inside = |f: &&v1::PoolFigure| {
        let below = path_of(f).strip_prefix(path);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut out: Vec<&v1::PoolFigure> = told.pools.iter().filter(inside).collect();
    out.sort_by_key(|f| path_of(f));
    out
}

/// The rows of pools, each with those of what hosts lend behind its own.
fn all_rows(told: &v1::PoolFigures, path: Option<&str>) -> Vec<Vec<String>> {
    let lent = of_lent_room(told).unwrap_or_default();
    let lent: BTreeMap<&str, &v1::PoolFigure> = lent.pools.iter().map(|f| (path_of(f), f)).collect();
    let of_pool = |f: &&v1::PoolFigure| {
        let of_lent = lent.get(path_of(f)).map(|f| lent_rows(f));
        [rows(f), of_lent.unwrap_or_default()].concat()
    };
    chosen(told, path).iter().flat_map(of_pool).collect()
}

fn listing(figures: &[&v1::PoolFigure], rows: Vec<Vec<String>>) -> Listing {
    Listing {
        columns: &[
            "POOL",
            "RESOURCE",
            "RESERVATION",
            "LIMIT",
            "DEMAND",
            "ENTITLEMENT",
            "USABLE",
            "FINAL",
            "ALLOCATED",
        ],
        narrow: 9,
        rows,
        names: figures.iter().map(|f| path_of(f).to_owned()).collect(),
        values: figures
            .iter()
            .map(|f| output::message("PoolFigure", *f))
            .collect(),
    }
}

/// A row for each kind of which there is anything, and for processors in any case, so that every pool is there.
fn rows(figure: &v1::PoolFigure) -> Vec<Vec<String>> {
    let pool = figure.pool.clone().unwrap_or_default();
    let kinds = Kind::ALL
        .into_iter()
        .filter(|k| *k == Kind::Cpus || matters(figure, *k));
    let kinds = kinds.map(|k| row(figure, k, k.to_string()));
    kinds.chain(bounded(&pool, figure)).collect()
}

/// The same of what hosts lend, for each kind of which there is anything.
fn lent_rows(figure: &v1::PoolFigure) -> Vec<Vec<String>> {
    let kinds = Kind::ALL.into_iter().filter(|k| matters(figure, *k));
    kinds.map(|k| row(figure, k, format!("{k}, lent"))).collect()
}

fn matters(figure: &v1::PoolFigure, kind: Kind) -> bool {
    let pool = figure.pool.clone().unwrap_or_default();
    let bounded = read_limit(pool.limit).get(kind) != u64::MAX;
    let amounts = [
        pool.reservation,
        figure.demand,
        figure.entitlement,
        figure.allocated,
    ];
    bounded || amounts.into_iter().any(|r| read_resources(r).get(kind) > 0)
}

fn row(figure: &v1::PoolFigure, kind: Kind, name: String) -> Vec<String> {
    let pool = figure.pool.clone().unwrap_or_default();
    let amount = |r: Option<v1::Resources>| kind.show(read_resources(r).get(kind));
    let own = match read_limit(pool.limit).get(kind) {
        _ if pool.path == "/" => [String::new(), String::new()],
        u64::MAX => [amount(pool.reservation), "none".to_owned()],
        bound => [amount(pool.reservation), kind.show(bound)],
    };
    // Without a second round the first one's word is the last.
    let usable = figure.usable.map_or(String::new(), |r| amount(Some(r)));
    let last = figure.final_entitlement.or(figure.entitlement);
    let shown = [
        amount(figure.demand),
        amount(figure.entitlement),
        usable,
        amount(last),
        amount(figure.allocated),
    ];
    let head = [pool.path, name];
    head.into_iter().chain(own).chain(shown).collect()
}

/// A row for each bound beside the limit that the pool has.
fn bounded(pool: &v1::Pool, figure: &v1::PoolFigure) -> Vec<Vec<String>> {
    let row = |what: String, most: String, have: String| {
        let none = String::new;
        let head = [pool.path.clone(), what, none(), most];
        head.into_iter()
            .chain([none(), none(), none(), none(), have])
            .collect()
    };
    let (limit, have) = (
        read_limit(pool.controller_limit),
        read_resources(figure.controllers),
    );
    let kinds = Kind::ALL.into_iter().filter(|k| limit.get(*k) != u64::MAX);
    let of_kind = |k: Kind| {
        row(
            format!("{k} of controllers"),
            k.show(limit.get(k)),
            k.show(have.get(k)),
        )
    };
    let numbers = [
        ("jobs", pool.max_jobs, figure.jobs),
        ("instances", pool.max_instances, figure.instances),
    ];
    let numbers = numbers
        .into_iter()
        .filter_map(|(what, most, have)| Some(row(what.to_owned(), most?.to_string(), have.to_string())));
    kinds.map(of_kind).chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::super::certify::tests::{told, told_twice};
    use super::*;

    fn text(path: Option<&str>) -> String {
        let told = told();
        output::list(
            &listing(&chosen(&told, path), all_rows(&told, path)),
            output::Format::Table,
        )
    }

    #[test]
    fn every_pool_has_a_line_for_what_matters_to_it() {
        insta::assert_snapshot!(text(None), @r"
        POOL       RESOURCE  RESERVATION  LIMIT  DEMAND  ENTITLEMENT  USABLE  FINAL  ALLOCATED
        /          cpus                          37      20                   20     1
        /ml        cpus      6            none   36      16                   16     1
        /ml/serve  cpus      4            none   6       6                    6      1
        /ml/train  cpus      2            none   30      10                   10     1
        /web       cpus      4            8      1       4                    4      1
        ");
    }

    #[test]
    fn both_rounds_and_what_hosts_lend_are_shown() {
        let told = told_twice();
        let table = listing(&chosen(&told, None), all_rows(&told, None));
        insta::assert_snapshot!(output::list(&table, output::Format::Table), @r"
        POOL       RESOURCE    RESERVATION  LIMIT  DEMAND  ENTITLEMENT  USABLE  FINAL  ALLOCATED
        /          cpus                            37      20           18      20     1
        /          cpus, lent                      10      6                    6      0
        /ml        cpus        6            none   36      16           14      16     1
        /ml        cpus, lent  0            none   5       2                    2      0
        /ml/serve  cpus        4            none   6       6            4       4      1
        /ml/train  cpus        2            none   30      10           10      12     1
        /ml/train  cpus, lent  0            2      5       2                    2      0
        /web       cpus        4            8      1       4            4       4      1
        /web       cpus, lent  0            none   5       4                    4      0
        ");
    }

    #[test]
    fn bounds_beside_the_limit_have_lines_of_their_own() {
        let figure = v1::PoolFigure {
            pool: Some(v1::Pool {
                path: "/p".to_owned(),
                controller_limit: Some(v1::ResourceLimit {
                    memory_mib: Some(2048),
                    ..v1::ResourceLimit::default()
                }),
                max_jobs: Some(7),
                ..v1::Pool::default()
            }),
            controllers: Some(v1::Resources {
                memory_mib: 512,
                ..v1::Resources::default()
            }),
            jobs: 3,
            instances: 9,
            ..v1::PoolFigure::default()
        };
        let none = String::new;
        let told = ["/p", "memory of controllers"].map(str::to_owned);
        let shown = [
            none(),
            "2048MiB".to_owned(),
            none(),
            none(),
            none(),
            none(),
            "512MiB".to_owned(),
        ];
        let rows = rows(&figure);
        assert_eq!(rows[2], ["/p", "jobs", "", "7", "", "", "", "", "3"]);
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!(rows[1], [told.to_vec(), shown.to_vec()].concat());
    }

    #[test]
    fn a_path_shows_that_pool_and_those_below() {
        let paths = |path| {
            let told = told();
            chosen(&told, Some(path))
                .iter()
                .map(|f| path_of(f).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(paths("/ml"), ["/ml", "/ml/serve", "/ml/train"]);
        assert_eq!(paths("/ml/"), ["/ml", "/ml/serve", "/ml/train"]);
        assert_eq!(paths("/m"), Vec::<String>::new());
        assert_eq!(paths("/").len(), 5);
    }
}
