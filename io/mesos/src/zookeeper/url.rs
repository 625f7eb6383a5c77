//! `zk://user:password@h1:2181,h2:2181/mesos`, as Mesos writes it.

use crate::master::MastersError;
use std::fmt;
use std::str::FromStr;

/// ZooKeeper's port for clients.
const PORT: &str = "2181";

/// Where the servers are, and the node that masters contend in.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// `host:port`, with commas between them.
    pub(super) hosts: String,
    /// The group's node.
    pub(super) path: String,
    /// `user:password` of the digest scheme; never shown.
    pub(super) digest: Option<String>,
}

impl FromStr for Url {
    type Err = MastersError;

    fn from_str(text: &str) -> Result<Self, MastersError> {
        // Neither the text nor a part of it is repeated in an error: it may hold a password.
        let wrong = |why| MastersError::ZooKeeper(why);
        let rest = text
            .strip_prefix("zk://")
            .ok_or(wrong("it begins with `zk://`"))?;
        // A password may hold any sign but a host none of these, so the last `@` counts.
        let (digest, rest) = match rest.rsplit_once('@') {
            Some((digest, rest)) => (Some(digest.to_owned()), rest),
            None => (None, rest),
        };
        if digest
            .as_ref()
            .is_some_and(|d| !matches!(d.split_once(':'), Some((user, _)) if !user.is_empty()))
        {
            return Err(wrong("credentials are `user:password`, for the digest scheme"));
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = path.trim_end_matches('/');
        if path.is_empty() || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Err(wrong(
                "it ends with the path that the masters were given, as `/mesos`",
            ));
        }
        let hosts: Vec<String> = hosts
            .split(',')
            .map(str::trim)
            .map(with_port)
            .collect::<Option<_>>()
            .ok_or(wrong(
                "it names servers as `host` or `host:port`, several with commas between them",
            ))?;
        Ok(Self {
            hosts: hosts.join(","),
            path: format!("/{path}"),
            digest,
        })
    }
}

/// `host:port`; none when it is no address.
fn with_port(host: &str) -> Option<String> {
    let named = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    // An IPv6 address has its colons within brackets.
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, PORT),
    };
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    named(name).then(|| format!("{name}:{port}"))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zk://{}{}", self.hosts, self.path)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = if self.digest.is_some() {
            " with credentials"
        } else {
            ""
        };
        write!(f, "Url({self}{secret})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_mesos_reads_it() {
        for (text, shown, digest) in [
            ("zk://z1:2181/mesos", "zk://z1:2181/mesos", None),
            ("zk://z1,z2:99, z3/a/b/", "zk://z1:2181,z2:99,z3:2181/a/b", None),
            ("zk://[::1]/m", "zk://[::1]:2181/m", None),
            ("zk://[::1]:5/m", "zk://[::1]:5/m", None),
            ("zk://me:s3c/r@t@z1:1/m", "zk://z1:1/m", Some("me:s3c/r@t")),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!(
                (url.to_string().as_str(), url.digest.as_deref()),
                (shown, digest),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_a_hint_and_without_its_password() {
        for (text, hint) in [
            ("zk://z1:2181", "ends with the path"),
            ("zk://z1:2181/", "ends with the path"),
            ("zk://z1:2181/a//b", "ends with the path"),
            ("zk://z1:2181/../b", "ends with the path"),
            ("zk:///mesos", "names servers"),
            ("zk://z1,,z2/mesos", "names servers"),
            ("zk://z1:port/mesos", "names servers"),
            ("zk://z1:0/mesos", "names servers"),
            ("zk://s3cret@z1/mesos", "user:password"),
            ("zk://:s3cret@z1/mesos", "user:password"),
            ("zk://me:s3cret@/mesos", "names servers"),
        ] {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(
                error.contains(hint) && !error.contains("s3cret"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url: Url = "zk://me:s3cret@z1/mesos".parse().unwrap();
        assert_eq!(
            format!("{url:?} {url}"),
            "Url(zk://z1:2181/mesos with credentials) zk://z1:2181/mesos"
        );
    }
}
