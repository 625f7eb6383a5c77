//! Rules about hosts.

use super::{all, list, some, texts};
use crate::job_file::file::GroupFile;
use crate::job_file::scalar::Scalar;
use crate::job_file::siting_file::{AffinityFile, ConstraintFile, PreferenceFile};
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Test};
use echelon_core_model::spec::GroupSpec;

/// The fields that say where instances may be and would best be.
pub fn siting(g: &GroupSpec) -> GroupFile {
    let s = &g.siting;
    let max_per = s.max_per.iter().map(|(by, n)| (by.clone(), Scalar::new(n)));
    GroupFile {
        host_pool: some(&s.host_pool),
        constraints: list(&g.constraints, constraint),
        preferences: list(&s.preferences, |p| PreferenceFile {
            rule: constraint(&p.rule),
            weight: Scalar::new(p.weight),
        }),
        max_per: Some(max_per.collect()).filter(|_| !s.max_per.is_empty()),
        spread_over: Some(all(&s.spread_over)).filter(|o| !o.is_empty()),
        affinity: list(&s.affinity, affinity),
        anti_affinity: list(&s.anti_affinity, affinity),
        exclusive: some(s.exclusive),
        strategy: s.strategy.as_ref().and_then(some),
        ..GroupFile::default()
    }
}

fn constraint(rule: &Constraint) -> ConstraintFile {
    let mut file = ConstraintFile {
        attribute: Scalar::new(&rule.attribute),
        ..ConstraintFile::default()
    };
    match (&rule.test, rule.negate) {
        (Test::In(values), false) => file.within = Some(all(values)),
        (Test::In(values), true) => file.not_in = Some(all(values)),
        (Test::Exists, negate) => file.exists = some(!negate),
        (Test::Matches(pattern), false) => file.matches = some(pattern),
        (Test::Matches(pattern), true) => file.not_matches = some(pattern),
        (Test::Compares(how, number), negate) => {
            let field = match (how, negate) {
                (Comparison::Less, false) => &mut file.less,
                (Comparison::AtMost, false) => &mut file.at_most,
                (Comparison::More, false) => &mut file.more,
                (Comparison::AtLeast, false) => &mut file.at_least,
                (Comparison::Less, true) => &mut file.not_less,
                (Comparison::AtMost, true) => &mut file.not_at_most,
                (Comparison::More, true) => &mut file.not_more,
                (Comparison::AtLeast, true) => &mut file.not_at_least,
            };
            *field = some(number);
        }
    }
    file
}

fn affinity(a: &Affinity) -> AffinityFile {
    AffinityFile {
        labels: texts(&a.labels),
        topology: Scalar::new(&a.topology),
        weight: a.weight.and_then(some),
    }
}
