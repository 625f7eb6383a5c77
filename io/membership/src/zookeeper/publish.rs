//! How a leader publishes: record and epoch in one transaction that also proves that its place in the queue exists. What it
//! tells of durable writes later goes into the epoch's node in the same way.

use super::paths::{Paths, PublishedEpoch, decode, encode};
use super::session::{Servers, ephemeral, persistent, unreachable};
use crate::{LeaderRecord, MembershipError, Term};
use echelon_core_model::store::Stamp;
use zookeeper_client::{Client, Error, MultiWriteError};

/// Another writer may come between reading and writing; a leader's only rival is a late transaction of a dead one.
const ATTEMPTS: u32 = 5;

/// What ZooKeeper takes for whichever version there is.
const ANY_VERSION: i32 = -1;

/// A place in the queue that leads.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) term: Term,
}

/// How one transaction ended.
enum Outcome {
    Done,
    /// A node was not as it had been read.
    Overtaken,
}

pub(super) async fn publish(
    servers: &Servers,
    paths: &Paths,
    place: &Place,
    record: &LeaderRecord,
) -> Result<(), MembershipError> {
    for _ in 0..ATTEMPTS {
        if let Outcome::Done = attempt(servers, paths, place, record).await? {
            return Ok(());
        }
    }
    Err(unreachable(
        "publish the leader, since another keeps writing",
        Error::BadVersion,
    ))
}

/// Notes that a write of the published epoch is durable.
pub(super) async fn mark(
    servers: &Servers,
    paths: &Paths,
    place: &Place,
    stamp: Stamp,
) -> Result<(), MembershipError> {
    let what = "tell the newest durable write";
    let (client, path) = (&place.client, paths.epoch());
    let not_leader = || MembershipError::NotLeader {
        role: paths.role.clone(),
    };
    let known = servers.found(what, client.get_data(&path)).await?;
    let Some((data, stat)) = known else {
        return Err(not_leader());
    };
    let published: PublishedEpoch = decode(&path, &data)?;
    if (published.epoch, published.term) != (stamp.epoch, place.term.0) {
        return Err(not_leader());
    }
    let told = encode(&PublishedEpoch {
        sequence: stamp.sequence.max(published.sequence),
        ..published
    });
    let mut write = client.new_multi_writer();
    let filled: Result<(), Error> = (|| {
        write.add_check_version(&place.path, ANY_VERSION)?;
        write.add_set_data(&path, &told, Some(stat.version))
    })();
    filled.map_err(|error| unreachable(what, error))?;
    match tokio::time::timeout(servers.timeouts.session(), write.commit()).await {
        Ok(Ok(_)) => Ok(()),
        // Another leads, or has written meanwhile.
        Ok(Err(MultiWriteError::OperationFailed { .. })) => Err(not_leader()),
        Ok(Err(error)) => Err(unreachable(what, error)),
        Err(elapsed) => Err(unreachable(what, elapsed)),
    }
}

async fn attempt(
    servers: &Servers,
    paths: &Paths,
    place: &Place,
    record: &LeaderRecord,
) -> Result<Outcome, MembershipError> {
    let what = "publish the leader";
    let client = &place.client;
    let (epoch_path, leader_path) = (paths.epoch(), paths.leader());
    let known = servers.found(what, client.get_data(&epoch_path)).await?;
    let mut sequence = 0;
    if let Some((data, _)) = &known {
        let published: PublishedEpoch = decode(&epoch_path, data)?;
        if published.epoch == record.epoch {
            sequence = published.sequence;
        }
        if !published.allows(record.epoch, place.term) {
            let (role, offered) = (paths.role.clone(), record.epoch);
            return Err(MembershipError::EpochBehind {
                role,
                published: published.epoch,
                offered,
            });
        }
    }
    let leader = servers.answered(what, client.check_stat(&leader_path)).await?;
    let (epoch, record) = (
        encode(&PublishedEpoch {
            epoch: record.epoch,
            term: place.term.0,
            sequence,
        }),
        encode(record),
    );

    let mut write = client.new_multi_writer();
    let filled: Result<(), Error> = (|| {
        // Its content may have changed: that it exists is the proof.
        write.add_check_version(&place.path, ANY_VERSION)?;
        match &known {
            None => write.add_create(&epoch_path, &epoch, &persistent())?,
            Some((_, stat)) => write.add_set_data(&epoch_path, &epoch, Some(stat.version))?,
        }
        if let Some(stat) = leader {
            write.add_delete(&leader_path, Some(stat.version))?;
        }
        write.add_create(&leader_path, &record, &ephemeral())
    })();
    filled.map_err(|error| unreachable(what, error))?;
    match tokio::time::timeout(servers.timeouts.session(), write.commit()).await {
        Ok(Ok(_)) => Ok(Outcome::Done),
        Ok(Err(MultiWriteError::OperationFailed { index: 0, .. })) => Err(MembershipError::NotLeader {
            role: paths.role.clone(),
        }),
        Ok(Err(MultiWriteError::OperationFailed { .. })) => Ok(Outcome::Overtaken),
        Ok(Err(error)) => Err(unreachable(what, error)),
        Err(elapsed) => Err(unreachable(what, elapsed)),
    }
}
