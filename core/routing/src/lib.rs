//! On which cluster: filters with typed reasons, scores, homes by consistent hashing and monotone splits,
//! within the capacity that clusters have. Pure functions that know no quota: admission asks them. Called by
//! `core/resource-manager`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod filter;
pub mod home;
pub mod route;
pub mod score;
pub mod split;
pub mod whole;

pub use filter::{Candidate, Demand, Dropped, filter};
pub use home::{HomeKey, Homes};
pub use route::{Routed, RoutingOrder, Share, refusal, route};
pub use score::{Score, ScoreFn, score};
pub use whole::{Part, Whole, route_whole};

/// The page about routing has a score of its own, which is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/routing.md")]
pub struct RoutingPage;
