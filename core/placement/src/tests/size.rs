//! A large problem: 20,000 instances on 1,000 hosts (3 to 20 ms with optimization), all groups in one.

use super::{group, host, judged};
use echelon_core_model::spec::JobKind;
use echelon_core_testkit::build::shape;

fn cluster(hosts: u64) -> Vec<echelon_core_model::cluster::HostView> {
    (0..hosts)
        .map(|n| host(&format!("h{n:04}"), shape(8 + n % 8, 16_384)))
        .collect()
}

#[test]
fn twenty_thousand_instances_find_a_thousand_hosts() {
    for kind in [JobKind::Batch, JobKind::Service] {
        let one = vec![group(1, kind, 20_000, shape(1, 64))];
        let answer = judged(&super::problem(0, one, cluster(1_000)));
        let cores: u64 = (0..1_000u64).map(|n| 8 + n % 8).sum();
        assert_eq!(answer.choices.len() as u64, cores.min(20_000), "{kind}");
    }
}
