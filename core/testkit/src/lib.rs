//! Builders, fixtures and strategies for tests. The model store in `store` stands for storage. Never a normal
//! dependency, except of `sim/world`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod build;
pub mod cluster_choices;
pub mod specs;
pub mod store;
