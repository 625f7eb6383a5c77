//! May it run, and how much: the pool tree's rules, what each pool is entitled to, which waiting instances are admitted, and
//! what grants add up to. Pure functions over totals; never sees a task or a host. Called by `core/resource-manager`.
#![forbid(
    unsafe_code,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros
)]

pub mod admit;
pub mod again;
pub mod certificate;
pub mod entitle;
mod fair;
pub mod fill;
pub mod first_round;
pub mod grant;
pub mod hierarchy;
pub mod hold;
pub mod moves;
mod pages;
pub mod pool_sums;
pub mod queue;
pub mod rooms;
pub mod terms;
pub mod tree;

pub use admit::{
    Admission, Member, Refusal, Request, Route, ScopedHolds, SideAdmission, SliceRequest, admit, admit_held,
    refusals,
};
pub use again::{SecondRound, Usable, give_out_again};
pub use entitle::{Entitlements, entitle};
pub use first_round::FirstRound;
pub use grant::GrantLine;
pub use hierarchy::Hierarchy;
pub use hold::{Hold, HoldScope, Holds, keep_all};
pub use pool_sums::PoolSums;
pub use queue::{Likeness, Line, Lines, Queue, Turn};
pub use rooms::{ClusterIdx, ClusterRoom, Kept, Left, LeftWalk, Rooms, Side};
pub use terms::{Held, HostPoolIdx, Terms, Unit};
pub use tree::TreeProblem;
