//! Addresses of gateways: one or several, separated by commas.

use crate::Error;
use tonic::codegen::http::Uri;

/// Most addresses that one client knows.
const MOST: usize = 16;

/// Reads addresses such as `http://gw1:7070,http://gw2:7070`; the scheme may be left out.
pub(crate) fn read(text: &str) -> Result<Vec<Uri>, Error> {
    let all: Result<Vec<Uri>, Error> = text
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .map(one)
        .collect();
    let all = all?;
    if all.is_empty() || all.len() > MOST {
        return Err(Error::Address(text.to_owned()));
    }
    Ok(all)
}

fn one(text: &str) -> Result<Uri, Error> {
    let wrong = || Error::Address(text.to_owned());
    let rest = match text.split_once("://") {
        None => text,
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some((scheme, _)) => {
            return Err(Error::Scheme {
                address: text.to_owned(),
                scheme: scheme.to_owned(),
            });
        }
    };
    let uri: Uri = format!("http://{rest}").parse().map_err(|_| wrong())?;
    let is_bare = uri.path() == "/" && uri.query().is_none();
    // A port that is no number from 0 to 65535 is read as none.
    let has_port = uri.port_u16().is_some()
        || !rest
            .trim_end_matches('/')
            .rsplit(']')
            .next()
            .is_some_and(|r| r.contains(':'));
    if uri.host().is_none_or(str::is_empty) || !is_bare || !has_port {
        return Err(wrong());
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_anything_but_plain_http_is_refused() {
        let read = |text| read(text).map(|all| all.iter().map(Uri::to_string).collect::<Vec<_>>());
        assert_eq!(read("http://a:1").unwrap(), ["http://a:1/"]);
        assert_eq!(
            read("a:1, HTTP://b:2,[::1]:3").unwrap(),
            ["http://a:1/", "http://b:2/", "http://[::1]:3/"]
        );
        for secret in ["https://a:1", "ftp://a:1", "http://a:1,https://b:1"] {
            let told = read(secret).unwrap_err().to_string();
            assert!(told.contains("only http:// is supported"), "{told}");
        }
        for wrong in [
            "",
            ",",
            "http://",
            "a b",
            "http://a:1/x",
            "http://a:1?b",
            "http://a:99999",
        ] {
            assert!(matches!(read(wrong), Err(Error::Address(_))), "{wrong}");
        }
    }
}
