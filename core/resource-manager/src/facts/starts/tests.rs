use super::*;
use echelon_core_model::Span;
use echelon_core_model::starts::MOST_FAILED_HOSTS;

const NOW: Timestamp = Timestamp(1_000_000);

/// Starts of a group, of which the failed ones failed on so many hosts of the cluster.
fn group(number: u64, begun: u32, failed: u32, hosts: std::ops::Range<u64>) -> GroupStarts {
    GroupStarts {
        group: StartGroup(number),
        begun,
        failed,
        cause: (failed > 0).then_some(PlatformCause::Fetcher),
        hosts: hosts.take(MOST_FAILED_HOSTS).map(HostHash).collect(),
    }
}

/// A group of which all starts fail, on three hosts.
fn broken(number: u64, begun: u32) -> GroupStarts {
    group(number, begun, begun, 0..3)
}

fn fine(number: u64, begun: u32) -> GroupStarts {
    group(number, begun, 0, 0..0)
}

/// Clusters by name, with what they have reported just now.
fn clusters(of: &[(&str, Vec<GroupStarts>)]) -> BTreeMap<ClusterId, ClusterView> {
    let views = of.iter().map(|(name, groups)| {
        let mut view = ClusterView::default();
        let groups = groups.clone();
        view.starts.take(StartCounts { groups, left_out: 0 }, NOW);
        (ClusterId::new(*name), view)
    });
    views.collect()
}

/// The share of cluster `a` among these, in percent.
fn share_of_a(of: &[(&str, Vec<GroupStarts>)]) -> Option<u32> {
    let mut clusters = clusters(of);
    compare_starts(&mut clusters, NOW);
    clusters[&ClusterId::new("a")].starts.share.map(|s| s.percent)
}

fn alone(groups: Vec<GroupStarts>) -> Option<u32> {
    share_of_a(&[("a", groups)])
}

#[test]
fn the_share_is_the_median_over_groups() {
    for (groups, expected) in [
        (vec![broken(1, 10), broken(2, 10), broken(3, 10)], Some(100)),
        (vec![broken(1, 10), broken(2, 10), fine(3, 10)], Some(100)),
        (vec![broken(1, 10), fine(2, 10), fine(3, 10)], Some(0)),
        // Of an even number the lower one in the middle counts.
        (
            vec![broken(1, 10), broken(2, 10), fine(3, 10), fine(4, 10)],
            Some(0),
        ),
        (vec![broken(1, 10), group(2, 8, 5, 0..3), fine(3, 9)], Some(62)),
    ] {
        assert_eq!(alone(groups.clone()), expected, "{groups:?}");
    }
}

#[test]
fn one_teams_bad_image_does_not_condemn_a_cluster() {
    // Of 1,020 starts 1,000 fail, and the share is that of the other groups.
    let groups = vec![broken(1, 1_000), fine(2, 10), fine(3, 10)];
    assert_eq!(alone(groups), Some(0));
    // Nor does it where nothing else starts.
    assert_eq!(alone(vec![broken(1, 1_000)]), None);
}

#[test]
fn too_little_evidence_is_unknown() {
    let on_hosts = |hosts: u64| (1..4).map(|n| group(n, 10, 10, 0..hosts)).collect();
    assert_eq!(alone(on_hosts(2)), None, "two hosts");
    assert_eq!(alone(on_hosts(3)), Some(100), "three hosts");
    // Hosts of several groups count together, and each once.
    let apart = (1..4).map(|n| group(n, 10, 10, n..n + 1)).collect();
    assert_eq!(alone(apart), Some(100));
    assert_eq!(alone(vec![broken(1, 50), broken(2, 50)]), None, "two groups");
    let starts = |n| (1..4).map(|g| broken(g, n)).collect::<Vec<_>>();
    assert_eq!(alone(starts(3)), None, "nine starts");
    assert_eq!(alone(starts(4)), Some(100), "twelve starts");
    assert_eq!(alone(Vec::new()), None);
    // One bad host among many hosts.
    let host = (1..9).map(|n| group(n, 10, 10, 7..8)).collect();
    assert_eq!(alone(host), None, "one host");
}

#[test]
fn a_group_that_fails_elsewhere_too_is_left_out() {
    let here = || {
        vec![
            broken(1, 20),
            broken(2, 20),
            broken(3, 20),
            fine(4, 20),
            fine(5, 20),
        ]
    };
    assert_eq!(alone(here()), Some(100));
    let elsewhere = |groups| share_of_a(&[("a", here()), ("b", groups)]);
    assert_eq!(elsewhere(vec![broken(1, 20), broken(2, 20)]), Some(0));
    // The others do well elsewhere: so it is the cluster.
    assert_eq!(elsewhere(vec![fine(1, 20), fine(2, 20)]), Some(100));
    // Half as often is as much, less is not, and two starts show nothing.
    let half = |failed| vec![group(1, 20, failed, 0..3), group(2, 20, failed, 0..3)];
    assert_eq!(elsewhere(half(10)), Some(0));
    assert_eq!(elsewhere(half(9)), Some(100));
    assert_eq!(elsewhere(vec![broken(1, 2), broken(2, 2)]), Some(100));
}

#[test]
fn what_fails_at_some_clusters_and_not_at_others_counts() {
    let all = || (1..4).map(|n| broken(n, 20)).collect::<Vec<_>>();
    let well = || (1..4).map(|n| fine(n, 20)).collect::<Vec<_>>();
    assert_eq!(
        share_of_a(&[("a", all()), ("b", all()), ("c", well())]),
        Some(100)
    );
    // An image store that all clusters share is away: avoiding one of them gains nothing.
    assert_eq!(share_of_a(&[("a", all()), ("b", all()), ("c", all())]), None);
}

#[test]
fn what_does_not_fail_here_is_never_left_out() {
    let here = vec![fine(1, 20), fine(2, 20), broken(3, 20)];
    let there = (1..4).map(|n| broken(n, 20)).collect();
    // The third is left out, and two groups are too few.
    assert_eq!(share_of_a(&[("a", here), ("b", there)]), None);
}

#[test]
fn old_counts_are_over() {
    let mut clusters = clusters(&[("a", (1..4).map(|n| broken(n, 20)).collect())]);
    let a = ClusterId::new("a");
    compare_starts(&mut clusters, NOW.plus(Span::seconds(299)));
    assert!(clusters[&a].starts.share.is_some());
    compare_starts(&mut clusters, NOW.plus(Span::minutes(5)));
    assert_eq!(clusters[&a].starts.share, None);
}

#[test]
fn counts_that_cannot_be_are_borne() {
    // More failed than had begun, since an earlier leader of the shard began them.
    let late = |n| group(n, 0, 7, 0..3);
    assert_eq!(alone(vec![late(1), late(2), late(3)]), Some(100));
    let empty = |n| group(n, 0, 0, 0..0);
    assert_eq!(alone(vec![empty(1), empty(2), empty(3), broken(4, 90)]), None);
    let most = |n| group(n, u32::MAX, u32::MAX, 0..3);
    let all = || (1..4).map(most).collect::<Vec<_>>();
    assert_eq!(share_of_a(&[("a", all()), ("b", all())]), None);
    let nameless = |n| GroupStarts {
        cause: None,
        ..broken(n, 20)
    };
    assert_eq!(alone((1..4).map(nameless).collect()), None);
}

#[test]
fn the_cause_of_most_groups_is_named() {
    let by = |number, begun, cause| GroupStarts {
        cause: Some(cause),
        ..broken(number, begun)
    };
    let mut clusters = clusters(&[(
        "a",
        vec![
            by(1, 1_000, PlatformCause::ImageStore),
            by(2, 10, PlatformCause::Executor),
            by(3, 10, PlatformCause::Executor),
        ],
    )]);
    compare_starts(&mut clusters, NOW);
    let share = clusters[&ClusterId::new("a")].starts.share.unwrap();
    assert_eq!(share.by, PlatformCause::Executor);
}

#[test]
fn it_begins_at_half_and_ends_at_a_fifth() {
    let fails = HealthCause::StartsFail {
        percent: 77,
        by: PlatformCause::Agent,
    };
    let cause = |percent: u32, before: &[HealthCause]| {
        let share = Some(FailedShare {
            percent,
            by: PlatformCause::Fetcher,
        });
        let known = KnownStarts { report: None, share };
        known.cause(before)
    };
    let named = |percent| {
        let by = PlatformCause::Fetcher;
        Some(HealthCause::StartsFail { percent, by })
    };
    let slow = HealthCause::StorageSlow;
    assert_eq!(cause(49, &[]), None);
    assert_eq!(cause(50, &[slow]), named(50));
    assert_eq!(cause(49, &[slow, fails]), named(49));
    assert_eq!(cause(21, &[fails]), named(21));
    assert_eq!(cause(20, &[fails]), None);
    assert_eq!(KnownStarts::default().cause(&[fails]), None, "unknown ends it");
}
