//! The folder of a federation in one process: who uses it, and where in it everything lies.

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a data folder cannot be used.
#[derive(Debug, Error)]
pub enum FolderError {
    /// Another process has it.
    #[error("the data folder {} is in use by another `echelon standalone`: stop that one, or choose another `--data-dir`", .0.display())]
    InUse(PathBuf),
    /// The system refuses.
    #[error("cannot use the data folder {}: check that this user may write there", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A data folder in use. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if there is none, and takes it.
    pub(super) fn take(path: &Path) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Unusable {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        // Tasks find their own folders by it.
        let path = path.canonicalize().map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(FolderError::InUse(path)),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The storage in it.
    pub(super) fn storage(&self) -> String {
        format!("file:{}", self.path.join("storage").display())
    }

    /// The work folder of a simulated cluster.
    pub(super) fn mesos(&self, cluster: &str) -> PathBuf {
        self.path.join("mesos").join(cluster)
    }

    /// Where a simulated cluster's master listened last: it is taken again if it is free, so that a cluster keeps its
    /// address.
    pub(super) fn last_address(&self, cluster: &str) -> Option<SocketAddr> {
        fs::read_to_string(self.address_file(cluster))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    pub(super) fn keep_address(&self, cluster: &str, address: SocketAddr) -> Result<(), FolderError> {
        let file = self.address_file(cluster);
        let failed = |source| FolderError::Unusable {
            path: file.clone(),
            source,
        };
        fs::create_dir_all(self.path.join("mesos")).map_err(failed)?;
        fs::write(&file, address.to_string()).map_err(failed)
    }

    fn address_file(&self, cluster: &str) -> PathBuf {
        self.path.join("mesos").join(format!("{cluster}.address"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        let first = Folder::take(&path).unwrap();
        let second = Folder::take(&path).err().unwrap().to_string();
        assert!(second.contains("is in use by another"), "{second}");
        drop(first);
        Folder::take(&path).unwrap();
        fs::write(temporary.path().join("file"), "").unwrap();
        let error = Folder::take(&temporary.path().join("file")).err().unwrap();
        assert!(matches!(error, FolderError::Unusable { .. }), "{error}");
    }

    #[test]
    fn a_master_finds_its_address_again() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::take(temporary.path()).unwrap();
        assert_eq!(folder.last_address("east"), None);
        let address = SocketAddr::from(([127, 0, 0, 1], 5050));
        folder.keep_address("east", address).unwrap();
        assert_eq!(folder.last_address("east"), Some(address));
        assert_eq!(folder.last_address("west"), None);
    }
}
