//! Where masters are, as configured, and where a standby's redirect leads (R17, R18).

use crate::zookeeper;
use http::Uri;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The scheduler API of any master (R1).
const PATH: &str = "/api/v1/scheduler";
/// The path of the operator API.
const OPERATOR_PATH: &str = "/api/v1";
const PORT: u16 = 5050;

/// One master's scheduler API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    authority: String,
    path: String,
}

/// The masters of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Masters {
    /// In the order in which they are tried.
    Listed(Vec<Endpoint>),
    /// The one that ZooKeeper names.
    ZooKeeper(zookeeper::Url),
}

/// Why a text does not name masters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MastersError {
    /// Nothing is named.
    #[error(
        "no Mesos master is named; write `host:port`, several with commas between them, or `zk://host:port/path`"
    )]
    Empty,
    /// Not a URL of ZooKeeper. It is not shown, since it may hold a password.
    #[error("the masters' ZooKeeper is not written as `zk://user:password@host1:port,host2:port/path`: {0}")]
    ZooKeeper(&'static str),
    /// Another scheme than http.
    #[error(
        "`{0}`: masters are reached by http or found by ZooKeeper; write `http://host:port`, `host:port` or `zk://host:port/path`"
    )]
    Scheme(String),
    /// Not an address.
    #[error("`{0}` is not the address of a Mesos master; write `host:port`")]
    Address(String),
}

impl FromStr for Masters {
    type Err = MastersError;

    /// Reads `host:port` or `http://host:port`, several with commas between them, or `zk://h1:port,h2:port/path`; the port is 5050,
    /// of ZooKeeper 2181, where none is given.
    fn from_str(text: &str) -> Result<Self, MastersError> {
        if text.trim_start().starts_with("zk://") {
            return text.trim().parse().map(Self::ZooKeeper);
        }
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        let all: Vec<Endpoint> = parts.map(one).collect::<Result<_, _>>()?;
        if all.is_empty() {
            Err(MastersError::Empty)
        } else {
            Ok(Self::Listed(all))
        }
    }
}

fn one(text: &str) -> Result<Endpoint, MastersError> {
    let rest = match text.split_once("://") {
        None => text,
        Some(("http", rest)) => rest,
        Some(_) => return Err(MastersError::Scheme(text.to_owned())),
    };
    let authority = rest.trim_end_matches('/');
    let wrong = || MastersError::Address(text.to_owned());
    let known: http::uri::Authority = authority.parse().map_err(|_| wrong())?;
    if known.host().is_empty() || authority.contains(['/', '@']) || bad_port(&known) {
        return Err(wrong());
    }
    Ok(Endpoint {
        authority: format!("{}:{}", known.host(), known.port_u16().unwrap_or(PORT)),
        path: PATH.to_owned(),
    })
}

fn bad_port(authority: &http::uri::Authority) -> bool {
    let after = authority
        .as_str()
        .get(authority.host().len()..)
        .unwrap_or_default();
    !after.is_empty() && authority.port_u16().is_none_or(|p| p == 0)
}

impl FromStr for Endpoint {
    type Err = MastersError;

    fn from_str(text: &str) -> Result<Self, MastersError> {
        one(text)
    }
}

impl Endpoint {
    /// The master on that port of a host, which may be an IPv6 address.
    pub(crate) fn at(host: &str, port: u32) -> Option<Self> {
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        one(&format!("{host}:{port}")).ok()
    }

    /// `host:port`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The path of the scheduler API there.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path of the operator API there.
    #[must_use]
    pub fn operator_path(&self) -> &str {
        self.path.strip_suffix("/scheduler").unwrap_or(OPERATOR_PATH)
    }

    /// Where a `Location` leads from here: `//host:port/path`, `http://host:port/path` or `/path`. `None` when it is none of
    /// these.
    pub(crate) fn redirected(&self, location: &str) -> Option<Self> {
        let full = match location {
            scheme_relative if scheme_relative.starts_with("//") => format!("http:{location}"),
            path if path.starts_with('/') => format!("http://{}{location}", self.authority),
            _ => location.to_owned(),
        };
        let uri: Uri = full.parse().ok()?;
        if uri.scheme_str() != Some("http") {
            return None;
        }
        let Endpoint { authority, .. } = one(uri.authority()?.as_str()).ok()?;
        let path = match uri.path() {
            "/" => PATH,
            path => path,
        };
        Some(Self {
            authority,
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

impl fmt::Display for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZooKeeper(url) => url.fmt(f),
            Self::Listed(all) => all
                .iter()
                .enumerate()
                .try_for_each(|(i, e)| write!(f, "{}{e}", if i == 0 { "" } else { "," })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_are_read_from_one_text() {
        for (text, read) in [
            ("m1:5050", "m1:5050"),
            ("m1", "m1:5050"),
            ("http://m1:80/", "m1:80"),
            ("m1:1, http://m2:2 ,[::1]:3,", "m1:1,m2:2,[::1]:3"),
            (" zk://me:pw@z1,z2:2182/mesos ", "zk://z1:2181,z2:2182/mesos"),
        ] {
            assert_eq!(text.parse::<Masters>().unwrap().to_string(), read, "{text}");
        }
    }

    #[test]
    fn what_names_no_master_is_refused_with_a_hint() {
        for (text, hint) in [
            ("", "no Mesos master is named"),
            (" , ", "no Mesos master is named"),
            ("zk://z1:2181,z2:2181", "ends with the path"),
            ("https://m1:5050", "reached by http or found by ZooKeeper"),
            ("m1:5050/path", "is not the address"),
            ("user@m1:5050", "is not the address"),
            ("m1:port", "is not the address"),
            ("m1:0", "is not the address"),
            ("m1:99999", "is not the address"),
            ("a b", "is not the address"),
        ] {
            let error = text.parse::<Masters>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn redirects_lead_where_they_say() {
        let here: Endpoint = "m1:5050".parse().unwrap();
        for (location, there) in [
            (
                "//127.0.0.1:40051/master/api/v1/scheduler",
                Some("127.0.0.1:40051/master/api/v1/scheduler"),
            ),
            ("http://m2:1/x", Some("m2:1/x")),
            ("//m2:1", Some("m2:1/api/v1/scheduler")),
            ("/elsewhere", Some("m1:5050/elsewhere")),
            ("https://m2:1/x", None),
            ("m2:1", None),
            ("//", None),
            ("", None),
        ] {
            let found = here
                .redirected(location)
                .map(|e| format!("{}{}", e.authority(), e.path()));
            assert_eq!(found.as_deref(), there, "{location}");
        }
    }
}
