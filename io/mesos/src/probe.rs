//! Whether the leading master answers, without a subscription. A standby learns by it whether it could lead,
//! and a leader whether its master hangs: Mesos' heartbeats alone take 75 s for that.

use crate::config::Config;
use crate::dial::Dial;
use crate::http::Channel;
use crate::leaders::Leaders;
use crate::master::Endpoint;
use crate::open::{header_text, post};
use bytes::Bytes;
use http::{Response, StatusCode, header};
use hyper::body::Incoming;
use std::sync::Arc;
use std::time::Duration;

const JSON: &str = "application/json";
const QUESTION: &[u8] = br#"{"type": "GET_HEALTH"}"#;

/// A master that has not answered after this long does not answer.
const WITHIN: Duration = Duration::from_secs(3);

/// What the masters of a cluster have answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasterAnswer {
    /// The leading master has answered.
    Leading,
    /// A master has answered, and the leading one has not.
    NotLeading,
}

/// Asks the masters of a cluster whether they are there.
pub struct Probe {
    dial: Arc<dyn Dial>,
    leaders: Leaders,
    /// The master that answered last.
    last: Option<Endpoint>,
}

impl Probe {
    /// One for the masters of a configuration; ZooKeeper is followed from here on.
    #[must_use]
    pub fn new(config: &Config, dial: Arc<dyn Dial>) -> Self {
        Self {
            dial,
            leaders: Leaders::of(&config.masters, config.seed),
            last: None,
        }
    }

    /// Asks once. The master that answered last is asked first.
    ///
    /// # Errors
    /// No master answered; why.
    pub async fn ask(&mut self) -> Result<MasterAnswer, String> {
        let choice = self.leaders.choose(self.last.take().as_ref(), WITHIN).await?;
        let mut faults = Vec::new();
        let mut best = None;
        for endpoint in choice.endpoints {
            let answer = self.ask_one(&endpoint).await;
            match answer {
                Ok(AskedMaster::Leading(endpoint)) => {
                    self.last = Some(endpoint);
                    return Ok(MasterAnswer::Leading);
                }
                Ok(AskedMaster::NotLeading) => best = Some(MasterAnswer::NotLeading),
                Err(fault) => faults.push(format!("{endpoint}: {fault}")),
            }
        }
        best.ok_or_else(|| faults.join("; "))
    }

    /// Asks a master, and the one that it names as the leading one.
    async fn ask_one(&self, endpoint: &Endpoint) -> Result<AskedMaster, String> {
        let answer = self.question(endpoint).await?;
        if !answer.status().is_redirection() {
            return Ok(AskedMaster::of(endpoint, answer.status()));
        }
        let location = header_text(answer.headers(), header::LOCATION.as_str());
        let Some(there) = endpoint.redirected(&location) else {
            return Ok(AskedMaster::NotLeading);
        };
        // This one can be reached, whatever the other does.
        let answer = self.question(&there).await;
        Ok(answer.map_or(AskedMaster::NotLeading, |answer| {
            AskedMaster::of(&there, answer.status())
        }))
    }

    async fn question(&self, endpoint: &Endpoint) -> Result<Response<Incoming>, String> {
        let connecting = Channel::connect(self.dial.as_ref(), endpoint.authority(), WITHIN);
        let mut channel = connecting.await.map_err(|error| error.chain())?;
        let what = (endpoint.operator_path(), JSON);
        let question = post(endpoint, None, what, &[], Bytes::from_static(QUESTION));
        channel
            .send(question, WITHIN)
            .await
            .map_err(|error| error.chain())
    }
}

/// What one master has answered.
enum AskedMaster {
    Leading(Endpoint),
    NotLeading,
}

impl AskedMaster {
    /// A master that does not lead redirects, or answers that it is not available. Every other answer is one
    /// of the leading master, a refusal for lack of permission too: the question is only whether it answers.
    fn of(endpoint: &Endpoint, status: StatusCode) -> Self {
        if status.is_redirection() || status == StatusCode::SERVICE_UNAVAILABLE {
            Self::NotLeading
        } else {
            Self::Leading(endpoint.clone())
        }
    }
}
