//! Builders, fixtures and strategies for tests. Never a normal dependency, except of `sim/world`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod build;
