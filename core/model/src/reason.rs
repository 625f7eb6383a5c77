//! Why something is as it is: a closed set of codes with numbers, made where the decision is made, turned into a sentence
//! only at the edge. A reason for waiting names its layer, what was asked, what there is at most, and where.

mod code;
mod sentence;

pub use code::{Layer, ReasonCode};

use crate::resources::Kind;
use std::fmt;

/// How much was asked of a kind, and how much there is at most in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shortfall {
    /// The kind.
    pub kind: Kind,
    /// What is there at most, in the kind's unit.
    pub have: u64,
    /// What is needed, in the kind's unit.
    pub need: u64,
}

/// A reason with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// The code.
    pub code: ReasonCode,
    /// Asked against largest free, where the code is about quantities.
    pub shortfall: Option<Box<Shortfall>>,
    /// Where: a pool, cluster or host, or the message that Mesos or the command gave. Not trusted, escaped by whoever shows it.
    pub detail: Option<Box<str>>,
}

impl Reason {
    /// A reason without numbers.
    #[must_use]
    pub const fn new(code: ReasonCode) -> Self {
        Self {
            code,
            shortfall: None,
            detail: None,
        }
    }

    /// The same with a place or a message.
    #[must_use]
    pub fn at(mut self, detail: impl AsRef<str>) -> Self {
        self.detail = Some(detail.as_ref().into());
        self
    }

    /// The same with what was asked and what there is.
    #[must_use]
    pub fn short(mut self, shortfall: Shortfall) -> Self {
        self.shortfall = Some(Box::new(shortfall));
        self
    }
}

impl From<ReasonCode> for Reason {
    fn from(code: ReasonCode) -> Self {
        Self::new(code)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            shortfall,
            detail,
        } = self;
        f.write_str(code.sentence())?;
        if let ReasonCode::Newer(number) = code {
            write!(f, " ({number})")?;
        }
        if let Some(Shortfall { kind, have, need }) = shortfall.as_deref() {
            write!(
                f,
                ": {kind} needs {}, has at most {}",
                kind.show(*need),
                kind.show(*have)
            )?;
        }
        match detail {
            Some(text) => write!(f, " ({text})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_a_newer_version_says_its_number() {
        let reason = Reason::new(ReasonCode::from_number(412));
        assert_eq!(reason.to_string(), "a reason of a newer version (412)");
        assert_eq!(
            reason.at("host h1").to_string(),
            "a reason of a newer version (412) (host h1)"
        );
    }

    #[test]
    fn a_reason_says_what_was_asked_and_where() {
        let reason = Reason::new(ReasonCode::HostResources)
            .short(Shortfall {
                kind: Kind::Memory,
                have: 512,
                need: 1024,
            })
            .at("3 hosts of c1");
        assert_eq!(
            reason.to_string(),
            "hosts have too little left: memory needs 1024MiB, has at most 512MiB (3 hosts of c1)"
        );
    }
}
