//! A storage by its URL.

use crate::{CassandraStore, FileStore, MemoryStore, Store, StoreError};
use std::path::PathBuf;
use std::sync::Arc;

/// Opens `memory:`, `file:PATH` or `cassandra://HOST[:PORT],.../KEYSPACE?replication=N`, of whatever level. The first two are
/// set up by that where they are empty; a Cassandra keyspace is made and set up by `Store::migrate` alone.
///
/// # Errors
/// The URL names no storage, or the storage cannot be opened.
pub async fn open(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let wrong = |problem: &str| StoreError::Url {
        url: without_login(url),
        problem: problem.to_owned(),
    };
    if url == "memory:" {
        return Ok(Arc::new(MemoryStore::new()));
    }
    if let Some(path) = path_of(url)? {
        let opening = tokio::task::spawn_blocking(move || FileStore::open(&path));
        let opened = opening
            .await
            .map_err(|e| StoreError::undone("opening the file", e))?;
        return Ok(Arc::new(opened?));
    }
    if url.starts_with("cassandra://") {
        return Ok(Arc::new(CassandraStore::connect(url).await?));
    }
    Err(wrong("has a scheme that is not known"))
}

/// A storage's URL as it may be shown: user and password are left out.
#[must_use]
pub fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    match rest.rsplit_once('@') {
        Some((_, places)) => format!("{scheme}://...@{places}"),
        None => url.to_owned(),
    }
}

/// Opens the file of a `file:PATH` whatever its card says, and makes its card belong to it: an operator
/// says that it is the storage to go on with.
///
/// # Errors
/// The URL names no file, or the file cannot be opened or is damaged.
pub async fn accept(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let Some(path) = path_of(url)? else {
        return Err(StoreError::Url {
            url: url.to_owned(),
            problem: "has no card; only a file has one".to_owned(),
        });
    };
    let opening = tokio::task::spawn_blocking(move || FileStore::accept(&path));
    let opened = opening
        .await
        .map_err(|e| StoreError::undone("opening the file", e))?;
    Ok(Arc::new(opened?))
}

/// Whether a URL names a file that was never written to since it was made.
#[must_use]
pub fn is_new(url: &str) -> bool {
    matches!(path_of(url), Ok(Some(path)) if FileStore::is_new(&path))
}

/// The path of a `file:PATH`; `None` of another URL.
fn path_of(url: &str) -> Result<Option<PathBuf>, StoreError> {
    let Some(path) = url.strip_prefix("file:") else {
        return Ok(None);
    };
    if path.is_empty() || path.starts_with("//") {
        return Err(StoreError::Url {
            url: url.to_owned(),
            problem: "has no path after `file:`".to_owned(),
        });
    }
    Ok(Some(PathBuf::from(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_never_shown() {
        for (url, shown) in [
            (
                "cassandra://me:pa@ss/w@h:1,i/k?replication=3",
                "cassandra://...@h:1,i/k?replication=3",
            ),
            ("cassandra://h/k", "cassandra://h/k"),
            ("file:/a/b@c", "file:/a/b@c"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(without_login(url), shown);
        }
        let error = open("kassandra://me:secret@h/k").await.err().unwrap();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn what_names_no_storage_is_told() {
        for url in [
            "",
            "memory",
            "memory:x",
            "file:",
            "file://host/x",
            "redis://x",
            "cassandra://",
            "cassandra://h",
            "cassandra://h/",
            "cassandra://h/k?replication=x",
            "cassandra://h/k?replication=0",
            "cassandra://h:x/k",
            "cassandra:///k",
            "cassandra://h/k-1",
            "cassandra://h/k?x=1",
        ] {
            let error = open(url).await.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains("expected memory:"), "{url}: {error}");
        }
    }
}
