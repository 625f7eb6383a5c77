//! Files of sandboxes by their virtual paths, `/frameworks/FID/executors/EID/runs/latest/stdout`, or by their real ones.
//! Nothing outside the agent's folder is ever shown, whatever links lead there.

use echelon_proto::mesos::v1::{FileInfo, TimeInfo};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

/// One answer carries at most this much, whatever was asked for, as those of real agents (16 pages of memory); readers ask again from where it
/// ended.
const MAX_READ: u64 = 64 << 10;

/// A piece of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub data: Vec<u8>,
    /// Of the whole file.
    pub size: u64,
}

/// Reads from `offset` on, `length` bytes at most.
pub(crate) fn read(root: &Path, path: &str, offset: u64, length: Option<u64>) -> io::Result<Piece> {
    let path = resolve(root, path)?;
    let mut file = File::open(&path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut data = Vec::new();
    file.take(length.unwrap_or(MAX_READ).min(MAX_READ))
        .read_to_end(&mut data)?;
    Ok(Piece {
        data,
        size: metadata.len(),
    })
}

/// The entries of a folder, by name, with the paths that they were asked by.
pub(crate) fn list(root: &Path, path: &str) -> io::Result<Vec<FileInfo>> {
    let folder = resolve(root, path)?;
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = entry.metadata()?;
        let modified = metadata
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = modified
            .and_then(|since| i64::try_from(since.as_nanos()).ok())
            .unwrap_or_default();
        entries.push(FileInfo {
            path: format!("{}/{name}", path.trim_end_matches('/')),
            nlink: i32::try_from(metadata.nlink()).ok(),
            size: Some(metadata.len()),
            mtime: Some(TimeInfo { nanoseconds }),
            mode: Some(metadata.permissions().mode()),
            uid: Some(metadata.uid().to_string()),
            gid: Some(metadata.gid().to_string()),
        });
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn resolve(root: &Path, path: &str) -> io::Result<PathBuf> {
    let not_found = || io::Error::new(io::ErrorKind::NotFound, "no such file in this agent's sandboxes");
    let asked = Path::new(path);
    if asked
        .components()
        .any(|part| matches!(part, Component::ParentDir))
    {
        return Err(not_found());
    }
    let root = root.canonicalize()?;
    let below = asked
        .strip_prefix(&root)
        .unwrap_or_else(|_| asked.strip_prefix("/").unwrap_or(asked));
    let real = root.join(below).canonicalize().map_err(|_| not_found())?;
    if real.starts_with(&root) {
        Ok(real)
    } else {
        Err(not_found())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_folder_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("agent");
        fs::create_dir_all(root.join("runs/1")).unwrap();
        fs::write(root.join("runs/1/stdout"), "hello world").unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink("1", root.join("runs/latest")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), root.join("runs/1/link")).unwrap();
        let good = read(&root, "/runs/latest/stdout", 6, Some(3)).unwrap();
        assert_eq!(
            good,
            Piece {
                data: b"wor".to_vec(),
                size: 11
            }
        );
        assert_eq!(read(&root, "/runs/latest/stdout", 99, None).unwrap().data, b"");
        let real = root.join("runs/1/stdout");
        assert_eq!(read(&root, real.to_str().unwrap(), 0, None).unwrap().size, 11);
        for bad in [
            "/../secret",
            "/runs/../../secret",
            "/runs/1/link",
            "/nothing",
            "/etc/passwd",
            "/runs",
        ] {
            assert!(read(&root, bad, 0, None).is_err(), "{bad}");
        }
        fs::write(root.join("runs/1/long"), vec![b'x'; 100_000]).unwrap();
        let piece = read(&root, "/runs/latest/long", 0, Some(90_000)).unwrap();
        assert_eq!((piece.data.len(), piece.size), (65_536, 100_000));
        let names: Vec<String> = list(&root, "/runs/latest")
            .unwrap()
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        assert_eq!(
            names,
            ["/runs/latest/link", "/runs/latest/long", "/runs/latest/stdout"]
        );
    }
}
