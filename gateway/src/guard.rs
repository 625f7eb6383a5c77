//! Refuses what a web page elsewhere could make a browser send: a foreign `Host` (a name that was pointed at us) or a
//! foreign `Origin`, and changes whose content type needs no permission from us.

use http::{HeaderMap, Method, StatusCode, Version, header};
use std::net::IpAddr;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// For metrics.
    pub(crate) reason: &'static str,
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// For the caller: what is wrong and what to do.
    pub(crate) message: String,
}

fn refuse(reason: &'static str, status: StatusCode, message: String) -> Refusal {
    Refusal {
        reason,
        status,
        message,
    }
}

/// The name in `host:port`, `[::1]:port` or `host`.
fn name(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split_once(']').map_or(authority, |(ip, _)| ip);
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// A name that nobody else can point at us: `localhost`, an address, or one that the operator allowed.
fn is_ours(authority: &str, allowed: &[String]) -> bool {
    let name = name(authority);
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || allowed.iter().any(|a| a.eq_ignore_ascii_case(name))
}

fn text(headers: &HeaderMap, key: header::HeaderName) -> Option<&str> {
    headers.get(key).map(|v| v.to_str().unwrap_or("?"))
}

/// Checks where a request comes from. `authority` is the request target's, for HTTP/2.
pub(crate) fn check_origin(
    version: Version,
    authority: Option<&str>,
    headers: &HeaderMap,
    allowed: &[String],
) -> Result<(), Refusal> {
    let origin = text(headers, header::ORIGIN);
    // Browsers speak HTTP/2 only over TLS, which we do not: without an Origin this is no browser.
    if version >= Version::HTTP_2 && origin.is_none() {
        return Ok(());
    }
    let host = text(headers, header::HOST).or(authority).unwrap_or_default();
    if !is_ours(host, allowed) {
        return Err(refuse(
            "host",
            StatusCode::FORBIDDEN,
            format!(
                "this gateway is not called `{}`; ask for it by localhost or its address, or start it with --allow-host {}",
                name(host),
                name(host)
            ),
        ));
    }
    match origin {
        Some(origin) if origin.strip_prefix("http://") != Some(host) => Err(refuse(
            "origin",
            StatusCode::FORBIDDEN,
            format!("requests from the page of another site ({origin}) are refused"),
        )),
        _ => Ok(()),
    }
}

/// Checks that a change over HTTP says that it is JSON: a browser sends that across sites only after asking, and we never
/// permit it.
pub(crate) fn check_change(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Ok(());
    }
    let kind = text(headers, header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(refuse(
        "content_type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        format!(
            "changes need `content-type: application/json`, not `{kind}`; with curl: -H 'content-type: application/json'"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(k, v)| (header::HeaderName::from_static(k), v.parse().unwrap()))
            .collect()
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let allowed = ["gateway.example.org".to_owned()];
        let check = |host: &str, origin: Option<&str>| {
            let mut list = vec![("host", host)];
            list.extend(origin.map(|o| ("origin", o)));
            check_origin(Version::HTTP_11, None, &headers(&list), &allowed).map_err(|r| r.reason)
        };
        for (host, origin, expected) in [
            ("localhost:1", None, Ok(())),
            ("127.0.0.1:1", None, Ok(())),
            ("[::1]:1", None, Ok(())),
            ("10.1.2.3", None, Ok(())),
            ("gateway.example.org:80", None, Ok(())),
            ("evil.example.org:1", None, Err("host")),
            ("localhost.evil.example.org", None, Err("host")),
            ("", None, Err("host")),
            ("localhost:1", Some("http://localhost:1"), Ok(())),
            ("localhost:1", Some("http://localhost:2"), Err("origin")),
            ("localhost:1", Some("https://localhost:1"), Err("origin")),
            ("localhost:1", Some("http://evil.example.org"), Err("origin")),
            ("localhost:1", Some("null"), Err("origin")),
        ] {
            assert_eq!(check(host, origin), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn only_browsers_send_an_origin_over_http2() {
        let plain = check_origin(Version::HTTP_2, Some("gw:1"), &headers(&[]), &[]);
        assert_eq!(plain, Ok(()));
        let page = headers(&[("origin", "http://evil.example.org")]);
        assert!(check_origin(Version::HTTP_2, Some("localhost:1"), &page, &[]).is_err());
    }

    #[test]
    fn changes_must_be_json() {
        let json = headers(&[("content-type", "application/json; charset=utf-8")]);
        let form = headers(&[("content-type", "text/plain")]);
        assert!(check_change(&Method::POST, &json).is_ok());
        assert!(check_change(&Method::GET, &form).is_ok());
        for method in [Method::POST, Method::PATCH, Method::DELETE, Method::PUT] {
            assert!(check_change(&method, &form).is_err(), "{method}");
            assert!(check_change(&method, &headers(&[])).is_err(), "{method}");
        }
    }
}
