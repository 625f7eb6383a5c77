//! Who leads, how new what it stored is, and where it forbids starts.

use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::start_ban::{StartBan, StartBans};
use echelon_core_model::store::{Leadership, Mark, Stamp};
use echelon_core_model::{ClusterId, Epoch, Timestamp, Version};
use std::collections::BTreeMap;

impl Wire for Leadership {
    type Message = wire::Leadership;

    fn to_wire(&self) -> Self::Message {
        let Self {
            epoch,
            holder,
            proof,
            resumed,
        } = self;
        wire::Leadership {
            epoch: epoch.0,
            holder: holder.clone(),
            proof: *proof,
            resumed: resumed.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Leadership {
            epoch,
            holder,
            proof,
            resumed,
        } = message;
        Ok(Self {
            epoch: Epoch(epoch),
            holder,
            proof,
            resumed: Epoch(resumed),
        })
    }
}

impl Wire for Mark {
    type Message = wire::Mark;

    fn to_wire(&self) -> Self::Message {
        let Self {
            stamp,
            control,
            at,
            settled,
        } = self;
        wire::Mark {
            epoch: stamp.epoch.0,
            sequence: stamp.sequence,
            control: control.0,
            at_ms: at.0,
            settled: settled.0,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Mark {
            epoch,
            sequence,
            control,
            at_ms,
            settled,
        } = message;
        Ok(Self {
            stamp: Stamp {
                epoch: Epoch(epoch),
                sequence,
            },
            control: Version(control),
            at: Timestamp(at_ms),
            settled: Epoch(settled),
        })
    }
}

impl Wire for StartBans {
    type Message = wire::StartBans;

    fn to_wire(&self) -> Self::Message {
        let Self { stamp, clusters } = self;
        let bans = clusters.iter().map(|(cluster, ban)| {
            let StartBan { number, silence } = *ban;
            wire::StartBan {
                cluster: cluster.to_string(),
                number,
                silence,
            }
        });
        wire::StartBans {
            epoch: stamp.epoch.0,
            sequence: stamp.sequence,
            bans: bans.collect(),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::StartBans {
            epoch,
            sequence,
            bans,
        } = message;
        if bans.len() > Self::MOST {
            let problem = FieldProblem::OutOfRange {
                number: i128::try_from(bans.len()).unwrap_or(i128::MAX),
                first: 0,
                last: Self::MOST as i128,
            };
            return Err(FieldError::new("bans", problem));
        }
        let mut clusters = BTreeMap::new();
        for ban in bans {
            let wire::StartBan {
                cluster,
                number,
                silence,
            } = ban;
            let id = ClusterId::new(cluster);
            if clusters
                .insert(id.clone(), StartBan { number, silence })
                .is_some()
            {
                return Err(FieldError::new("bans", FieldProblem::Repeated(id.to_string())));
            }
        }
        Ok(Self {
            stamp: Stamp {
                epoch: Epoch(epoch),
                sequence,
            },
            clusters,
        })
    }
}
