//! Switches that operators set for the whole system. Decided by any gateway; everybody else reads them.

use crate::id::{JobId, Version};
use crate::time::Timestamp;
use crate::token::TokenKey;

/// All switches, in one row, with what else is one for the whole system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Control {
    /// Counts the writes of this row, from 1, those of keys included; 0: nobody ever wrote it.
    pub version: Version,
    /// No shard kills anything.
    pub kills_off: bool,
    /// Who set it last, for people.
    pub by: String,
    /// Why, for people.
    pub why: String,
    /// When.
    pub at: Timestamp,
    /// What tokens of drivers are signed with: made by the first gateway, and kept whatever is switched.
    pub token_key: Option<TokenKey>,
    /// The one before it: what was signed with it is good as long as it is kept here.
    pub former_token_key: Option<TokenKey>,
}

impl Control {
    /// The job that a token is for, if it was signed with a key that is good.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<JobId> {
        let keys = self.token_key.iter().chain(&self.former_token_key);
        keys.filter_map(|key| key.verify(token)).next()
    }
}
