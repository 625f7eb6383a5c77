//! Options: a flag, else the configuration file, else a default. Each role has one struct that is both the flags and the
//! file; what every process has stands in the file's section `[process]`.

use anyhow::Result;
use clap::Args;
use echelon_io_process::config::{self, Common};
use serde::de::DeserializeOwned;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use thiserror::Error;

/// An option that is missing, or cannot be.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct WrongOption(pub String);

/// What a role is told.
pub trait Options: Args + DeserializeOwned + Default {
    /// These, and where they are silent the file's.
    #[must_use]
    fn over(self, file: Self) -> Self;

    /// What every process has; never given as a flag of this struct.
    fn process(&mut self) -> &mut Common;
}

/// A role's flags with those of every process.
#[derive(Debug, Args)]
pub struct Configured<O: Args> {
    /// Configuration file (TOML); flags win over it
    #[arg(long, value_name = "FILE", env = "ECHELON_CONFIG")]
    config: Option<PathBuf>,
    /// Address to serve on; a port of 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Which log lines are written: `info`, or `info,echelon_shard=debug`
    #[arg(long, value_name = "FILTER", env = "ECHELON_LOG")]
    log: Option<String>,
    #[command(flatten)]
    options: O,
}

impl<O: Options> Configured<O> {
    /// The options that hold.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn resolve(self) -> Result<O> {
        let file = match &self.config {
            Some(path) => config::load(path)?,
            None => O::default(),
        };
        let mut file = file;
        let mut common = std::mem::take(file.process());
        if let Some(listen) = self.listen {
            common.listen = listen;
        }
        if let Some(log) = self.log {
            common.log = log;
        }
        let mut options = self.options.over(file);
        *options.process() = common;
        Ok(options)
    }
}

/// An option that must be there.
///
/// # Errors
/// It is not; the error says how to give it.
pub fn required<T>(value: Option<T>, name: &str, example: &str) -> Result<T, WrongOption> {
    value.ok_or_else(|| {
        WrongOption(format!(
            "`--{name}` is missing: give it as a flag, or write `{} = \"{example}\"` in the configuration file",
            name.replace('-', "_")
        ))
    })
}

/// Checks that others can reach a process at the address that it gives them.
///
/// # Errors
/// They cannot; the error names both fields.
pub fn reachable(listen: SocketAddr, advertise: Option<&str>) -> Result<(), WrongOption> {
    let Some(advertise) = advertise else {
        if listen.ip().is_unspecified() {
            return Err(WrongOption(format!(
                "`[process] listen` is {listen}, which names no machine: set `advertise` to the host:port by which others \
                 reach this process"
            )));
        }
        return Ok(());
    };
    let Some(host) = host_of(advertise) else {
        return Err(WrongOption(format!(
            "`advertise` is `{advertise}`: it must be host:port, such as `echelon-1:{}`",
            listen.port()
        )));
    };
    let stays_here = match host.parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        Err(_) => host == "localhost",
    };
    if listen.ip().is_loopback() && !stays_here {
        return Err(WrongOption(format!(
            "`[process] listen` is {listen}, which only this machine reaches, but `advertise` is `{advertise}`: let it listen on \
             an address of this machine in that network, or on 0.0.0.0:{} for all of them",
            listen.port()
        )));
    }
    Ok(())
}

/// The names by which a gateway may be asked: those of its configuration, and the one that it gives to others.
#[must_use]
pub fn names(allowed: Option<Vec<String>>, advertise: Option<&str>) -> Vec<String> {
    let own = advertise.and_then(host_of).map(str::to_owned);
    allowed.into_iter().flatten().chain(own).collect()
}

/// The host of `host:port`; an IPv6 address stands in brackets.
fn host_of(text: &str) -> Option<&str> {
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|port| *port != 0)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = bare.unwrap_or(host);
    let is_plain = !host.is_empty() && !host.contains(['/', '@', '[', ']']);
    let is_one = bare.is_some() || !host.contains(':');
    (is_plain && is_one).then_some(host)
}

/// The storage that is meant.
///
/// # Errors
/// None is named.
pub fn storage(url: Option<String>) -> Result<String, WrongOption> {
    required(url, "storage", "cassandra://host:9042/echelon?replication=3")
}

/// The membership that is meant.
///
/// # Errors
/// None is named.
pub fn membership(url: Option<String>) -> Result<String, WrongOption> {
    required(url, "membership", "zookeeper://host:2181/echelon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_others_cannot_reach_names_both_fields() {
        for (listen, advertise, good) in [
            ("127.0.0.1:7070", None, true),
            ("127.0.0.1:7070", Some("localhost:7070"), true),
            ("127.0.0.1:7070", Some("127.0.0.9:7070"), true),
            ("[::1]:7070", Some("[::1]:7070"), true),
            ("0.0.0.0:7070", Some("echelon-1:7070"), true),
            ("10.0.0.1:7070", None, true),
            ("10.0.0.1:7070", Some("echelon-1:7070"), true),
            ("127.0.0.1:7070", Some("echelon-1:7070"), false),
            ("127.0.0.1:7070", Some("10.0.0.1:7070"), false),
            ("[::1]:7070", Some("echelon-1:7070"), false),
            ("0.0.0.0:7070", None, false),
            ("[::]:7070", None, false),
        ] {
            let checked = reachable(listen.parse().unwrap(), advertise);
            assert_eq!(checked.is_ok(), good, "{listen} {advertise:?}");
            if let Err(WrongOption(why)) = checked {
                assert!(
                    why.contains("`[process] listen`") && why.contains("`advertise`"),
                    "{why}"
                );
            }
        }
    }

    #[test]
    fn a_gateway_may_be_asked_by_the_name_that_it_gives_to_others() {
        let allowed = Some(vec!["echelon.example.org".to_owned()]);
        assert_eq!(
            names(allowed, Some("node-1:7070")),
            ["echelon.example.org", "node-1"]
        );
        assert_eq!(names(None, None), [""; 0]);
    }

    #[test]
    fn what_is_no_host_and_port_is_refused() {
        let listen = SocketAddr::from(([0, 0, 0, 0], 7070));
        for bad in [
            "echelon-1",
            "http://echelon-1:7070",
            "echelon-1:0",
            ":7070",
            "::1:7070",
            "a:b:1",
        ] {
            let why = reachable(listen, Some(bad)).unwrap_err().0;
            assert!(why.contains("it must be host:port"), "{bad}: {why}");
        }
    }
}
