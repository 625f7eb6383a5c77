//! The table of sizes: to be looked at, no rule.

use std::io::{ErrorKind, Write};

use anyhow::Result;
use echelon_tests::tree::{Tree, sizes};

/// Prints it.
///
/// # Errors
/// A source file cannot be read.
pub fn print_sizes() -> Result<()> {
    let sizes = sizes::measure(&Tree::read()?)?;
    // no `println`, which panics when a pager has seen enough
    match writeln!(std::io::stdout(), "{sizes}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
