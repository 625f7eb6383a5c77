//! echelon-xtask
fn main() {}
