//! A job file's rules about where instances may be and would best be.

use super::file::GroupFile;
use super::runtime::truth;
use super::scalar::Scalar;
use super::siting_file::{AffinityFile, ConstraintFile, PreferenceFile};
use super::spec::{Reader, texts, whole};
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Preference, Siting, Test};
use echelon_core_model::spec::{JobKind, defaults};

/// Reads and takes what a group says about it; its constraints are read by `constraints`.
pub(super) fn siting(r: &mut Reader, path: &str, kind: JobKind, file: &mut GroupFile) -> Siting {
    let at = |field: &str| format!("{path}{field}");
    let texts_of = |list: Option<Vec<Scalar>>| list.unwrap_or_default().into_iter().map(|s| s.0).collect();
    let max_per = file.max_per.take().unwrap_or_default().into_iter();
    let pool =
        |text: &str| HostPoolChoice::parse(text).map_err(|wrong| format!("{wrong}, or `*` for all of them"));
    Siting {
        host_pool: r.value(
            &at("host_pool"),
            file.host_pool.as_ref(),
            pool,
            defaults::host_pool(kind),
        ),
        preferences: preferences(r, &at("preferences"), file.preferences.take().unwrap_or_default()),
        max_per: max_per
            .map(|(attribute, most)| {
                let most = r.value(&at(&format!("max_per.{attribute}")), Some(&most), whole, 1);
                (attribute, most)
            })
            .collect(),
        spread_over: texts_of(file.spread_over.take()),
        affinity: affinities(r, &at("affinity"), file.affinity.take().unwrap_or_default()),
        anti_affinity: affinities(
            r,
            &at("anti_affinity"),
            file.anti_affinity.take().unwrap_or_default(),
        ),
        exclusive: r.value(&at("exclusive"), file.exclusive.as_ref(), truth, false),
        strategy: file.strategy.take().map(|s| s.0),
    }
}

/// Reads rules that have to hold.
pub(super) fn constraints(r: &mut Reader, path: &str, files: Vec<ConstraintFile>) -> Vec<Constraint> {
    let files = files.into_iter().enumerate();
    files
        .filter_map(|(i, file)| constraint(r, &format!("{path}[{i}]"), file))
        .collect()
}

fn preferences(r: &mut Reader, path: &str, files: Vec<PreferenceFile>) -> Vec<Preference> {
    let mut out = Vec::with_capacity(files.len());
    for (i, file) in files.into_iter().enumerate() {
        let path = format!("{path}[{i}]");
        let signed = |text: &str| {
            let read = text.parse::<i32>();
            read.map_err(|_| format!("`{text}` is not a whole number"))
        };
        let weight = r.value(&format!("{path}.weight"), Some(&file.weight), signed, 1);
        let rule = constraint(r, &format!("{path}.rule"), file.rule);
        out.extend(rule.map(|rule| Preference { rule, weight }));
    }
    out
}

/// A rule, if it asks just one thing.
fn constraint(r: &mut Reader, path: &str, file: ConstraintFile) -> Option<Constraint> {
    let number = |text: &str| {
        Number::parse(text).ok_or(format!(
            "`{text}` is not a decimal number with at most six places"
        ))
    };
    let plain = |values: Vec<Scalar>| Test::In(values.into_iter().map(|v| v.0).collect());
    let single = |value: Scalar| Test::In(vec![value.0]);
    let mut asked: Vec<(Test, bool)> = Vec::new();
    asked.extend(file.within.map(|v| (plain(v), false)));
    asked.extend(file.not_in.map(|v| (plain(v), true)));
    asked.extend(file.equals.map(|v| (single(v), false)));
    asked.extend(file.not_equals.map(|v| (single(v), true)));
    asked.extend(file.matches.map(|v| (Test::Matches(v.0), false)));
    asked.extend(file.not_matches.map(|v| (Test::Matches(v.0), true)));
    if let Some(text) = &file.exists {
        let exists = r.value(&format!("{path}.exists"), Some(text), truth, true);
        asked.push((Test::Exists, !exists));
    }
    let compared = [
        (Comparison::Less, false, "less", &file.less),
        (Comparison::AtMost, false, "at_most", &file.at_most),
        (Comparison::More, false, "more", &file.more),
        (Comparison::AtLeast, false, "at_least", &file.at_least),
        (Comparison::Less, true, "not_less", &file.not_less),
        (Comparison::AtMost, true, "not_at_most", &file.not_at_most),
        (Comparison::More, true, "not_more", &file.not_more),
        (Comparison::AtLeast, true, "not_at_least", &file.not_at_least),
    ];
    for (how, negate, field, text) in compared {
        if text.is_some() {
            let n = r.value(&format!("{path}.{field}"), text.as_ref(), number, Number(0));
            asked.push((Test::Compares(how, n), negate));
        }
    }
    let (Some((test, negate)), true) = (asked.pop(), asked.is_empty()) else {
        r.wrong(
            path,
            "needs exactly one of `in`, `not_in`, `equals`, `not_equals`, `exists`, `less`, `at_most`, `more`, `at_least`, \
             `not_less`, `not_at_most`, `not_more`, `not_at_least`, `matches` and `not_matches`",
        );
        return None;
    };
    Some(Constraint {
        attribute: file.attribute.0,
        test,
        negate,
    })
}

fn affinities(r: &mut Reader, path: &str, files: Vec<AffinityFile>) -> Vec<Affinity> {
    let files = files.into_iter().enumerate();
    files
        .map(|(i, file)| {
            let weight = file.weight.as_ref();
            let weight = weight.map(|w| r.value(&format!("{path}[{i}].weight"), Some(w), whole, 1));
            Affinity {
                labels: texts(file.labels),
                topology: file.topology.0,
                weight,
            }
        })
        .collect()
}
