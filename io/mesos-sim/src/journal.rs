//! The records of a cluster in one file: appended as they change, written anew at each start. A record is in the file
//! before anything that follows from it is done.

use echelon_proto::recordio;
use prost::Message;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// No record comes near this; a longer one is a broken file.
const MAX_RECORD: usize = 64 << 20;

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "vec", optional, tag = "2")]
    value: Option<Vec<u8>>,
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
}

impl Journal {
    /// Reads what a folder's journal holds and opens it for more. What a crash left half written at its end is dropped:
    /// nothing has followed from it.
    pub(crate) fn open(folder: &Path) -> io::Result<(Self, BTreeMap<String, Vec<u8>>)> {
        let path = folder.join("journal");
        let records = match std::fs::read(&path) {
            Ok(bytes) => replay(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let file = rewrite(&path, &records)?;
        Ok((Self { file }, records))
    }

    /// Adds a record, or its removal.
    pub(crate) fn append(&mut self, key: &str, value: Option<&[u8]>) -> io::Result<()> {
        self.file.write_all(&framed(key, value))
    }
}

fn framed(key: &str, value: Option<&[u8]>) -> Vec<u8> {
    let entry = Entry {
        key: key.to_owned(),
        value: value.map(<[u8]>::to_vec),
    };
    recordio::encode(&entry.encode_to_vec())
}

fn replay(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut entries = Vec::new();
    // A broken frame ends the file as far as it can be trusted.
    let _ = recordio::Decoder::new(MAX_RECORD).push(bytes, &mut entries);
    let mut records = BTreeMap::new();
    for entry in entries
        .iter()
        .map_while(|bytes| Entry::decode(bytes.as_slice()).ok())
    {
        match entry.value {
            Some(value) => records.insert(entry.key, value),
            None => records.remove(&entry.key),
        };
    }
    records
}

/// Writes a journal without what is outdated beside the old one, and puts it in its place.
fn rewrite(path: &PathBuf, records: &BTreeMap<String, Vec<u8>>) -> io::Result<File> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    for (key, value) in records {
        file.write_all(&framed(key, Some(value)))?;
    }
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    OpenOptions::new().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_a_torn_end_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, records) = Journal::open(folder.path()).unwrap();
        assert!(records.is_empty());
        journal.append("a", Some(b"1")).unwrap();
        journal.append("b", Some(b"2")).unwrap();
        journal.append("a", Some(b"3")).unwrap();
        journal.append("b", None).unwrap();
        drop(journal);
        let path = folder.path().join("journal");
        let whole = std::fs::read(&path).unwrap();
        let expected = BTreeMap::from([("a".to_owned(), b"3".to_vec())]);
        assert_eq!(replay(&whole), expected);
        for cut in 0..whole.len() {
            // Any prefix is a state that the file has had.
            assert!(replay(&whole[..cut]).len() <= 2);
        }
        std::fs::write(&path, [whole.as_slice(), b"12\nhalf"].concat()).unwrap();
        let (mut journal, records) = Journal::open(folder.path()).unwrap();
        assert_eq!(records, expected);
        journal.append("c", Some(b"4")).unwrap();
        let (_, records) = Journal::open(folder.path()).unwrap();
        assert_eq!(records.len(), 2);
    }
}
