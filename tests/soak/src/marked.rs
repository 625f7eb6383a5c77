//! Files in the folder of marks that the soak writes and tasks read.

use std::path::{Path, PathBuf};

/// While this file is there, each task that begins on this host ends at once with an error.
#[must_use]
pub fn failing_path(folder: &Path, host: &str) -> PathBuf {
    folder.join(format!("failing-{host}"))
}
