//! Rules about hosts.

use super::{NoForm, all, list, some, texts};
use crate::job_file::file::GroupFile;
use crate::job_file::scalar::Scalar;
use crate::job_file::siting_file::{AffinityFile, ConstraintFile, PreferenceFile};
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Test};
use echelon_core_model::spec::GroupSpec;

/// The fields that say where instances may be and would best be.
pub fn siting(g: &GroupSpec) -> Result<GroupFile, NoForm> {
    let s = &g.siting;
    let preferences = s.preferences.iter().map(|p| {
        Ok(PreferenceFile {
            rule: constraint(&p.rule)?,
            weight: Scalar::new(p.weight),
        })
    });
    let preferences = preferences.collect::<Result<Vec<_>, _>>()?;
    let constraints = g.constraints.iter().map(constraint);
    let constraints = constraints.collect::<Result<Vec<_>, _>>()?;
    let max_per = s.max_per.iter().map(|(by, n)| (by.clone(), Scalar::new(n)));
    Ok(GroupFile {
        constraints: Some(constraints).filter(|c| !c.is_empty()),
        preferences: Some(preferences).filter(|p| !p.is_empty()),
        max_per: Some(max_per.collect()).filter(|_| !s.max_per.is_empty()),
        spread_over: Some(all(&s.spread_over)).filter(|o| !o.is_empty()),
        affinity: list(&s.affinity, affinity),
        anti_affinity: list(&s.anti_affinity, affinity),
        exclusive: some(s.exclusive),
        strategy: s.strategy.as_ref().and_then(some),
        ..GroupFile::default()
    })
}

fn constraint(rule: &Constraint) -> Result<ConstraintFile, NoForm> {
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
        (Test::Compares(..), true) => return Err(NoForm(rule.to_string())),
        (Test::Compares(how, number), false) => {
            let field = match how {
                Comparison::Less => &mut file.less,
                Comparison::AtMost => &mut file.at_most,
                Comparison::More => &mut file.more,
                Comparison::AtLeast => &mut file.at_least,
            };
            *field = some(number);
        }
    }
    Ok(file)
}

fn affinity(a: &Affinity) -> AffinityFile {
    AffinityFile {
        labels: texts(&a.labels),
        topology: Scalar::new(&a.topology),
        weight: a.weight.and_then(some),
    }
}
