//! What gateways ask about the work of a cluster.

use crate::convert::fields::{WireEnum as _, cluster, word};
use crate::convert::{FieldError, Wire};
use crate::echelon::shard::v1 as wire;
use echelon_core_model::cluster::ClusterQuestion;

impl Wire for ClusterQuestion {
    type Message = wire::DescribeClusterWorkRequest;

    fn to_wire(&self) -> Self::Message {
        wire::DescribeClusterWorkRequest {
            cluster: self.cluster.to_string(),
            name: self.name.clone(),
            desired_state: self.desired.number(),
            labels: self.labels.clone(),
            lost: self.is_lost,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::DescribeClusterWorkRequest {
            cluster: id,
            name,
            desired_state,
            labels,
            lost,
        } = message;
        Ok(Self {
            cluster: cluster("cluster", &id)?,
            name,
            desired: word("desired_state", desired_state)?,
            labels,
            is_lost: lost,
        })
    }
}
