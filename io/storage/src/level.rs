//! The level of a storage: one number in the code, stored in the storage when it is set up, compared at the start of every
//! role. It is raised whenever rows or tables change. Before the first release no storage is brought to another level.

use crate::{Store, StoreError};
use std::sync::Arc;

/// The level that this build works on. Storages of levels 1 to 4 were made before levels were checked.
pub const LEVEL: u32 = 17;

/// The level of a storage as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Where it is, as the URL says, without anything secret.
    pub place: String,
    /// Its level; 0: it is not set up.
    pub level: u32,
    /// The level that this build works on.
    pub known: u32,
}

impl Status {
    /// The status of a storage of a level.
    pub(crate) const fn new(place: String, level: u32) -> Self {
        Self {
            place,
            level,
            known: LEVEL,
        }
    }

    /// Whether this build works on it.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.level == self.known
    }

    /// Refuses every level but this build's.
    ///
    /// # Errors
    /// It is not set up, or is of another level; the error says what to do.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.is_current() {
            return Ok(());
        }
        Err(StoreError::Level {
            place: self.place.clone(),
            found: self.level,
            known: self.known,
        })
    }
}

/// What to do about a level that is not this build's.
pub(crate) const fn advice(found: u32, known: u32) -> &'static str {
    if found == 0 {
        "it is not set up; run `echelon storage migrate` with its URL"
    } else if found > known {
        "a newer build made it; use that build"
    } else {
        "an older build made it, and no storage is brought to another level before the first release; use that build, or an \
         empty storage"
    }
}

/// Opens a storage that this build works on: what every role begins with.
///
/// # Errors
/// The URL names no storage, it cannot be opened, it is not set up, or it is of another level.
pub async fn open_checked(url: &str) -> Result<Arc<dyn Store>, StoreError> {
    let store = crate::open(url).await?;
    store.status().await?.check()?;
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_known_level_passes_and_each_other_says_what_to_do() {
        let check = |level| Status::new("memory:".to_owned(), level).check();
        assert!(check(LEVEL).is_ok());
        for (level, retryable, said) in [
            (0, true, "run `echelon storage migrate`"),
            (LEVEL - 1, false, "an older build made it"),
            (LEVEL + 1, false, "a newer build made it"),
            (u32::MAX, false, "a newer build made it"),
        ] {
            let error = check(level).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(said), "{text}");
            let levels = format!("of level {level}, this build works on level {LEVEL}");
            assert!(text.contains(&levels), "{text}");
            assert_eq!(error.is_retryable(), retryable, "{text}");
        }
    }
}
