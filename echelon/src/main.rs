//! echelon
fn main() {}
