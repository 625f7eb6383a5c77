//! The card of a storage file: a small file beside it that says which storage it is and how often it was
//! written. A file that is missing, older than its card, or another one is then told apart from a new one.
//!
//! It has two lines of one length, and each write replaces the older one. So at any moment one whole line
//! is there. A write is in the storage file before the card says so: the card is never ahead of a file that
//! was not changed by hand.

use super::FileProblem;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a line.
const LINE: usize = 128;
const BEGIN: &str = "echelon-storage-card";

/// Which storage it is, and how often it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub id: String,
    pub writes: u64,
}

/// An open card.
#[derive(Debug)]
pub(super) struct Card {
    file: File,
    id: String,
}

/// Where the card of a storage file is.
pub(super) fn path_of(storage: &Path) -> PathBuf {
    let mut name = storage.as_os_str().to_owned();
    name.push(".card");
    PathBuf::from(name)
}

fn sum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn line(id: &str, writes: u64) -> String {
    let text = format!("{BEGIN} {id} {writes:020}");
    let whole = format!("{text} {:016x}", sum(&text));
    format!("{whole:<width$}\n", width = LINE - 1)
}

fn parse(bytes: &[u8]) -> Option<Identity> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    let (text, told) = text.rsplit_once(' ')?;
    if u64::from_str_radix(told, 16).ok()? != sum(text) {
        return None;
    }
    let mut words = text.split(' ');
    let (BEGIN, id, writes, None) = (words.next()?, words.next()?, words.next()?, words.next()) else {
        return None;
    };
    Some(Identity {
        id: id.to_owned(),
        writes: writes.parse().ok()?,
    })
}

/// What the card at a path says; `None` when there is none.
///
/// # Errors
/// It cannot be read, or no line of it is whole.
pub(super) fn read(path: &Path) -> Result<Option<Identity>, FileProblem> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(FileProblem::UnreadCard),
    };
    let mut bytes = Vec::with_capacity(2 * LINE);
    file.take(2 * LINE as u64)
        .read_to_end(&mut bytes)
        .map_err(|_| FileProblem::UnreadCard)?;
    let lines = bytes.chunks(LINE).filter_map(parse);
    lines
        .max_by_key(|said| said.writes)
        .map(Some)
        .ok_or(FileProblem::UnreadCard)
}

impl Card {
    /// Writes a card, in one step.
    pub fn write(path: &Path, said: &Identity) -> io::Result<Self> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        let text = line(&said.id, said.writes).repeat(2);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&fresh)?;
        file.write_all_at(text.as_bytes(), 0)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(Self {
            file,
            id: said.id.clone(),
        })
    }

    /// Notes how often the storage was written. It is in the system's hands then, which suffices when this
    /// process is killed.
    pub fn note(&self, writes: u64) -> io::Result<()> {
        let offset = if writes.is_multiple_of(2) { 0 } else { LINE as u64 };
        self.file.write_all_at(line(&self.id, writes).as_bytes(), offset)
    }

    /// Brings what was noted to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(writes: u64) -> Identity {
        Identity {
            id: "0123456789abcdef".repeat(2),
            writes,
        }
    }

    #[test]
    fn a_card_says_the_newest_number_and_keeps_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = path_of(&folder.path().join("storage"));
        assert_eq!(read(&path), Ok(None));
        let card = Card::write(&path, &said(0)).unwrap();
        for writes in [1, 2, 3, 10, u64::MAX] {
            card.note(writes).unwrap();
            assert_eq!(read(&path), Ok(Some(said(writes))));
            assert_eq!(fs::metadata(&path).unwrap().len(), 2 * LINE as u64);
        }
    }

    #[test]
    fn one_torn_line_leaves_the_one_before_and_two_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("storage.card");
        let card = Card::write(&path, &said(6)).unwrap();
        card.note(7).unwrap();
        let whole = fs::read(&path).unwrap();
        for torn in LINE..LINE + 90 {
            let mut bytes = whole.clone();
            bytes[torn] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), Ok(Some(said(6))), "byte {torn}");
            bytes[torn - LINE] ^= 1;
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), Err(FileProblem::UnreadCard), "byte {torn}");
        }
        for bytes in [Vec::new(), b"\n".to_vec(), vec![0; 10_000], whole[..50].to_vec()] {
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), Err(FileProblem::UnreadCard));
        }
    }
}
