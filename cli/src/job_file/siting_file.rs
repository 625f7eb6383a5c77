//! The shapes of rules about hosts.

use super::form::{Decimal, Signed, Truth, Whole};
use super::scalar::Scalar;
use super::shape::shapes;
use std::collections::BTreeMap;

shapes! {
    /// `{attribute: rack, in: [r1, r2]}`: an attribute, and just one thing that is asked of it.
    ConstraintFile {
        /// Name of an attribute of Mesos' agents; `hostname` is the host's name.
        attribute: Scalar,
        /// It is one of these.
        #[serde(rename = "in")]
        within: Option<Vec<Scalar>>,
        /// It is none of these.
        not_in: Option<Vec<Scalar>>,
        /// It is this.
        equals: Option<Scalar>,
        /// It is something else.
        not_equals: Option<Scalar>,
        /// Whether the host has it.
        exists: Option<Scalar<Truth>>,
        /// It is a number, and less.
        less: Option<Scalar<Decimal>>,
        /// It is a number, and not more.
        at_most: Option<Scalar<Decimal>>,
        /// It is a number, and more.
        more: Option<Scalar<Decimal>>,
        /// It is a number, and not less.
        at_least: Option<Scalar<Decimal>>,
        /// It is no number, or not less: hosts without it pass, too.
        not_less: Option<Scalar<Decimal>>,
        /// It is no number, or more: hosts without it pass, too.
        not_at_most: Option<Scalar<Decimal>>,
        /// It is no number, or not more: hosts without it pass, too.
        not_more: Option<Scalar<Decimal>>,
        /// It is no number, or less: hosts without it pass, too.
        not_at_least: Option<Scalar<Decimal>>,
        /// All of it matches this regular expression.
        matches: Option<Scalar>,
        /// It does not match this regular expression.
        not_matches: Option<Scalar>,
    }

    /// `{rule: {attribute: ssd, exists: true}, weight: 50}`.
    PreferenceFile {
        /// The rule.
        rule: ConstraintFile,
        /// What a host that meets it gains: -100 to 100 and not 0.
        weight: Scalar<Signed>,
    }

    /// `{labels: {app: db}, topology: rack, weight: 50}`.
    AffinityFile {
        /// Jobs that have all of these labels.
        labels: BTreeMap<String, Scalar>,
        /// On hosts with the same value of this attribute; `hostname`: on the same host.
        topology: Scalar,
        /// What it counts where it is only a preference, 1 to 100; it has to be so when it is left out.
        weight: Option<Scalar<Whole>>,
    }
}
