//! The health of clusters, and what shards observe.

use super::{at, of, span};
use echelon_core_model::health::{
    AgentCounts, ClusterHealth, Declaration, DeclaredHealth, Health, HealthCause, MasterId, ShardSigns,
};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::starts::{GroupStarts, HostHash, MOST_FAILED_HOSTS, StartCounts, StartGroup};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

fn cause() -> impl Strategy<Value = HealthCause> {
    let usual = (1..=11_u32, any::<u32>(), any::<u32>()).prop_map(|(code, count, of)| {
        let cause = HealthCause::of_parts(code, count, of);
        cause.expect("a known number")
    });
    let starts_fail = (0..=100_u32, select(PlatformCause::ALL.to_vec()))
        .prop_map(|(percent, by)| HealthCause::StartsFail { percent, by });
    prop_oneof![4 => usual, 1 => starts_fail]
}

pub fn start_counts() -> impl Strategy<Value = StartCounts> {
    let hosts = btree_set(any::<u64>().prop_map(HostHash), 0..=MOST_FAILED_HOSTS);
    let cause = of(select(PlatformCause::ALL.to_vec()));
    let counts = (any::<u32>(), any::<u32>(), cause, hosts);
    let groups = btree_map(any::<u64>(), counts, 0..3);
    (groups, 0..=1_u64 << 53).prop_map(|(groups, left_out)| {
        let groups = groups.into_iter().map(|(group, counts)| GroupStarts {
            group: StartGroup(group),
            begun: counts.0,
            failed: counts.1,
            cause: counts.2,
            hosts: counts.3.into_iter().collect(),
        });
        StartCounts {
            groups: groups.collect(),
            left_out,
        }
    })
}

pub fn cluster_health() -> impl Strategy<Value = ClusterHealth> {
    let fields = (
        select(Health::ALL.to_vec()),
        vec(cause(), 0..4),
        at(),
        at(),
        0..=1_u64 << 53,
        (span(), span(), of(at())),
        of(at()),
        0..=ClusterHealth::MOST_DOUBLINGS,
    );
    fields.prop_map(
        |(health, causes, since, as_of, silence, (waited, doubted, heartbeat_at), returned_at, doublings)| {
            ClusterHealth {
                health,
                causes,
                since,
                as_of,
                silence,
                waited,
                doubted,
                heartbeat_at,
                returned_at,
                doublings,
            }
        },
    )
}

pub fn declared() -> impl Strategy<Value = DeclaredHealth> {
    let as_what = prop_oneof![
        Just(Declaration::Lost),
        Just(Declaration::NeverReturns),
        at().prop_map(Declaration::AliveUntil),
    ];
    (0..=1_u64 << 53, as_what).prop_map(|(silence, as_what)| DeclaredHealth { silence, as_what })
}

pub fn shard_signs() -> impl Strategy<Value = ShardSigns> {
    let agents = (any::<u32>(), any::<u32>());
    let agents = agents.prop_map(|(active, unreachable)| AgentCounts { active, unreachable });
    let fields = (
        any::<bool>(),
        span(),
        of(span()),
        of(span()),
        any::<u32>(),
        of(agents),
        span(),
        (any::<bool>(), any::<bool>(), of(any::<u64>())),
    );
    fields.prop_map(
        |(subscribed, subscription_age, event_age, answer_age, unanswered, agents, commit_age, rest)| {
            ShardSigns {
                subscribed,
                subscription_age,
                event_age,
                answer_age,
                unanswered,
                agents,
                commit_age,
                frozen: rest.0,
                torn_down: rest.1,
                master: rest.2.map(MasterId),
            }
        },
    )
}
