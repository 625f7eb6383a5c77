//! Words of job files that are a choice, for what reads, writes and describes them. Names of strategies and of runtime variables are where these are.

use echelon_core_model::cluster_choice::{CostRule, Spread};
use echelon_core_model::gang::OnMemberFailure;
use echelon_core_model::nearest;
use echelon_core_model::rollout::OnFailure;
use echelon_core_model::rules::{Condition, Restart};
use echelon_core_model::runtime::{Containerizer, ImageFormat, Protocol, Visibility};
use echelon_core_model::schedule::{CatchUp, Overlap};
use echelon_core_model::spec::JobKind;
use echelon_core_model::volume::Reclaim;

/// A word and what it stands for.
pub type Words<T, const N: usize> = [(&'static str, T); N];

pub const KINDS: Words<JobKind, 4> = [
    ("batch", JobKind::Batch),
    ("service", JobKind::Service),
    ("stateful", JobKind::Stateful),
    ("daemon", JobKind::Daemon),
];
pub const MEMBER_FAILURES: Words<OnMemberFailure, 3> = [
    ("member", OnMemberFailure::Member),
    ("gang", OnMemberFailure::Gang),
    ("job", OnMemberFailure::Job),
];
pub const OVERLAPS: Words<Overlap, 4> = [
    ("skip", Overlap::Skip),
    ("queue", Overlap::Queue),
    ("replace", Overlap::Replace),
    ("allow", Overlap::Allow),
];
pub const CATCH_UPS: Words<CatchUp, 3> = [
    ("none", CatchUp::None),
    ("one", CatchUp::One),
    ("all", CatchUp::All),
];
pub const SPREADS: Words<Spread, 2> = [("none", Spread::None), ("even", Spread::Even)];
pub const COST_RULES: Words<CostRule, 2> = [
    ("ignore", CostRule::Ignore),
    ("prefer_cheap", CostRule::PreferCheap),
];
pub const RECLAIMS: Words<Reclaim, 2> = [("keep", Reclaim::Keep), ("delete", Reclaim::Delete)];
pub const RESTARTS: Words<Restart, 3> = [
    ("on-failure", Restart::OnFailure),
    ("always", Restart::Always),
    ("never", Restart::Never),
];
pub const CONDITIONS: Words<Condition, 3> = [
    ("succeeded", Condition::Succeeded),
    ("ended", Condition::Ended),
    ("started", Condition::Started),
];
pub const ON_FAILURES: Words<OnFailure, 3> = [
    ("roll_back", OnFailure::RollBack),
    ("pause", OnFailure::Pause),
    ("continue", OnFailure::Continue),
];
pub const CONTAINERIZERS: Words<Containerizer, 2> =
    [("mesos", Containerizer::Mesos), ("docker", Containerizer::Docker)];
pub const IMAGE_FORMATS: Words<ImageFormat, 2> =
    [("docker", ImageFormat::Docker), ("appc", ImageFormat::Appc)];
pub const PROTOCOLS: Words<Protocol, 2> = [("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];
pub const VISIBILITIES: Words<Visibility, 3> = [
    ("framework", Visibility::Framework),
    ("cluster", Visibility::Cluster),
    ("external", Visibility::External),
];

/// Reads one of some words, which are `what`.
pub fn one_of<T: Clone>(
    what: &'static str,
    all: &'static [(&'static str, T)],
) -> impl Fn(&str) -> Result<T, String> {
    move |text| {
        let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
        let found = all.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| value.clone()).ok_or_else(|| {
            let meant = nearest(text, words.iter().copied())
                .map_or(String::new(), |w| format!("; did you mean `{w}`?"));
            let (last, others) = words.split_last().map_or(("", &[][..]), |(l, o)| (*l, o));
            format!(
                "`{text}` is not {what}: use {} or {last}{meant}",
                others.join(", ")
            )
        })
    }
}

/// The word of a value.
pub fn word<T: PartialEq>(all: &'static [(&'static str, T)], of: &T) -> &'static str {
    all.iter()
        .find(|(_, value)| value == of)
        .map_or("", |(word, _)| word)
}
