//! Files of the whole tree: YAML to the pools that are to be. Unknown fields are errors with their line; values keep their text and are
//! judged here, with the path of their field. Rules about the tree are the gateway's.

use crate::exit::Failure;
use crate::job_file::{self, JobFileError, Problem, Problems, Scalar};
use crate::quantity;
use echelon_clients_rust::v1;
use echelon_core_model::pool::{Pool, PoolKind, PreemptWithin, PriorityBounds};
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::spec::OnSilence;
use echelon_core_model::{PoolId, nearest};
use echelon_proto::convert::pool::pool as to_wire;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A file of a tree: `pools: {ml: {reservation: {cpus: 4}, pools: {train: {}}}}`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeFile {
    pools: BTreeMap<String, Option<PoolFile>>,
}

/// A pool with those below it.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolFile {
    reservation: Option<AmountsFile>,
    limit: Option<AmountsFile>,
    share: Option<ShareFile>,
    kind: Option<Scalar>,
    max_instance: Option<AmountsFile>,
    priority: Option<PriorityFile>,
    controller_limit: Option<AmountsFile>,
    revocable_limit: Option<AmountsFile>,
    fair_users: Option<Scalar>,
    preempt_within: Option<Scalar>,
    on_cluster_loss: Option<Scalar>,
    max_jobs: Option<Scalar>,
    max_instances: Option<Scalar>,
    moved_from: Option<Scalar>,
    #[serde(default)]
    pools: BTreeMap<String, Option<PoolFile>>,
}

/// `{cpus: 4, memory: 8GiB, disk: 100GiB, gpus: 1}`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AmountsFile {
    cpus: Option<Scalar>,
    memory: Option<Scalar>,
    disk: Option<Scalar>,
    gpus: Option<Scalar>,
}

/// `{min: 0, max: 9, default: 3}`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PriorityFile {
    min: Option<Scalar>,
    max: Option<Scalar>,
    default: Option<Scalar>,
}

/// One weight for all kinds, or one for each.
#[derive(Debug)]
enum ShareFile {
    All(Scalar),
    Each(AmountsFile),
}

struct ShareVisitor;

impl<'de> Visitor<'de> for ShareVisitor {
    type Value = ShareFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a weight, or a weight for each kind")
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<ShareFile, E> {
        Ok(ShareFile::All(Scalar::new(v)))
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<ShareFile, E> {
        self.visit_str(&v.to_string())
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<ShareFile, E> {
        self.visit_str(&v.to_string())
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<ShareFile, E> {
        self.visit_str(&v.to_string())
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<ShareFile, E> {
        self.visit_str(&v.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ShareFile, A::Error> {
        AmountsFile::deserialize(MapAccessDeserializer::new(map)).map(ShareFile::Each)
    }
}

impl<'de> Deserialize<'de> for ShareFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShareVisitor)
    }
}

/// Reads a file; `-` is the standard input.
pub fn read(file: &Path) -> Result<Vec<v1::PoolWish>, Failure> {
    job_file::read_as(file, parse)
}

fn parse(bytes: &[u8]) -> Result<Vec<v1::PoolWish>, JobFileError> {
    let file: TreeFile = job_file::shape(bytes)?;
    let mut reader = Reader::default();
    reader.below("", "pools", file.pools);
    if reader.problems.is_empty() {
        Ok(reader.pools)
    } else {
        Err(Problems(reader.problems).found_in(bytes))
    }
}

#[derive(Default)]
struct Reader {
    pools: Vec<v1::PoolWish>,
    problems: Vec<Problem>,
}

impl Reader {
    /// Pools below a path, whose fields stand at `at`.
    fn below(&mut self, parent: &str, at: &str, files: BTreeMap<String, Option<PoolFile>>) {
        for (name, file) in files {
            let (path, at) = (format!("{parent}/{name}"), format!("{at}.{name}"));
            let file = file.unwrap_or_default();
            let new = Pool::new(PoolId::new(""), &path);
            let pool = Pool {
                reservation: self.amounts(&format!("{at}.reservation"), file.reservation, Resources::ZERO),
                limit: self.amounts(&format!("{at}.limit"), file.limit, Resources::MAX),
                share: self.share(&format!("{at}.share"), file.share, new.share),
                kind: self.kind(&format!("{at}.kind"), file.kind.as_ref()),
                max_instance: self.amounts(&format!("{at}.max_instance"), file.max_instance, Resources::MAX),
                priority: self.priority(&format!("{at}.priority"), file.priority),
                controller_limit: self.amounts(
                    &format!("{at}.controller_limit"),
                    file.controller_limit,
                    Resources::MAX,
                ),
                revocable_limit: self.amounts(
                    &format!("{at}.revocable_limit"),
                    file.revocable_limit,
                    Resources::MAX,
                ),
                fair_users: self.truth(&format!("{at}.fair_users"), file.fair_users.as_ref()),
                preempt_within: self.within(&format!("{at}.preempt_within"), file.preempt_within.as_ref()),
                on_cluster_loss: self.loss(&format!("{at}.on_cluster_loss"), file.on_cluster_loss.as_ref()),
                max_jobs: self.number(&format!("{at}.max_jobs"), file.max_jobs.as_ref()),
                max_instances: self.number(&format!("{at}.max_instances"), file.max_instances.as_ref()),
                ..new
            };
            self.pools.push(v1::PoolWish {
                pool: Some(v1::Pool {
                    // The path says the same, and a path may have 1 KiB.
                    name: String::new(),
                    etag: String::new(),
                    ..to_wire(&pool)
                }),
                moved_from: file.moved_from.map(|from| from.0).unwrap_or_default(),
            });
            self.below(&path, &format!("{at}.pools"), file.pools);
        }
    }

    fn wrong(&mut self, path: String, message: String) {
        self.problems.push(Problem {
            line: None,
            path,
            message,
        });
    }

    fn value<T>(&mut self, at: &str, text: &Scalar, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = read(&text.0);
        value.map_err(|e| self.wrong(at.to_owned(), e)).ok()
    }

    fn amounts(&mut self, at: &str, file: Option<AmountsFile>, otherwise: Resources) -> Resources {
        let read = |kind| match kind {
            Kind::Cpus | Kind::Gpus => quantity::thousandths,
            Kind::Memory | Kind::Disk => quantity::mebibytes,
        };
        let mut out = otherwise;
        for (kind, text) in named(file.unwrap_or_default()) {
            if let Some(n) = self.value(&format!("{at}.{kind}"), &text, read(kind)) {
                out = out.with(kind, n);
            }
        }
        out
    }

    fn share(&mut self, at: &str, file: Option<ShareFile>, otherwise: Resources) -> Resources {
        let each = match file {
            None => return otherwise,
            Some(ShareFile::All(text)) => Kind::ALL.map(|kind| (kind, text.clone())).to_vec(),
            Some(ShareFile::Each(file)) => named(file),
        };
        let whole = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}` is not a weight: write a whole number"))
        };
        let mut out = otherwise;
        for (kind, text) in each {
            match self.value(at, &text, whole) {
                Some(n) => out = out.with(kind, n),
                None => break,
            }
        }
        out
    }

    fn truth(&mut self, at: &str, text: Option<&Scalar>) -> bool {
        let read = |text: &str| {
            text.parse::<bool>()
                .map_err(|_| format!("`{text}` is neither true nor false"))
        };
        text.and_then(|text| self.value(at, text, read))
            .unwrap_or_default()
    }

    /// A bound on a number of things; none when it is left out.
    fn number(&mut self, at: &str, text: Option<&Scalar>) -> u64 {
        let whole = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}` is not a number: write a whole number"))
        };
        text.and_then(|text| self.value(at, text, whole))
            .unwrap_or(u64::MAX)
    }

    fn priority(&mut self, at: &str, file: Option<PriorityFile>) -> PriorityBounds {
        let file = file.unwrap_or_default();
        let mut bound = |name: &str, text: Option<&Scalar>| {
            let whole = |text: &str| {
                text.parse::<u32>()
                    .map_err(|_| format!("`{text}` is not a priority: write a whole number"))
            };
            text.and_then(|text| self.value(&format!("{at}.{name}"), text, whole))
        };
        let any = PriorityBounds::ANY;
        PriorityBounds {
            min: bound("min", file.min.as_ref()).unwrap_or(any.min),
            max: bound("max", file.max.as_ref()).unwrap_or(any.max),
            default: bound("default", file.default.as_ref()),
        }
    }

    fn kind(&mut self, at: &str, text: Option<&Scalar>) -> PoolKind {
        let words = || PoolKind::ALL.into_iter().map(PoolKind::word);
        let read = |text: &str| {
            let found = PoolKind::ALL.into_iter().find(|k| k.word() == text);
            found.ok_or_else(|| {
                let meant =
                    nearest(text, words()).map_or(String::new(), |w| format!("; did you mean `{w}`?"));
                format!("`{text}` is neither elastic nor static{meant}")
            })
        };
        text.and_then(|text| self.value(at, text, read))
            .unwrap_or_default()
    }

    fn within(&mut self, at: &str, text: Option<&Scalar>) -> PreemptWithin {
        let words = || PreemptWithin::ALL.into_iter().map(PreemptWithin::word);
        let read = |text: &str| {
            let found = PreemptWithin::ALL.into_iter().find(|w| w.word() == text);
            found.ok_or_else(|| {
                let meant =
                    nearest(text, words()).map_or(String::new(), |w| format!("; did you mean `{w}`?"));
                format!("`{text}` is neither auto, never nor lower_priority{meant}")
            })
        };
        text.and_then(|text| self.value(at, text, read))
            .unwrap_or_default()
    }

    fn loss(&mut self, at: &str, text: Option<&Scalar>) -> Option<OnSilence> {
        self.value(at, text?, loss_default).flatten()
    }
}

/// Reads what a pool says of silent clusters; `default`: nothing.
///
/// # Errors
/// A sentence that says what is wrong.
pub(super) fn loss_default(text: &str) -> Result<Option<OnSilence>, String> {
    if text == "default" {
        return Ok(None);
    }
    let on = job_file::on_silence(text);
    on.map(Some)
        .map_err(|why| format!("{why}, nor `default`, which leaves it to the pool above"))
}

fn named(file: AmountsFile) -> Vec<(Kind, Scalar)> {
    let all = [
        (Kind::Cpus, file.cpus),
        (Kind::Memory, file.memory),
        (Kind::Disk, file.disk),
        (Kind::Gpus, file.gpus),
    ];
    all.into_iter()
        .filter_map(|(kind, text)| Some((kind, text?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::Span;
    use echelon_proto::convert::spec::silence;

    const TREE: &str = "
pools:
  default: {controller_limit: {cpus: 2}, revocable_limit: {memory: 3GiB}, max_jobs: 10, max_instances: 500, fair_users: true, preempt_within: never, on_cluster_loss: wait}
  ml:
    reservation: {cpus: 6, memory: 8GiB}
    limit: {cpus: 0.5}
    share: 3
    on_cluster_loss: replace after 1h
    pools:
      train:
        {kind: static, moved_from: /old, share: {gpus: 2}, max_instance: {cpus: 4}, priority: {max: 9, default: 3}}
";

    fn problem(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_says_the_whole_tree() {
        let read = parse(TREE.as_bytes()).unwrap();
        let pool = |i: usize| read[i].pool.clone().unwrap();
        let paths: Vec<String> = (0..3).map(|i| pool(i).path).collect();
        assert_eq!(paths, ["/default", "/ml", "/ml/train"]);
        assert_eq!((pool(0).max_jobs, pool(0).max_instances), (Some(10), Some(500)));
        assert!(pool(0).fair_users && !pool(1).fair_users);
        let within = [pool(0), pool(1)].map(|p| p.preempt_within());
        assert_eq!(within, [v1::PreemptWithin::Never, v1::PreemptWithin::Unspecified]);
        let on_loss = [pool(0), pool(1), pool(2)].map(|p| p.on_cluster_loss);
        let said = [
            Some(OnSilence::Wait),
            Some(OnSilence::Replace(Span::minutes(60))),
            None,
        ];
        assert_eq!(on_loss, said.map(|on| on.map(silence)));
        assert_eq!((pool(1).max_jobs, pool(1).max_instances), (None, None));
        assert_eq!(pool(0).revocable_limit.unwrap().memory_mib, Some(3072));
        assert_eq!(pool(0).controller_limit.unwrap().cpus_milli, Some(2000));
        assert_eq!(pool(0).share.unwrap().cpus_milli, 1);
        assert_eq!(pool(0).limit.unwrap(), v1::ResourceLimit::default());
        assert_eq!(pool(1).reservation.unwrap().memory_mib, 8192);
        assert_eq!(pool(1).limit.unwrap().cpus_milli, Some(500));
        assert_eq!(pool(1).share.unwrap().gpus_milli, 3);
        assert_eq!(
            (pool(2).kind(), read[2].moved_from.as_str()),
            (v1::PoolKind::Static, "/old")
        );
        assert_eq!(pool(2).max_instance.unwrap().cpus_milli, Some(4000));
        let priority = pool(2).priority.unwrap();
        assert_eq!(
            (priority.min, priority.max, priority.default),
            (None, Some(9), Some(3))
        );
        assert_eq!(
            (pool(1).priority, pool(1).max_instance),
            (None, Some(v1::ResourceLimit::default()))
        );
        let share = pool(2).share.unwrap();
        assert_eq!((share.cpus_milli, share.gpus_milli), (1, 2));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, told) in [
            (
                "pools: {a: {reservations: {}}}",
                "line 1: unknown field `reservations`; did you mean `reservation`?",
            ),
            (
                "pools:\n  a:\n    limt: {cpus: 1}",
                "line 3: unknown field `limt`; did you mean `limit`?",
            ),
            (
                "pools:\n  a:\n    limit: {cpu: 1}",
                "line 3: unknown field `cpu`; did you mean `cpus`?",
            ),
            ("pool: {}", "line 1: unknown field `pool`; did you mean `pools`?"),
            (
                "pools: {a: {kind: statik}}",
                "line 1: pools.a.kind: `statik` is neither elastic nor static; did you mean `static`?",
            ),
            (
                "pools: {a: {priority: {defalt: 4}}}",
                "line 1: unknown field `defalt`; did you mean `default`?",
            ),
            (
                "pools: {a: {priority: {max: high}}}",
                "line 1: pools.a.priority.max: `high` is not a priority: write a whole number",
            ),
            (
                "pools: {a: {fair_users: yes}}",
                "line 1: pools.a.fair_users: `yes` is neither true nor false",
            ),
            (
                "pools: {a: {preempt_within: nevr}}",
                "line 1: pools.a.preempt_within: `nevr` is neither auto, never nor lower_priority; did you mean `never`?",
            ),
            (
                "pools: {a: {on_cluster_loss: 15m}}",
                "line 1: pools.a.on_cluster_loss: `15m` is neither `wait` nor `replace after <time>`, for example `replace after 5m`, nor `default`, which leaves it to the pool above",
            ),
            (
                "pools: {a: {max_jobs: few}}",
                "line 1: pools.a.max_jobs: `few` is not a number: write a whole number",
            ),
            (
                "pools: {a: {share: -1}}",
                "line 1: pools.a.share: `-1` is not a weight: write a whole number",
            ),
        ] {
            assert_eq!(problem(text), told);
        }
        let size = problem("pools: {a: {pools: {b: {limit: {memory: 5}}}}}");
        assert!(
            size.starts_with("line 1: pools.a.pools.b.limit.memory: "),
            "{size}"
        );
        let two = problem("pools: {a: {kind: x, share: y}}");
        assert_eq!(two.lines().count(), 2, "{two}");
        let twice = problem("pools:\n  a: {}\n  a: {}");
        assert!(twice.starts_with("line 3: "), "{twice}");
        assert!(problem("").starts_with("line 1"));
    }
}
