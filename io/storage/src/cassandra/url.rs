//! Where a keyspace is: `cassandra://[USER:PASSWORD@]HOST[:PORT],.../KEYSPACE[?replication=N]`.

use crate::StoreError;
use std::fmt;

const PORT: u16 = 9042;
/// Copies of each row when the URL does not say: one node may fail.
const REPLICATION: u8 = 3;

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Contact points, `host:port`.
    pub nodes: Vec<String>,
    pub keyspace: String,
    /// Copies of each row in each data centre; counts only when the keyspace is made.
    pub replication: u8,
    pub login: Option<(String, String)>,
}

impl Place {
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let wrong = |problem: String| StoreError::Url {
            // A password must not end in a log.
            url: url
                .rsplit_once('@')
                .map_or_else(|| url.to_owned(), |(_, rest)| format!("cassandra://...@{rest}")),
            problem,
        };
        let rest = url.strip_prefix("cassandra://").unwrap_or(url);
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, keyspace) = rest
            .rsplit_once('/')
            .ok_or_else(|| wrong("has no keyspace".to_owned()))?;
        let (login, hosts) = match hosts.rsplit_once('@') {
            Some((login, hosts)) => {
                let (user, password) = login
                    .split_once(':')
                    .ok_or_else(|| wrong("has a user without a password".to_owned()))?;
                (Some((user.to_owned(), password.to_owned())), hosts)
            }
            None => (None, hosts),
        };
        let nodes: Option<Vec<String>> = hosts.split(',').map(node).collect();
        let good_name = (1..=48).contains(&keyspace.len())
            && keyspace.starts_with(|c: char| c.is_ascii_lowercase())
            && keyspace
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if !good_name {
            return Err(wrong(
                "has a keyspace that is not 1 to 48 characters of a-z, 0-9 and _, beginning with a letter"
                    .to_owned(),
            ));
        }
        Ok(Self {
            nodes: nodes.ok_or_else(|| wrong("has an empty host or a port that is no number".to_owned()))?,
            keyspace: keyspace.to_owned(),
            replication: replication(options).map_err(wrong)?,
            login,
        })
    }
}

fn node(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address stands in brackets.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, PORT),
    };
    (!host.is_empty()).then(|| format!("{host}:{port}"))
}

fn replication(options: &str) -> Result<u8, String> {
    let mut copies = REPLICATION;
    for option in options.split('&').filter(|o| !o.is_empty()) {
        copies = match option.split_once('=') {
            Some(("replication", n)) => n
                .parse()
                .ok()
                .filter(|n| (1..=9).contains(n))
                .ok_or_else(|| format!("has the replication `{n}`, which is not 1 to 9"))?,
            _ => return Err(format!("has an option `{option}` that is not known")),
        };
    }
    Ok(copies)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cassandra://{}/{}", self.nodes.join(","), self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        for (url, shown, replication, user) in [
            ("cassandra://h/k", "cassandra://h:9042/k", 3, None),
            (
                "cassandra://h:1,i/k_1?replication=1",
                "cassandra://h:1,i:9042/k_1",
                1,
                None,
            ),
            (
                "cassandra://[::1]:7,[::2]/k",
                "cassandra://[::1]:7,[::2]:9042/k",
                3,
                None,
            ),
            ("cassandra://u:p@h/k", "cassandra://h:9042/k", 3, Some("u")),
        ] {
            let place = Place::parse(url).unwrap();
            assert_eq!(
                (place.to_string().as_str(), place.replication),
                (shown, replication)
            );
            assert_eq!(place.login.as_ref().map(|(user, _)| user.as_str()), user);
        }
    }

    #[test]
    fn a_wrong_url_does_not_tell_the_password() {
        let error = Place::parse("cassandra://u:secret@h/k?x=1")
            .unwrap_err()
            .to_string();
        assert!(!error.contains("secret") && error.contains("x=1"), "{error}");
    }
}
