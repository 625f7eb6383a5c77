//! The values that membership carries: roles, members, and what a leader publishes.

use echelon_core_model::{ClusterId, Epoch};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What processes may stand for or register as.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Stateless; many at a time, registered and not elected.
    Gateway,
    /// One leader for the whole federation.
    ResourceManager,
    /// One leader a cluster.
    Shard(ClusterId),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("gateway"),
            Self::ResourceManager => f.write_str("resource-manager"),
            Self::Shard(cluster) => write!(f, "shard/{cluster}"),
        }
    }
}

/// One process in a role.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Member {
    /// Names the process; two live processes of a role never share it.
    pub id: String,
    /// Where others reach it: `http://host:port`.
    pub address: String,
}

/// What a candidate tells the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateRecord {
    /// The process.
    #[serde(flatten)]
    pub member: Member,
    /// Whether it can do what the role needs: a shard reaches its Mesos.
    pub able: bool,
    /// How old its last contact was when this was written, in milliseconds; none, if it never had any.
    pub contact_age_ms: Option<u64>,
}

impl From<Member> for CandidateRecord {
    /// Of one that has not told anything: nobody gives way to it.
    fn from(member: Member) -> Self {
        Self {
            member,
            able: false,
            contact_age_ms: None,
        }
    }
}

/// What a leader tells the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderRecord {
    /// Where others reach the leader.
    pub address: String,
    /// The epoch that it took in storage.
    #[serde(with = "epoch")]
    pub epoch: Epoch,
}

/// What is known of a role's leader. Not knowing and there being none are two things.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sighting {
    /// No answer yet.
    #[default]
    Unknown,
    /// Nobody leads, or the leader has not published yet.
    Vacant,
    /// The newest leader that was seen.
    Held(LeaderRecord),
}

impl Sighting {
    /// The leader, if one was seen.
    #[must_use]
    pub const fn record(&self) -> Option<&LeaderRecord> {
        match self {
            Self::Held(record) => Some(record),
            Self::Unknown | Self::Vacant => None,
        }
    }
}

impl From<Option<LeaderRecord>> for Sighting {
    fn from(record: Option<LeaderRecord>) -> Self {
        record.map_or(Self::Vacant, Self::Held)
    }
}

/// The number of a write within its epoch.
pub(crate) mod sequence {
    use super::{Deserialize, Serialize};
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(sequence: &u64, to: S) -> Result<S::Ok, S::Error> {
        sequence.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        let number = u64::deserialize(from)?;
        if number < 1 << 40 {
            Ok(number)
        } else {
            Err(D::Error::custom(format!("sequence {number} is not below 2^40")))
        }
    }
}

/// An epoch as a plain number.
pub(crate) mod epoch {
    use super::{Deserialize, Epoch, Serialize};
    use serde::de::Error as _;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(epoch: &Epoch, to: S) -> Result<S::Ok, S::Error> {
        epoch.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Epoch, D::Error> {
        let number = u64::deserialize(from)?;
        if (1..Epoch::END).contains(&number) {
            Ok(Epoch(number))
        } else {
            let last = Epoch::END - 1;
            Err(D::Error::custom(format!("epoch {number} is outside 1 to {last}")))
        }
    }
}
