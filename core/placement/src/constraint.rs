//! Rules about hosts, by attribute or name: each is judged once for each value that hosts have.

use crate::hosts::{Column, HostIdx, Hosts};
use echelon_core_model::cluster::HostView;
use echelon_core_model::siting::{Constraint, HOSTNAME, Number, Test, pattern};
use regex::Regex;

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

/// A rule that was asked of every value that hosts have.
#[derive(Debug, Clone)]
pub struct Verdicts<'a> {
    rule: Rule<'a>,
    /// By the numbers of values; of names there is one for each host, which is asked when it is its turn.
    by_value: Option<(&'a Column, Vec<bool>)>,
    /// The verdict on hosts without the attribute.
    otherwise: bool,
    by_name: bool,
}

impl<'a> Verdicts<'a> {
    /// Judges. `O(values)`.
    pub fn new(rule: &'a Constraint, hosts: &'a Hosts) -> Self {
        let by_name = rule.attribute == HOSTNAME;
        let column = hosts.column(&rule.attribute).filter(|_| !by_name);
        let rule = Rule::new(rule);
        let by_value = column.map(|c| (c, c.values().map(|v| rule.accepts(v)).collect()));
        Self {
            by_value,
            otherwise: rule.accepts(None),
            by_name,
            rule,
        }
    }

    /// Whether a host, which is like this, meets the rule.
    pub fn holds(&self, host: HostIdx, view: &HostView) -> bool {
        match &self.by_value {
            _ if self.by_name => self.rule.holds(view),
            Some((column, verdicts)) => usize::try_from(column.number(host))
                .is_ok_and(|n| verdicts.get(n).copied().unwrap_or(self.otherwise)),
            None => self.otherwise,
        }
    }
}
