//! The gateways that a client knows: it calls one, and goes to the next when the connection to it fails.

use crate::{Error, address};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

/// Longest wait for one connection where there is another gateway.
const CONNECT: Duration = Duration::from_secs(3);

/// Gateways and the one that is called now; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Gateways(Arc<All>);

#[derive(Debug)]
struct All {
    addresses: String,
    first: Channel,
    others: Vec<Channel>,
    now: AtomicUsize,
}

impl Gateways {
    /// Reads addresses and connects to the first that answers.
    pub(crate) async fn connect(addresses: &str, deadline: Duration) -> Result<Self, Error> {
        let uris = address::read(addresses)?;
        let wait = if uris.len() == 1 {
            deadline
        } else {
            deadline.min(CONNECT)
        };
        let endpoints: Vec<Endpoint> = uris
            .into_iter()
            .map(|uri| {
                Endpoint::from(uri)
                    .connect_timeout(wait)
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(Duration::from_secs(10))
                    .keep_alive_timeout(Duration::from_secs(10))
            })
            .collect();
        let mut last = None;
        for (n, endpoint) in endpoints.iter().enumerate() {
            match timeout(wait, endpoint.connect()).await {
                Ok(Ok(first)) => {
                    // The others follow in the given order. They are connected to when needed.
                    let (before, after) = endpoints.split_at(n);
                    let others = after.iter().skip(1).chain(before);
                    return Ok(Self(Arc::new(All {
                        addresses: addresses.to_owned(),
                        first,
                        others: others.map(Endpoint::connect_lazy).collect(),
                        now: AtomicUsize::new(0),
                    })));
                }
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
        }
        Err(Error::Unreachable {
            address: addresses.to_owned(),
            source: last,
        })
    }

    /// What was given.
    pub(crate) fn addresses(&self) -> &str {
        &self.0.addresses
    }

    /// Which gateway is called now.
    pub(crate) fn now(&self) -> usize {
        self.0.now.load(Ordering::Relaxed)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.others.len() + 1
    }

    /// The connection to the gateway that is called now.
    pub(crate) fn channel(&self) -> Channel {
        let other = self.now().checked_sub(1).and_then(|n| self.0.others.get(n));
        other.unwrap_or(&self.0.first).clone()
    }

    /// Goes from this gateway to the next, unless another call has done so already.
    pub(crate) fn leave(&self, this: usize) {
        let next = (this + 1) % self.count();
        let _ = self
            .0
            .now
            .compare_exchange(this, next, Ordering::Relaxed, Ordering::Relaxed);
    }
}
