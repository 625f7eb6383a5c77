//! What the runs of a job's driver find in their environment beside what every run does: a token for their own job, and where to show
//! it. Each run gets the same token, whichever leader launches it.

use crate::Shard;
use crate::group::Group;
use echelon_core_model::JobId;
use echelon_core_model::control::Control;
use echelon_core_model::token::TokenKey;
use std::collections::BTreeMap;

/// What drivers are told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drivers {
    key: Option<TokenKey>,
    gateway: Option<String>,
}

impl Drivers {
    /// The key, from the row that holds it; an older version may have left it out.
    pub(crate) fn know(&mut self, control: &Control) {
        self.key = control.token_key.or(self.key);
    }

    /// Where a gateway is.
    pub(crate) fn reach(&mut self, gateway: String) {
        self.gateway = Some(gateway);
    }

    /// The environment of a job's driver.
    pub(crate) fn variables(&self, job: JobId) -> BTreeMap<String, String> {
        let token = self.key.and_then(|key| key.sign(job));
        let token = token.map(|token| ("ECHELON_TOKEN".to_owned(), token));
        let gateway = self.gateway.clone();
        let gateway = gateway.map(|at| ("ECHELON_ADDRESS".to_owned(), at));
        token.into_iter().chain(gateway).collect()
    }
}

impl Shard {
    /// Whether a group begins later, because its job has a driver, and the key that tokens are signed with was not read yet or nobody
    /// told where a gateway is: a driver without either would fail.
    pub(crate) fn awaits_access(&self, group: &Group) -> bool {
        let driven = group.spec.as_ref().is_some_and(|s| s.rules.driver.is_some());
        driven && (self.drivers.key.is_none() || self.drivers.gateway.is_none())
    }
}
