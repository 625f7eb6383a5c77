//! What each broken rule says to a person.

use super::Broken;
use std::fmt;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("the answer belongs to another problem"),
            Self::Unknown(i, h) => write!(f, "{i} on {h}: one of them was not in the problem"),
            Self::Answered(i, n) => write!(f, "{i} was answered {n} times"),
            Self::OverCommitted(h, kind) => write!(f, "host {h} was given more {kind} than it offered"),
            Self::Ports(i, h) => write!(
                f,
                "{i} was given ports of {h} that it did not ask for or that are not free"
            ),
            Self::Constraint(i, h) => write!(f, "{i} may not run on {h}"),
            Self::RoomLeft(i, h) => write!(f, "{i} has no host, but {h} fits"),
            Self::Avoidable(i, h) => write!(f, "{i} is on a host to avoid, but {h} fits"),
            Self::Uneven(job, group, a, b) => {
                write!(f, "{job}.{group} has two more on {a} than on {b}, which fits")
            }
            Self::TooMany(i, h) => write!(f, "{i} is on {h} beside as many of its group as may be there"),
            Self::Far(i, h) => write!(f, "{i} is on {h}, far from what it has to be near to"),
            Self::Near(i, h) => write!(f, "{i} is on {h}, near to what it is kept away from"),
            Self::Shared(i, h) => write!(
                f,
                "{i} shares {h} with another job, and one of both wants it alone"
            ),
            Self::Lopsided(job, group, by) => write!(f, "{job}.{group} is not even by {by}"),
            Self::Unpreferred(i, h) => {
                write!(f, "{i} is on a host that is preferred less than {h}, which fits")
            }
            Self::Parted(job) => write!(f, "a part of the gang {job} has hosts, and another none"),
            Self::Scattered(job) => write!(f, "the gang {job} has to be together and is not"),
            Self::FalseReason(job, group) => write!(f, "the reason of {job}.{group} is not true"),
        }
    }
}
