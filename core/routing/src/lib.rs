//! On which cluster: filters with typed reasons, homes by consistent hashing and monotone splits, within the capacity that
//! clusters have. Pure functions that know no quota: admission asks them. Called by `core/resource-manager`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod filter;
pub mod home;
pub mod route;
pub mod split;
pub mod whole;

pub use filter::{Candidate, Demand, Dropped, filter};
pub use home::Homes;
pub use route::{Routed, Share, refusal, route};
pub use split::{add_evenly, add_in_order};
pub use whole::{Part, Whole, route_whole};
