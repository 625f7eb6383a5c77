//! Where instances may be and would best be: the rules of a group, wire <-> model.

use super::{Problems, at};
use crate::echelon::v1;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::siting::{Affinity, Comparison, Constraint, Number, Preference, Siting, Test};
use echelon_core_model::spec::{JobKind, defaults};

/// To the wire.
pub(super) fn constraint(c: &Constraint) -> v1::Constraint {
    use v1::Operator;
    let (operator, values) = match &c.test {
        // As it was before there were others, so that an older reader knows it, too.
        Test::In(values) => (Operator::Unspecified, values.clone()),
        Test::Exists => (Operator::Exists, Vec::new()),
        Test::Compares(how, n) => (operator(*how), vec![n.to_string()]),
        Test::Matches(pattern) => (Operator::Matches, vec![pattern.clone()]),
    };
    v1::Constraint {
        attribute: c.attribute.clone(),
        values,
        negate: c.negate,
        operator: operator.into(),
    }
}

const fn operator(how: Comparison) -> v1::Operator {
    match how {
        Comparison::Less => v1::Operator::Less,
        Comparison::AtMost => v1::Operator::AtMost,
        Comparison::More => v1::Operator::More,
        Comparison::AtLeast => v1::Operator::AtLeast,
    }
}

/// To the wire.
pub(super) fn preference(p: &Preference) -> v1::Preference {
    v1::Preference {
        rule: Some(constraint(&p.rule)),
        weight: p.weight,
    }
}

/// To the wire.
pub(super) fn affinity(a: &Affinity) -> v1::Affinity {
    v1::Affinity {
        labels: a.labels.clone(),
        topology: a.topology.clone(),
        weight: a.weight,
    }
}

/// A group's rules, taken out of it.
pub(super) fn read(g: &mut v1::GroupSpec, kind: JobKind, path: &str, problems: &mut Problems) -> Siting {
    let strategy = std::mem::take(&mut g.strategy);
    let preferences = std::mem::take(&mut g.preferences).into_iter().enumerate();
    Siting {
        host_pool: read_host_pool(&g.host_pool, kind, path, problems),
        preferences: preferences
            .map(|(i, p)| {
                let path = at(path, &format!("preferences[{i}].rule"));
                Preference {
                    rule: read_constraint(p.rule.unwrap_or_default(), &path, problems),
                    weight: p.weight,
                }
            })
            .collect(),
        max_per: std::mem::take(&mut g.max_per),
        spread_over: std::mem::take(&mut g.spread_over),
        affinity: std::mem::take(&mut g.affinity)
            .into_iter()
            .map(read_affinity)
            .collect(),
        anti_affinity: std::mem::take(&mut g.anti_affinity)
            .into_iter()
            .map(read_affinity)
            .collect(),
        exclusive: g.exclusive,
        strategy: (!strategy.is_empty()).then_some(strategy),
    }
}

fn read_host_pool(text: &str, kind: JobKind, path: &str, problems: &mut Problems) -> HostPoolChoice {
    if text.is_empty() {
        return defaults::host_pool(kind);
    }
    HostPoolChoice::parse(text).unwrap_or_else(|_| {
        let form =
            "must be the name of a host pool, 1 to 63 characters of a-z, 0-9 and `-`, or `*` for all of them";
        problems.add(at(path, "host_pool"), form);
        defaults::host_pool(kind)
    })
}

fn read_affinity(a: v1::Affinity) -> Affinity {
    Affinity {
        labels: a.labels,
        topology: a.topology,
        weight: a.weight,
    }
}

/// A list of rules.
pub(super) fn read_constraints(
    rules: Vec<v1::Constraint>,
    path: &str,
    problems: &mut Problems,
) -> Vec<Constraint> {
    let rules = rules.into_iter().enumerate();
    rules
        .map(|(i, c)| read_constraint(c, &at(path, &format!("constraints[{i}]")), problems))
        .collect()
}

fn read_constraint(c: v1::Constraint, path: &str, problems: &mut Problems) -> Constraint {
    use v1::Operator;
    let test = match v1::Operator::try_from(c.operator) {
        Ok(Operator::Unspecified | Operator::In) => Ok(Test::In(c.values)),
        Ok(Operator::Exists) if c.values.is_empty() => Ok(Test::Exists),
        Ok(Operator::Exists) => Err("must have no values"),
        Ok(Operator::Less) => read_number(Comparison::Less, &c.values),
        Ok(Operator::AtMost) => read_number(Comparison::AtMost, &c.values),
        Ok(Operator::More) => read_number(Comparison::More, &c.values),
        Ok(Operator::AtLeast) => read_number(Comparison::AtLeast, &c.values),
        Ok(Operator::Matches) => match c.values.as_slice() {
            [pattern] => Ok(Test::Matches(pattern.clone())),
            _ => Err("must have one value, a regular expression"),
        },
        Err(_) => Err("has an operator that this version does not know"),
    };
    let test = test.unwrap_or_else(|wrong| {
        problems.add(path, wrong);
        Test::In(Vec::new())
    });
    Constraint {
        attribute: c.attribute,
        test,
        negate: c.negate,
    }
}

fn read_number(how: Comparison, values: &[String]) -> Result<Test, &'static str> {
    let number = match values {
        [text] => Number::parse(text),
        _ => None,
    };
    number
        .map(|n| Test::Compares(how, n))
        .ok_or("must have one value, a decimal number with at most six places")
}
