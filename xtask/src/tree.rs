//! The table of sizes, as `tests/tests/architecture.rs` judges them.

use anyhow::Result;
use echelon_tests::tree::{Tree, sizes};

/// Prints it.
///
/// # Errors
/// A source file cannot be read.
pub fn print_sizes() -> Result<()> {
    println!("{}", sizes::measure(&Tree::read()?)?);
    Ok(())
}
