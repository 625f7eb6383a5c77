//! What the suites below `tests/` stand on: real servers that a test can start and disturb, and the source tree as data
//! for the tests that hold the architecture.
//!
//! Nothing here knows a product crate, so `cargo xtask` can use it and builds in seconds. Everything that is started dies
//! with the test that started it, see [`work::WorkFolder`].

pub mod cache;
pub mod http;
pub mod java;
pub mod net;
pub mod process;
pub mod proxy;
pub mod server;
pub mod servers;
pub mod tree;
pub mod wait;
pub mod work;
