//! The shape of a job file's rules about hosts.

use super::scalar::Scalar;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `{attribute: rack, in: [r1, r2]}`: an attribute, and one thing that is asked of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintFile {
    pub attribute: Scalar,
    #[serde(rename = "in")]
    pub within: Option<Vec<Scalar>>,
    pub not_in: Option<Vec<Scalar>>,
    pub equals: Option<Scalar>,
    pub not_equals: Option<Scalar>,
    pub exists: Option<Scalar>,
    pub less: Option<Scalar>,
    pub at_most: Option<Scalar>,
    pub more: Option<Scalar>,
    pub at_least: Option<Scalar>,
    pub matches: Option<Scalar>,
    pub not_matches: Option<Scalar>,
}

/// `{rule: {attribute: ssd, exists: true}, weight: 50}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PreferenceFile {
    pub rule: ConstraintFile,
    pub weight: Scalar,
}

/// `{labels: {app: db}, topology: rack, weight: 50}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffinityFile {
    pub labels: BTreeMap<String, Scalar>,
    pub topology: Scalar,
    pub weight: Option<Scalar>,
}
