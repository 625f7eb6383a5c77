//! Which clusters a job may use, from and to a job file.

use super::parts_file::ClustersFile;
use super::scalar::Scalar;
use super::spec::{Reader, texts, whole};
use super::words::{self, one_of};
use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, MAX_WEIGHT, Preference, Spread};
use std::collections::BTreeMap;

pub(super) fn clusters(r: &mut Reader, file: Option<ClustersFile>) -> ClusterChoice {
    let Some(file) = file else {
        return ClusterChoice::default();
    };
    let selectors = |list: Option<Vec<Scalar>>| list.unwrap_or_default().into_iter().map(|s| s.0).collect();
    if file.prefer.is_some() && file.prefer_weights.is_some() {
        r.wrong(
            "clusters.prefer_weights",
            "must be left out where `prefer` is given",
        );
    }
    if file.spread.is_some() && file.weights.is_some() {
        r.wrong("clusters.weights", "must be left out where `spread` is given");
    }
    let spread = one_of("a spread", &words::SPREADS);
    let cost = one_of("a rule for prices", &words::COST_RULES);
    ClusterChoice {
        prefer: match weights(r, "clusters.prefer_weights", file.prefer_weights.as_ref()) {
            Some(weights) => Preference::Weighted(weights),
            None => Preference::Ordered(selectors(file.prefer)),
        },
        spread: match weights(r, "clusters.weights", file.weights.as_ref()) {
            Some(weights) => Spread::Weights(weights),
            None => r.value("clusters.spread", file.spread.as_ref(), spread, Spread::None),
        },
        min_clusters: r.value(
            "clusters.min_clusters",
            file.min_clusters.as_ref(),
            at_least_one,
            1,
        ),
        max_share: r.value("clusters.max_share", file.max_share.as_ref(), percent, 100),
        only: selectors(file.only),
        fail_over_only: selectors(file.fail_over_only),
        near: texts(file.near.unwrap_or_default()),
        cost: r.value("clusters.cost", file.cost.as_ref(), cost, CostRule::Ignore),
    }
}

fn weights<F>(
    r: &mut Reader,
    path: &str,
    file: Option<&BTreeMap<String, Scalar<F>>>,
) -> Option<BTreeMap<String, u32>> {
    let file = file?;
    if file.is_empty() {
        r.wrong(path, "must name a cluster, or be left out");
    }
    let mut out = BTreeMap::new();
    for (selector, text) in file {
        let weight = r.value(&format!("{path}.{selector}"), Some(text), weight, 0);
        out.insert(selector.clone(), weight);
    }
    Some(out)
}

fn weight(text: &str) -> Result<u32, String> {
    match whole(text)? {
        n if n <= MAX_WEIGHT => Ok(n),
        n => Err(format!("{n} is too large: use 0 to {MAX_WEIGHT}")),
    }
}

fn at_least_one(text: &str) -> Result<u32, String> {
    match whole(text)? {
        0 => Err("must be at least 1".to_owned()),
        n => Ok(n),
    }
}

fn percent(text: &str) -> Result<u32, String> {
    match whole(text.strip_suffix('%').unwrap_or(text).trim_end())? {
        n @ 1..=100 => Ok(n),
        n => Err(format!("{n}% is no share: use 1% to 100%")),
    }
}

/// The part of a job file that says the same.
pub(super) fn file(choice: &ClusterChoice) -> ClustersFile {
    let list = |list: &[String]| (!list.is_empty()).then(|| list.iter().map(Scalar::new).collect());
    let (prefer, prefer_weights) = match &choice.prefer {
        Preference::Ordered(selectors) => (list(selectors), None),
        Preference::Weighted(weights) => (None, Some(written(weights))),
    };
    let (spread, weights) = match &choice.spread {
        Spread::Weights(weights) => (None, Some(written(weights))),
        plain => (Some(Scalar::new(words::word(&words::SPREADS, plain))), None),
    };
    ClustersFile {
        only: list(&choice.only),
        prefer,
        prefer_weights,
        spread,
        weights,
        min_clusters: Some(Scalar::new(choice.min_clusters)),
        max_share: Some(Scalar::new(format!("{}%", choice.max_share))),
        fail_over_only: list(&choice.fail_over_only),
        near: (!choice.near.is_empty()).then(|| {
            let pairs = choice.near.iter();
            pairs.map(|(k, v)| (k.clone(), Scalar::new(v))).collect()
        }),
        cost: Some(Scalar::new(words::word(&words::COST_RULES, &choice.cost))),
    }
}

fn written<F>(weights: &BTreeMap<String, u32>) -> BTreeMap<String, Scalar<F>> {
    weights.iter().map(|(k, n)| (k.clone(), Scalar::new(n))).collect()
}

#[cfg(test)]
mod tests {
    use crate::job_file::parse;
    use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, Preference, Spread};
    use std::collections::BTreeMap;

    const JOB: &str = "name: a\nkind: service\ncommand: x\nresources: {cpus: 1, memory: 1MiB}\n";

    fn read(clusters: &str) -> Result<ClusterChoice, String> {
        let read = parse(format!("{JOB}clusters: {clusters}\n").as_bytes());
        read.map(|spec| *spec.clusters).map_err(|e| e.to_string())
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn each_field_is_read() {
        let all = "{only: [region=eu], prefer: [east], spread: even, min_clusters: 2, max_share: 60%, \
                   fail_over_only: [dr], near: {region: eu}, cost: prefer_cheap}";
        let expected = ClusterChoice {
            only: texts(&["region=eu"]),
            prefer: Preference::Ordered(texts(&["east"])),
            spread: Spread::Even,
            min_clusters: 2,
            max_share: 60,
            fail_over_only: texts(&["dr"]),
            near: BTreeMap::from([("region".to_owned(), "eu".to_owned())]),
            cost: CostRule::PreferCheap,
        };
        assert_eq!(read(all), Ok(expected));
        let weighted = read("{prefer_weights: {east: 3}, weights: {east: 1, region=eu: 2}}").unwrap();
        let weights = |list: &[(&str, u32)]| list.iter().map(|(k, n)| ((*k).to_owned(), *n)).collect();
        assert_eq!(weighted.prefer, Preference::Weighted(weights(&[("east", 3)])));
        assert_eq!(
            weighted.spread,
            Spread::Weights(weights(&[("east", 1), ("region=eu", 2)]))
        );
        assert_eq!(read("{}"), Ok(ClusterChoice::default()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        for (clusters, said) in [
            (
                "{spread: even, weights: {a: 1}}",
                "clusters.weights: must be left out where `spread` is given",
            ),
            (
                "{prefer: [a], prefer_weights: {a: 1}}",
                "clusters.prefer_weights: must be left out where `prefer` is given",
            ),
            (
                "{weights: {}}",
                "clusters.weights: must name a cluster, or be left out",
            ),
            (
                "{weights: {a: 1000001}}",
                "clusters.weights.a: 1000001 is too large: use 0 to 1000000",
            ),
            (
                "{max_share: 0%}",
                "clusters.max_share: 0% is no share: use 1% to 100%",
            ),
            (
                "{max_share: 101}",
                "clusters.max_share: 101% is no share: use 1% to 100%",
            ),
            ("{min_clusters: 0}", "clusters.min_clusters: must be at least 1"),
            ("{cost: cheap}", "clusters.cost: `cheap`"),
        ] {
            let error = read(clusters).unwrap_err();
            assert!(error.contains(said), "{clusters}: {error}");
        }
    }
}
