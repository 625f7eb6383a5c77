//! Rules about hosts, by attribute or name. Constraint lists are judged once for all groups that share them.

use echelon_core_model::cluster::HostView;
use echelon_core_model::spec::Constraint;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The attribute name that means the host's name.
pub const HOSTNAME: &str = "hostname";

/// Whether a host meets a rule. An attribute with several values, joined with commas, has each of them; a host without the
/// attribute has none, so it fails the rule, or passes the rule that is turned round.
#[must_use]
pub fn holds(rule: &Constraint, host: &HostView) -> bool {
    let wanted = |value: &str| rule.values.iter().any(|v| v == value);
    let has = if rule.attribute == HOSTNAME {
        wanted(&host.hostname)
    } else {
        host.attributes
            .get(&rule.attribute)
            .is_some_and(|text| wanted(text) || text.split(',').any(wanted))
    };
    has != rule.negate
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
        let judge = || hosts.iter().map(|h| rules.iter().all(|r| holds(r, h))).collect();
        Some(Rc::clone(self.known.entry(rules).or_insert_with(judge)))
    }
}
