//! What the gateway must be told.

use echelon_io_process::listener::ConnectionLimits;
use std::net::SocketAddr;
use std::time::Duration;

/// Requests in hand at once: more than storage answers side by side only wait in another place.
pub const MOST_REQUESTS: usize = 512;
/// How often watched jobs are read while the leader of a role is not heard.
pub const WATCH_ROUND: Duration = Duration::from_secs(10);
/// The time of a request that says none.
pub const REQUEST_TIME: Duration = Duration::from_secs(15);

/// What the gateway must be told.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Names under which browsers and HTTP clients may ask for it, beside `localhost` and addresses.
    pub allowed_hosts: Vec<String>,
    /// Where others reach it: `http://host:port`; the listening address when it is left out.
    pub advertise: Option<String>,
    /// How often watched jobs are read while the leader of a role is not heard.
    pub watch_round: Duration,
    /// How long it serves on after it was told to end and is not ready any more.
    pub drain: Duration,
    /// Requests that are in hand at once, streams after their first answer excepted; further ones are refused.
    pub most_requests: usize,
    /// The time of a request that says none.
    pub request_time: Duration,
    /// What its port bears.
    pub connections: ConnectionLimits,
    /// Shown on the pages.
    pub version: String,
}

impl Config {
    /// On loopback, at this port.
    #[must_use]
    pub fn loopback(port: u16, version: &str) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], port)),
            allowed_hosts: Vec::new(),
            advertise: None,
            watch_round: WATCH_ROUND,
            drain: Duration::ZERO,
            most_requests: MOST_REQUESTS,
            request_time: REQUEST_TIME,
            connections: ConnectionLimits::of_process(),
            version: version.to_owned(),
        }
    }
}
