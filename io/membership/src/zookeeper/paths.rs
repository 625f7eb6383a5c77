//! Which node holds what, and the text in it. Operators look at these with ZooKeeper's own tools, so they are plain.
//!
//! Below `ROOT/resource-manager`, `ROOT/gateway`, `ROOT/shard/CLUSTER`: `candidates/c-N` (ephemeral; the smallest N
//! leads), `leader` (ephemeral, the leader's record), `epoch` (persistent, the largest ever, and the newest write of it that is
//! known to be durable), `members/m-N` (ephemeral).

use crate::{MembershipError, Role, Term};
use echelon_core_model::Epoch;
use echelon_core_model::store::Stamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The nodes of one role.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    pub(super) role: Role,
    base: String,
}

/// The content of the `epoch` node: which leadership published it tells a repetition from a second use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PublishedEpoch {
    #[serde(with = "crate::role::epoch")]
    pub(super) epoch: Epoch,
    pub(super) term: u64,
    /// The newest write of the epoch that is known to be durable; 0: none.
    #[serde(with = "crate::role::sequence")]
    pub(super) sequence: u64,
}

impl PublishedEpoch {
    pub(super) const fn stamp(self) -> Stamp {
        Stamp {
            epoch: self.epoch,
            sequence: self.sequence,
        }
    }

    /// Whether `offered` may be published after this by the leadership `term`.
    pub(super) fn allows(self, offered: Epoch, term: Term) -> bool {
        offered > self.epoch || (offered == self.epoch && self.term == term.0)
    }
}

impl Paths {
    pub(super) fn new(root: &str, role: &Role) -> Self {
        let base = match role {
            Role::Shard(cluster) => format!("{root}/shard/{}", escape(cluster.as_str())),
            Role::Gateway | Role::ResourceManager => format!("{root}/{role}"),
        };
        Self {
            role: role.clone(),
            base,
        }
    }

    pub(super) fn candidates(&self) -> String {
        format!("{}/candidates", self.base)
    }

    pub(super) fn members(&self) -> String {
        format!("{}/members", self.base)
    }

    pub(super) fn leader(&self) -> String {
        format!("{}/leader", self.base)
    }

    pub(super) fn epoch(&self) -> String {
        format!("{}/epoch", self.base)
    }
}

/// The number at the end of a sequential node's name; none when another program wrote the node.
pub(super) fn sequence(name: &str) -> Option<i64> {
    name.rsplit_once('-')?.1.parse().ok()
}

pub(super) fn decode<T: DeserializeOwned>(path: &str, data: &[u8]) -> Result<T, MembershipError> {
    serde_json::from_slice(data).map_err(|source| MembershipError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The types here always have a text; an impossible failure writes nothing readable rather than something wrong.
pub(super) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// A cluster's id as one node name: everything but letters, digits, `-` and `_` becomes `%` and two hex digits.
fn escape(id: &str) -> String {
    id.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(b).to_string(),
            other => format!("%{other:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::ClusterId;

    #[test]
    fn an_epoch_that_no_leader_can_have_is_unreadable() {
        let read = |epoch: u64| {
            let text = format!("{{\"epoch\":{epoch},\"term\":1,\"sequence\":0}}");
            decode::<PublishedEpoch>("/e", text.as_bytes()).map(|published| published.epoch)
        };
        assert_eq!(read(Epoch::END - 1).ok(), Some(Epoch(Epoch::END - 1)));
        for epoch in [0, Epoch::END, u64::MAX] {
            let cause = std::error::Error::source(&read(epoch).unwrap_err())
                .unwrap()
                .to_string();
            assert!(cause.contains("outside 1 to 8388607"), "{cause}");
        }
    }

    #[test]
    fn a_sequence_that_no_write_can_have_is_unreadable() {
        let read = |sequence: u64| {
            let text = format!("{{\"epoch\":4,\"term\":1,\"sequence\":{sequence}}}");
            decode::<PublishedEpoch>("/e", text.as_bytes()).map(PublishedEpoch::stamp)
        };
        let largest = (1 << 40) - 1;
        assert_eq!(read(largest).ok().map(|stamp| stamp.sequence), Some(largest));
        assert!(read(largest + 1).is_err());
    }

    #[test]
    fn roles_have_nodes_of_their_own_whatever_a_cluster_is_called() {
        let table = [
            (Role::Gateway, "/e/gateway/leader"),
            (Role::ResourceManager, "/e/resource-manager/leader"),
            (Role::Shard(ClusterId::new("eu-1_a")), "/e/shard/eu-1_a/leader"),
            (
                Role::Shard(ClusterId::new("../gateway")),
                "/e/shard/%2e%2e%2fgateway/leader",
            ),
            (Role::Shard(ClusterId::new("ü%")), "/e/shard/%c3%bc%25/leader"),
        ];
        for (role, path) in table {
            assert_eq!(Paths::new("/e", &role).leader(), path);
        }
    }

    #[test]
    fn an_epoch_is_used_by_one_leadership_only() {
        let published = PublishedEpoch {
            epoch: Epoch(5),
            term: 70,
            sequence: 3,
        };
        for (offered, term, allowed) in [
            (6, 71, true),
            (6, 70, true),
            (5, 70, true),
            (5, 71, false),
            (4, 70, false),
        ] {
            assert_eq!(
                published.allows(Epoch(offered), Term(term)),
                allowed,
                "{offered} by {term}"
            );
        }
    }

    #[test]
    fn only_our_sequential_nodes_have_a_number() {
        for (name, number) in [
            ("c-0000000012", Some(12)),
            ("c-2147483648", Some(2_147_483_648)),
            ("c-", None),
            ("x", None),
        ] {
            assert_eq!(sequence(name), number, "{name}");
        }
    }

    #[test]
    fn foreign_content_is_named_and_not_taken_for_absence() {
        let error = decode::<PublishedEpoch>("/e/epoch", b"7").unwrap_err();
        assert!(error.to_string().contains("/e/epoch") && !error.is_retryable());
    }
}
