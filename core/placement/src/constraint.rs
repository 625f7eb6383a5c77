//! Rules about hosts, by attribute or name. Constraint lists are judged once for all groups that share them.

use echelon_core_model::cluster::HostView;
use echelon_core_model::siting::{Constraint, HOSTNAME, Number, Test, pattern};
use regex::Regex;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A rule that is ready to be asked many times.
#[derive(Debug, Clone)]
pub struct Rule<'a> {
    rule: &'a Constraint,
    /// Of a rule with one; a pattern that is none matches nothing.
    pattern: Option<Regex>,
}

impl<'a> Rule<'a> {
    /// Compiles its pattern, if it has one.
    #[must_use]
    pub fn new(rule: &'a Constraint) -> Self {
        let pattern = match &rule.test {
            Test::Matches(text) => pattern(text).ok(),
            Test::In(_) | Test::Exists | Test::Compares(..) => None,
        };
        Self { rule, pattern }
    }

    /// Whether a host meets it. An attribute with several values, joined with commas, passes when all of the text does, or any of them; a
    /// host without the attribute passes the rule that is turned round.
    #[must_use]
    pub fn holds(&self, host: &HostView) -> bool {
        self.accepts(attribute(&self.rule.attribute, host))
    }

    /// Whether a host with this text under its attribute meets it.
    #[must_use]
    pub fn accepts(&self, text: Option<&str>) -> bool {
        let has = text.is_some_and(|text| self.meant(text) || text.split(',').any(|v| self.meant(v)));
        has != self.rule.negate
    }

    fn meant(&self, value: &str) -> bool {
        match &self.rule.test {
            Test::In(values) => values.iter().any(|v| v == value),
            Test::Exists => true,
            Test::Compares(how, n) => Number::parse(value).is_some_and(|value| how.holds(value, *n)),
            Test::Matches(_) => self.pattern.as_ref().is_some_and(|p| p.is_match(value)),
        }
    }
}

/// A host's text under an attribute, or its name.
#[must_use]
pub fn attribute<'h>(name: &str, host: &'h HostView) -> Option<&'h str> {
    if name == HOSTNAME {
        Some(&host.hostname)
    } else {
        host.attributes.get(name).map(String::as_str)
    }
}

/// Whether a host meets a rule. Whoever asks for many hosts keeps a `Rule`.
#[must_use]
pub fn holds(rule: &Constraint, host: &HostView) -> bool {
    Rule::new(rule).holds(host)
}

/// Which hosts pass a list of rules, by index; `None`: all do, since there are no rules.
pub type Passing = Option<Rc<[bool]>>;

/// Constraint lists with the hosts that pass them. Costs `hosts * rules` for each different list.
#[derive(Debug, Default)]
pub struct Filters<'a> {
    known: BTreeMap<&'a [Constraint], Rc<[bool]>>,
}

impl<'a> Filters<'a> {
    /// The hosts that pass all rules.
    pub fn passing(&mut self, rules: &'a [Constraint], hosts: &[&HostView]) -> Passing {
        if rules.is_empty() {
            return None;
        }
        let judge = || {
            let rules: Vec<Rule<'_>> = rules.iter().map(Rule::new).collect();
            let passes = |h: &&HostView| rules.iter().all(|r| r.holds(h));
            hosts.iter().map(passes).collect()
        };
        Some(Rc::clone(self.known.entry(rules).or_insert_with(judge)))
    }
}
