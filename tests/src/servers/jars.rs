//! The servers' jars: Maven artifacts, fetched once into the cache.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cache;

/// A server that comes as Maven artifacts; its pom is `tests/servers/NAME/pom.xml`.
pub(super) struct Artifact {
    name: &'static str,
    version: &'static str,
    pom: &'static str,
}

pub(super) const CASSANDRA: Artifact = Artifact {
    name: "cassandra",
    version: "5.0.9",
    pom: include_str!("../../servers/cassandra/pom.xml"),
};
pub(super) const ZOOKEEPER: Artifact = Artifact {
    name: "zookeeper",
    version: "3.9.5",
    pom: include_str!("../../servers/zookeeper/pom.xml"),
};

/// Fetches the jars of every server that are not in the cache yet.
///
/// # Errors
/// Maven is missing or cannot fetch.
pub fn fetch_all() -> Result<()> {
    CASSANDRA.jars()?;
    ZOOKEEPER.jars()?;
    Ok(())
}

impl Artifact {
    /// The folder of its jars.
    pub(super) fn jars(&self) -> Result<PathBuf> {
        cache::entry(&format!("{}-{}", self.name, self.version), |folder| {
            self.fetch(folder)
        })
    }

    /// The class path that names all of its jars.
    pub(super) fn class_path(&self) -> Result<String> {
        Ok(format!("{}/*", self.jars()?.display()))
    }

    fn fetch(&self, folder: &Path) -> Result<()> {
        let pom = tempfile::Builder::new()
            .prefix("pom-")
            .suffix(".xml")
            .tempfile()?;
        std::fs::write(pom.path(), self.pom)?;
        let quiet = [
            "--quiet",
            "--batch-mode",
            "-Dstyle.color=never",
            "-DincludeScope=runtime",
        ]
        .map(str::to_owned);
        let rest = [
            format!("--file={}", pom.path().display()),
            format!("-Dserver.version={}", self.version),
            format!("-DoutputDirectory={}", folder.display()),
            "dependency:copy-dependencies".to_owned(),
        ];
        cache::fetch_with("mvn", quiet.into_iter().chain(rest))
    }
}
