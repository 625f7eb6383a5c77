//! The typed client of Echelon's public API: generated services over one channel, with the rules that every caller
//! should follow: a request id on every create, retries only where repeating is safe, pages as streams, watches that
//! resume.
#![forbid(unsafe_code)]

mod address;
mod error;
mod gateways;
mod jobs;
mod notice;
mod pages;
mod retry;
mod token;

pub use echelon_proto::echelon::v1;
pub use error::{Error, FieldViolation};
pub use notice::{Aside, Notice};
pub use pages::{Found, clusters, endpoints, events, host_runs, hosts, instances, jobs, pools, volumes};
pub use token::{Credential, Wire};

use gateways::Gateways;
use std::time::Duration;
use token::Token;
use tonic::service::interceptor::InterceptedService;
use v1::cluster_service_client::ClusterServiceClient;
use v1::control_service_client::ControlServiceClient;
use v1::event_service_client::EventServiceClient;
use v1::host_pool_service_client::HostPoolServiceClient;
use v1::host_service_client::HostServiceClient;
use v1::instance_service_client::InstanceServiceClient;
use v1::job_service_client::JobServiceClient;
use v1::pool_service_client::PoolServiceClient;
use v1::status_service_client::StatusServiceClient;
use v1::volume_service_client::VolumeServiceClient;

/// Largest answer taken: a page of 1,000 instances is about 1 MiB.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// The same of jobs, whose labels and progress may be large: a page of 1,000.
const MAX_JOBS: usize = 128 * 1024 * 1024;
/// The same of pools: a whole tree of 10,000 with the longest paths, before and after a change.
const MAX_TREE: usize = 128 * 1024 * 1024;

/// A client of one gateway, or of several equal ones. Cloning is cheap: all clones share the connections.
#[derive(Debug, Clone)]
pub struct Client {
    gateways: Gateways,
    token: Option<Token>,
    deadline: Duration,
    notice: Option<Notice>,
}

impl Client {
    /// Connects to `http://host:port`. Of several, separated by commas, it takes the first that answers.
    /// `deadline` bounds every call with its retries, streams excepted.
    ///
    /// # Errors
    /// `Error::Address` and `Error::Scheme` when the text is no address, `Error::Unreachable` when none answers.
    pub async fn connect(addresses: &str, deadline: Duration) -> Result<Self, Error> {
        Ok(Self {
            gateways: Gateways::connect(addresses, deadline).await?,
            token: None,
            deadline,
            notice: None,
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
        let credential = Credential {
            token: self.token.clone(),
            deadline: self.deadline,
        };
        InterceptedService::new(self.gateways.channel(), credential)
    }

    /// Jobs.
    #[must_use]
    pub fn job_service(&self) -> JobServiceClient<Wire> {
        JobServiceClient::new(self.wire()).max_decoding_message_size(MAX_JOBS)
    }

    /// Instances and their logs.
    #[must_use]
    pub fn instance_service(&self) -> InstanceServiceClient<Wire> {
        InstanceServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Pools.
    #[must_use]
    pub fn pool_service(&self) -> PoolServiceClient<Wire> {
        PoolServiceClient::new(self.wire()).max_decoding_message_size(MAX_TREE)
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

    /// The whole federation on one page.
    #[must_use]
    pub fn status_service(&self) -> StatusServiceClient<Wire> {
        StatusServiceClient::new(self.wire()).max_decoding_message_size(MAX_ANSWER)
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
