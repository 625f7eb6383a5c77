//! Rules about where a group's instances may be and would best be.

use super::Violations;
use super::text::{is_key, is_line};
use echelon_core_model::limits::RULE_VALUES;
use echelon_core_model::siting::{Affinity, Constraint, MAX_RULES, MAX_WEIGHT, STRATEGIES, Test, pattern};
use echelon_core_model::spec::GroupSpec;

pub(super) const ATTRIBUTE: &str = "must name an attribute of hosts, or `hostname`";

pub(super) fn check(g: &GroupSpec, path: &str, out: &mut Violations) {
    let at = |field: &str| format!("{path}.{field}");
    let siting = &g.siting;
    for (field, n) in [
        ("constraints", g.constraints.len()),
        ("preferences", siting.preferences.len()),
        ("max_per", siting.max_per.len()),
        ("spread_over", siting.spread_over.len()),
        ("affinity", siting.affinity.len()),
        ("anti_affinity", siting.anti_affinity.len()),
    ] {
        out.check(
            n <= MAX_RULES,
            at(field),
            format!("must have at most {MAX_RULES}"),
        );
    }
    for (i, rule) in g.constraints.iter().enumerate() {
        constraint(rule, &at(&format!("constraints[{i}]")), out);
    }
    for (i, preference) in siting.preferences.iter().enumerate() {
        let path = at(&format!("preferences[{i}]"));
        constraint(&preference.rule, &format!("{path}.rule"), out);
        let weight = preference.weight.unsigned_abs();
        out.check(
            (1..=MAX_WEIGHT).contains(&weight),
            format!("{path}.weight"),
            format!("must be -{MAX_WEIGHT} to {MAX_WEIGHT}, and not 0"),
        );
    }
    for (attribute, most) in &siting.max_per {
        let path = at(&format!("max_per.{attribute}"));
        out.check(is_attribute(attribute), &path, ATTRIBUTE);
        out.check(*most >= 1, &path, "must be 1 or more");
    }
    for (i, attribute) in siting.spread_over.iter().enumerate() {
        let path = at(&format!("spread_over[{i}]"));
        out.check(is_attribute(attribute), &path, ATTRIBUTE);
        let first = siting.spread_over.iter().position(|a| a == attribute) == Some(i);
        out.check(first, path, "is named twice");
    }
    for (field, list) in [
        ("affinity", &siting.affinity),
        ("anti_affinity", &siting.anti_affinity),
    ] {
        for (i, rule) in list.iter().enumerate() {
            affinity(rule, &at(&format!("{field}[{i}]")), out);
        }
    }
    if let Some(name) = &siting.strategy {
        out.check(
            STRATEGIES.contains(&name.as_str()),
            at("strategy"),
            format!("must be one of {}", STRATEGIES.join(", ")),
        );
    }
}

pub(super) fn is_attribute(name: &str) -> bool {
    !name.is_empty() && is_line(name, 255)
}

fn constraint(c: &Constraint, path: &str, out: &mut Violations) {
    out.check(is_attribute(&c.attribute), format!("{path}.attribute"), ATTRIBUTE);
    let path = format!("{path}.values");
    match &c.test {
        Test::In(values) => {
            out.check(!values.is_empty(), &path, "must name at least one value");
            out.check(
                values.len() <= RULE_VALUES,
                path,
                format!("must be at most {RULE_VALUES}"),
            );
        }
        Test::Matches(text) => {
            if let Err(why) = pattern(text) {
                out.check(false, path, why);
            }
        }
        Test::Exists | Test::Compares(..) => {}
    }
}

fn affinity(rule: &Affinity, path: &str, out: &mut Violations) {
    let keys = rule.labels.keys().all(|k| is_key(k));
    out.check(
        keys && !rule.labels.is_empty(),
        format!("{path}.labels"),
        "must be labels of the jobs that are meant: at least one, each key 1 to 63 of letters, digits and `-_./`",
    );
    out.check(
        is_attribute(&rule.topology),
        format!("{path}.topology"),
        ATTRIBUTE,
    );
    out.check(
        rule.weight.is_none_or(|w| (1..=MAX_WEIGHT).contains(&w)),
        format!("{path}.weight"),
        format!("must be 1 to {MAX_WEIGHT}; leave it out for what has to be so"),
    );
}
