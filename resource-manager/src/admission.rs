//! Why a job waits for admission, as the public API says it.

use echelon_core_model::resources::Kind;
use echelon_core_resource_manager::{
    AddedHosts, AdmissionBlocker, CapacityHolder, FixChange, FixOutcome, JobExplanation, QueuePlace,
    VerifiedFix,
};
use echelon_proto::convert::{quantity, reason};
use echelon_proto::echelon::v1;
use echelon_proto::echelon::v1::fix_change::Change;

/// To the wire.
pub(crate) fn to_wire(told: &JobExplanation) -> v1::JobAdmission {
    let JobExplanation {
        waiting,
        place,
        blockers,
        more_blockers,
        holders,
        more_holders,
        outcome,
        trials: _,
    } = told;
    let (barred_by, fixes) = match outcome {
        FixOutcome::Barred(by) => (Some(reason::reason(by)), Vec::new()),
        FixOutcome::Fixes(fixes) => (None, fixes.iter().map(fix).collect()),
        _ => (None, Vec::new()),
    };
    v1::JobAdmission {
        waiting: *waiting,
        place: place.map(queue_place),
        blockers: blockers.iter().map(blocker).collect(),
        more_blockers: *more_blockers,
        holders: holders.iter().map(holder).collect(),
        more_holders: *more_holders,
        outcome: outcome_of(outcome).into(),
        barred_by,
        fixes,
    }
}

const fn outcome_of(outcome: &FixOutcome) -> v1::AdmissionOutcome {
    match outcome {
        FixOutcome::NothingWaits => v1::AdmissionOutcome::NothingWaits,
        FixOutcome::Barred(_) => v1::AdmissionOutcome::Barred,
        FixOutcome::Admitted => v1::AdmissionOutcome::Admitted,
        FixOutcome::AfterPreemption => v1::AdmissionOutcome::AfterPreemption,
        FixOutcome::Fixes(_) => v1::AdmissionOutcome::Fixes,
        FixOutcome::NoneFound => v1::AdmissionOutcome::NoneFound,
    }
}

const fn queue_place(place: QueuePlace) -> v1::QueuePlace {
    v1::QueuePlace {
        jobs_ahead: place.jobs_ahead,
        units_ahead: place.units_ahead,
        units: place.units,
    }
}

fn blocker(blocker: &AdmissionBlocker) -> v1::AdmissionBlocker {
    v1::AdmissionBlocker {
        group: blocker.group.to_string(),
        reason: Some(reason::reason(&blocker.reason)),
        instances: blocker.instances,
    }
}

fn holder(holder: &CapacityHolder) -> v1::CapacityHolder {
    v1::CapacityHolder {
        pool: holder.pool.clone(),
        used: Some(quantity::resources(&holder.used)),
        unused_reservation: Some(quantity::resources(&holder.unused_reservation)),
    }
}

fn fix(fix: &VerifiedFix) -> v1::VerifiedFix {
    v1::VerifiedFix {
        changes: fix.changes.iter().map(change).collect(),
        is_least: fix.is_least,
        needs_preemption: fix.needs_preemption,
        text: fix.to_string(),
    }
}

fn amount(of_kind: &(Kind, u64)) -> v1::KindAmount {
    let (kind, n) = *of_kind;
    v1::KindAmount {
        kind: quantity::kind(kind).into(),
        amount: (n != u64::MAX).then_some(n),
    }
}

fn hosts(hosts: &AddedHosts) -> v1::AddedHosts {
    v1::AddedHosts {
        cluster: hosts.name.clone(),
        cluster_id: hosts.cluster.to_string(),
        instances: hosts
            .groups
            .iter()
            .fold(0, |sum: u64, (_, n)| sum.saturating_add(*n)),
        amount: Some(quantity::resources(&hosts.amount)),
        host: Some(quantity::resources(&hosts.host)),
        host_pool: hosts
            .host_pool
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        revocable: hosts.revocable,
    }
}

fn change(change: &FixChange) -> v1::FixChange {
    let change = match change {
        FixChange::CreatePool { pool } => Change::CreatePool(pool.clone()),
        FixChange::RaiseMaxRunning { group, to } => Change::RaiseMaxRunning(v1::RaiseMaxRunning {
            group: group.to_string(),
            to: *to,
        }),
        FixChange::SetQuantity { pool, quantity, to } => Change::SetPoolQuantity(v1::SetPoolQuantity {
            pool: pool.clone(),
            quantity: quantity.field().to_owned(),
            to: to.iter().map(amount).collect(),
        }),
        FixChange::RaiseCount { pool, count, to } => Change::RaisePoolCount(v1::RaisePoolCount {
            pool: pool.clone(),
            count: count.field().to_owned(),
            to: *to,
        }),
        FixChange::ActivateCluster { name, .. } => Change::ActivateCluster(name.clone()),
        FixChange::AllowCluster { name, .. } => Change::AllowCluster(name.clone()),
        FixChange::AddHosts(added) => Change::AddHosts(hosts(added)),
        FixChange::LowerRequest { group, kind, to } => Change::LowerRequest(v1::LowerRequest {
            group: group.to_string(),
            kind: quantity::kind(*kind).into(),
            to: *to,
        }),
    };
    v1::FixChange { change: Some(change) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echelon_core_model::{ClusterId, GroupName, Reason, ReasonCode, Resources};

    #[test]
    fn every_part_of_an_explanation_is_sent() {
        let cpus = |n| Resources::ZERO.with(Kind::Cpus, n);
        let hosts = AddedHosts {
            cluster: ClusterId::new("e"),
            name: "east".to_owned(),
            groups: vec![(GroupName::new("main"), 2), (GroupName::new("side"), 1)],
            amount: cpus(3000),
            host: cpus(1000),
            host_pool: None,
            revocable: false,
        };
        let told = to_wire(&JobExplanation {
            waiting: 3,
            place: Some(QueuePlace {
                jobs_ahead: 1,
                units_ahead: 4,
                units: 7,
            }),
            blockers: vec![AdmissionBlocker {
                group: GroupName::new("main"),
                reason: Reason::new(ReasonCode::PoolLimit).at("/a"),
                instances: 3,
            }],
            more_blockers: 5,
            holders: vec![CapacityHolder {
                pool: "/b".to_owned(),
                used: cpus(1000),
                unused_reservation: cpus(2000),
            }],
            more_holders: 6,
            outcome: FixOutcome::Fixes(vec![VerifiedFix {
                changes: vec![
                    FixChange::SetQuantity {
                        pool: "/a".to_owned(),
                        quantity: echelon_core_resource_manager::PoolQuantity::Limit,
                        to: vec![(Kind::Cpus, 9000), (Kind::Memory, u64::MAX)],
                    },
                    FixChange::AddHosts(hosts),
                ],
                is_least: true,
                needs_preemption: true,
            }]),
            trials: 9,
        });
        assert_eq!((told.waiting, told.more_blockers, told.more_holders), (3, 5, 6));
        assert_eq!(told.outcome(), v1::AdmissionOutcome::Fixes);
        let place = told.place.unwrap();
        assert_eq!((place.jobs_ahead, place.units_ahead, place.units), (1, 4, 7));
        let reason = told.blockers[0].reason.as_ref().unwrap();
        assert_eq!(
            (reason.code.as_str(), told.blockers[0].instances),
            ("POOL_LIMIT", 3)
        );
        assert_eq!(told.holders[0].unused_reservation.unwrap().cpus_milli, 2000);
        let fix = &told.fixes[0];
        assert!(fix.is_least && fix.needs_preemption);
        assert!(
            fix.text
                .starts_with("set the limit of pool /a to cpus 9, no bound of memory, and add hosts")
        );
        let Some(Change::SetPoolQuantity(set)) = &fix.changes[0].change else {
            panic!("{fix:?}")
        };
        let amounts: Vec<Option<u64>> = set.to.iter().map(|a| a.amount).collect();
        assert_eq!(
            (set.quantity.as_str(), amounts),
            ("limit", vec![Some(9000), None])
        );
        let Some(Change::AddHosts(added)) = &fix.changes[1].change else {
            panic!("{fix:?}")
        };
        assert_eq!((added.cluster.as_str(), added.instances), ("east", 3));
    }
}
