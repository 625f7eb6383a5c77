//! Starts of a cluster: how many were begun of late, and how many failed.

use crate::convert::fields::{list, messages, platform_cause};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::starts::{
    GroupStarts, HostHash, MOST_FAILED_HOSTS, MOST_START_GROUPS, StartCounts, StartGroup,
};
use std::collections::BTreeSet;

impl Wire for StartCounts {
    type Message = wire::StartsReport;

    fn to_wire(&self) -> Self::Message {
        let Self { groups, left_out } = self;
        wire::StartsReport {
            groups: messages(groups),
            left_out: *left_out,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        at_most("groups", message.groups.len(), MOST_START_GROUPS)?;
        let groups: Vec<GroupStarts> = list("groups", message.groups)?;
        each_once("groups", groups.iter().map(|g| g.group.0))?;
        Ok(Self {
            groups,
            left_out: message.left_out,
        })
    }
}

impl Wire for GroupStarts {
    type Message = wire::GroupStarts;

    fn to_wire(&self) -> Self::Message {
        let Self {
            group,
            begun,
            failed,
            cause,
            hosts,
        } = self;
        wire::GroupStarts {
            group_hash: group.0,
            begun: *begun,
            failed: *failed,
            cause: cause.map(PlatformCause::number),
            host_hashes: hosts.iter().map(|host| host.0).collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        at_most("host_hashes", message.host_hashes.len(), MOST_FAILED_HOSTS)?;
        each_once("host_hashes", message.host_hashes.iter().copied())?;
        Ok(Self {
            group: StartGroup(message.group_hash),
            begun: message.begun,
            failed: message.failed,
            cause: platform_cause("cause", message.cause)?,
            hosts: message.host_hashes.into_iter().map(HostHash).collect(),
        })
    }
}

fn at_most(field: &str, count: usize, most: usize) -> Result<(), FieldError> {
    if count <= most {
        return Ok(());
    }
    let problem = FieldProblem::OutOfRange {
        number: i128::try_from(count).unwrap_or(i128::MAX),
        first: 0,
        last: i128::try_from(most).unwrap_or(i128::MAX),
    };
    Err(FieldError::new(field, problem))
}

fn each_once(field: &str, hashes: impl Iterator<Item = u64>) -> Result<(), FieldError> {
    let mut seen = BTreeSet::new();
    for hash in hashes {
        if !seen.insert(hash) {
            return Err(FieldError::new(field, FieldProblem::Repeated(hash.to_string())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(hash: u64) -> GroupStarts {
        GroupStarts {
            group: StartGroup(hash),
            begun: 3,
            failed: 1,
            cause: Some(PlatformCause::Agent),
            hosts: vec![HostHash(7)],
        }
    }

    fn read(message: wire::StartsReport) -> Result<StartCounts, String> {
        StartCounts::from_wire(message).map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_too_much_or_named_twice_is_refused_by_its_field() {
        let of = |hashes: &mut dyn Iterator<Item = u64>| StartCounts {
            groups: hashes.map(group).collect(),
            left_out: 2,
        };
        let most = u64::try_from(MOST_START_GROUPS).unwrap();
        let counts = of(&mut (0..most));
        assert_eq!(read(counts.to_wire()).unwrap(), counts);
        for hashes in [
            &mut (0..=most) as &mut dyn Iterator<Item = u64>,
            &mut [4, 4].into_iter(),
        ] {
            let refused = read(of(hashes).to_wire()).unwrap_err();
            assert!(refused.contains("groups"), "{refused}");
        }
        let mut many_hosts = of(&mut (0..1)).to_wire();
        many_hosts.groups[0].host_hashes = vec![1, 2, 3, 4];
        assert!(read(many_hosts).unwrap_err().contains("host_hashes"));
        let mut unknown_cause = of(&mut (0..1)).to_wire();
        unknown_cause.groups[0].cause = Some(99);
        assert!(read(unknown_cause).unwrap_err().contains("cause"));
    }
}
