//! The typed client of Echelon's public API: generated services over one channel, with the rules that every caller
//! should follow: a request id on every create, retries only where repeating is safe, pages as streams, watches that
//! resume.
#![forbid(unsafe_code)]

mod error;
mod jobs;
mod notice;
mod pages;
mod retry;
mod token;

pub use echelon_proto::echelon::v1;
pub use error::{Error, FieldViolation};
pub use notice::{Aside, Notice};
pub use pages::{clusters, endpoints, events, hosts, instances, jobs, pools, volumes};
pub use token::{Credential, Wire};

use std::time::Duration;
use token::Token;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use v1::cluster_service_client::ClusterServiceClient;
use v1::control_service_client::ControlServiceClient;
use v1::event_service_client::EventServiceClient;
use v1::host_pool_service_client::HostPoolServiceClient;
use v1::host_service_client::HostServiceClient;
use v1::instance_service_client::InstanceServiceClient;
use v1::job_service_client::JobServiceClient;
use v1::pool_service_client::PoolServiceClient;
use v1::volume_service_client::VolumeServiceClient;

/// Largest answer taken: a page of 1,000 instances is about 1 MiB.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A client of one gateway address. Cloning is cheap; all clones share one connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    token: Option<Token>,
    deadline: Duration,
    notice: Option<Notice>,
}

impl Client {
    /// Connects to `http://host:port`. `deadline` bounds every call with its retries, streams excepted.
    ///
    /// # Errors
    /// `Error::Address` when the text is no address, `Error::Unreachable` when nobody answers there.
    pub async fn connect(address: &str, deadline: Duration) -> Result<Self, Error> {
        let with_scheme = if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let endpoint = Endpoint::from_shared(with_scheme)
            .map_err(|source| Error::Address {
                address: address.to_owned(),
                source,
            })?
            .connect_timeout(deadline)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10));
        let channel = endpoint.connect().await.map_err(|source| Error::Unreachable {
            address: address.to_owned(),
            source,
        })?;
        let notice = None;
        Ok(Self {
            channel,
            token: None,
            deadline,
            notice,
        })
    }

    /// The same, which does something with each answer that says something beside itself.
    #[must_use]
    pub fn with_notice(mut self, notice: Notice) -> Self {
        self.notice = Some(notice);
        self
    }

    /// The same, which shows a token with every call.
    ///
    /// # Errors
    /// `Error::Token` when the text can be none.
    pub fn with_token(mut self, token: &str) -> Result<Self, Error> {
        self.token = Some(Token::new(token)?);
        Ok(self)
    }

    fn wire(&self) -> Wire {
        InterceptedService::new(self.channel.clone(), Credential(self.token.clone()))
    }

    /// Jobs.
    #[must_use]
    pub fn job_service(&self) -> JobServiceClient<Wire> {
        JobServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Instances and their logs.
    #[must_use]
    pub fn instance_service(&self) -> InstanceServiceClient<Wire> {
        InstanceServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Pools.
    #[must_use]
    pub fn pool_service(&self) -> PoolServiceClient<Wire> {
        PoolServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Clusters.
    #[must_use]
    pub fn cluster_service(&self) -> ClusterServiceClient<Wire> {
        ClusterServiceClient::new(self.wire())
    }

    /// Hosts.
    #[must_use]
    pub fn host_service(&self) -> HostServiceClient<Wire> {
        HostServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Host pools.
    #[must_use]
    pub fn host_pool_service(&self) -> HostPoolServiceClient<Wire> {
        HostPoolServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Switches.
    #[must_use]
    pub fn control_service(&self) -> ControlServiceClient<Wire> {
        ControlServiceClient::new(self.wire())
    }

    /// Volumes.
    #[must_use]
    pub fn volume_service(&self) -> VolumeServiceClient<Wire> {
        VolumeServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Events.
    #[must_use]
    pub fn event_service(&self) -> EventServiceClient<Wire> {
        EventServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }
}
