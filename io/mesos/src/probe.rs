//! Whether a master answers, without a subscription: what a standby can know of its way to Mesos.

use crate::config::{Config, Timing};
use crate::dial::Dial;
use crate::http::Channel;
use crate::leaders::Leaders;
use crate::master::Endpoint;
use crate::open::post;
use bytes::Bytes;
use std::sync::Arc;

const JSON: &str = "application/json";
const QUESTION: &[u8] = br#"{"type": "GET_HEALTH"}"#;

/// Asks masters for a sign of life.
pub struct Probe {
    dial: Arc<dyn Dial>,
    leaders: Leaders,
    timing: Timing,
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
            timing: config.timing,
            last: None,
        }
    }

    /// Asks once. Any answer of HTTP will do: the way is what is asked about, not the right to use it.
    ///
    /// # Errors
    /// No master answered; why.
    pub async fn ask(&mut self) -> Result<(), String> {
        let within = self.timing.connect;
        let choice = self.leaders.choose(self.last.as_ref(), within).await?;
        let mut faults = Vec::new();
        for endpoint in choice.endpoints {
            match self.ask_one(&endpoint).await {
                Ok(()) => {
                    self.last = Some(endpoint);
                    return Ok(());
                }
                Err(fault) => faults.push(format!("{endpoint}: {fault}")),
            }
        }
        Err(faults.join("; "))
    }

    async fn ask_one(&self, endpoint: &Endpoint) -> Result<(), String> {
        let within = self.timing.connect;
        let connecting = Channel::connect(self.dial.as_ref(), endpoint.authority(), within);
        let mut channel = connecting.await.map_err(|error| error.chain())?;
        let what = (endpoint.operator_path(), JSON);
        let question = post(endpoint, None, what, &[], Bytes::from_static(QUESTION));
        let answer = channel.send(question, within).await;
        answer.map(drop).map_err(|error| error.chain())
    }
}
