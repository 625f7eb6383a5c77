//! The contract of [`Membership`](crate::Membership), as functions that any backend's tests run. A [`Ground`] says how to connect a named
//! process, and how to silence it; each case gets a fresh one.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests call it, and a broken promise fails them"
)]

mod discovery;
mod election;
mod ground;

pub use ground::{Ground, PATIENCE};

use futures::future::BoxFuture;

/// One case: its name and its function.
pub type Case = (&'static str, for<'a> fn(&'a dyn Ground) -> BoxFuture<'a, ()>);

/// Every case. They are independent: run them in turn or side by side, each on its own ground, in a runtime of one
/// thread (some compare the standings of several candidates at one moment).
pub const CASES: &[Case] = &[
    ("one leader at a time", |g| {
        Box::pin(election::one_leader_at_a_time(g))
    }),
    ("resigning passes leadership on", |g| {
        Box::pin(election::resigning_passes_leadership_on(g))
    }),
    ("dropping passes leadership on", |g| {
        Box::pin(election::dropping_passes_leadership_on(g))
    }),
    ("a silent leader is told before another is elected", |g| {
        Box::pin(election::silence_is_told_first(g))
    }),
    ("a short silence keeps the term", |g| {
        Box::pin(election::a_short_silence_keeps_the_term(g))
    }),
    ("a silent follower leads later or not at all", |g| {
        Box::pin(election::a_silent_follower_stands_again(g))
    }),
    ("who stands in silence leads after it", |g| {
        Box::pin(election::who_stands_in_silence_leads_after_it(g))
    }),
    ("discovery sees the newest leader", |g| {
        Box::pin(discovery::sees_the_newest_leader(g))
    }),
    ("candidates say whether they are able", |g| {
        Box::pin(discovery::candidates_say_whether_they_are_able(g))
    }),
    ("only the leader publishes", |g| {
        Box::pin(discovery::only_the_leader_publishes(g))
    }),
    ("the highest epoch outlives leaders", |g| {
        Box::pin(discovery::the_highest_epoch_outlives_leaders(g))
    }),
    ("the newest durable write outlives leaders", |g| {
        Box::pin(discovery::the_newest_durable_write_outlives_leaders(g))
    }),
    ("roles do not disturb each other", |g| {
        Box::pin(discovery::roles_do_not_disturb_each_other(g))
    }),
    ("members come and go", |g| {
        Box::pin(discovery::members_come_and_go(g))
    }),
    ("silence is not absence", |g| {
        Box::pin(discovery::silence_is_not_absence(g))
    }),
];
