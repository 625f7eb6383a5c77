//! How fast a pool gets back what it is entitled to: within the delay of preemption, the grace of what is stopped, and as many
//! minutes as the limit goes into what is needed.

use crate::event::Event;
use crate::tests::case::{Case, batch};
use echelon_core_model::{Amount, JobId, Span};
use echelon_core_testkit::build::JobBuilder;

/// What begins late, and what is stopped, is told within this.
const MARGIN: Span = Span::seconds(5);

/// A cluster that one pool has whole, and another pool that asks for a part that it is entitled to.
struct Storm {
    case: Case,
    wanting: Vec<JobId>,
    /// How many instances were taken, second by second.
    taken: Vec<u64>,
}

impl Storm {
    fn new(cores: u32, wanting: impl IntoIterator<Item = JobBuilder>) -> Self {
        let mut case = Case::with(&[("a", cores.into())]);
        case.set_pool("/x", 1_000_000);
        case.set_pool("/y", 1_000_000);
        case.run_for(Span::seconds(6));
        let x = case.job(1, batch(cores).pool("/x"));
        case.run_for(Span::seconds(5));
        assert_eq!(case.total_active(x), cores as usize);
        let wanting = (2..).zip(wanting);
        let wanting: Vec<JobId> = wanting
            .map(|(n, job)| case.store_job(n, job.pool("/y")))
            .collect();
        case.events.extend(wanting.iter().map(|job| Event::Hint(*job)));
        case.settle();
        Self {
            case,
            wanting,
            taken: vec![0],
        }
    }

    fn active(&self) -> usize {
        self.wanting.iter().map(|job| self.case.total_active(*job)).sum()
    }

    fn taken(&self) -> u64 {
        self.taken.last().copied().unwrap_or_default()
    }

    fn run_for(&mut self, span: Span) {
        for _ in 0..span.0 / 1_000 {
            self.case.run_for(Span::seconds(1));
            let slices = self.case.shards.values().flat_map(|s| s.slices.values());
            self.taken.push(slices.map(|s| s.own.preempted).sum());
        }
    }

    /// In no minute more are taken than the limit and a burst; what is decided takes effect within two seconds.
    fn assert_pace(&self, limit: u64) {
        for (second, to) in self.taken.iter().enumerate() {
            let from = self.taken[second.saturating_sub(60)];
            let most = limit + limit / 6 + limit / 30;
            assert!(
                to - from <= most,
                "{} in the minute before second {second}",
                to - from
            );
        }
    }
}

#[test]
fn a_tenth_of_a_large_fleet_is_there_after_the_delay_and_a_minute() {
    let mut storm = Storm::new(100_000, [batch(10_000)]);
    storm.run_for(Span::seconds(29));
    assert_eq!(storm.taken(), 0, "not at once");
    storm.run_for(Span(Span::seconds(61).0 + MARGIN.0));
    assert_eq!((storm.active(), storm.taken()), (10_000, 10_000));
    storm.run_for(Span::minutes(2));
    assert_eq!(storm.taken(), 10_000, "no more than is needed");
    storm.assert_pace(10_000);
}

#[test]
fn many_jobs_get_their_part_as_fast_as_one() {
    let mut storm = Storm::new(100_000, (0..100).map(|_| batch(100)));
    storm.run_for(Span(Span::seconds(90).0 + MARGIN.0));
    assert_eq!((storm.active(), storm.taken()), (10_000, 10_000));
    storm.assert_pace(10_000);
}

#[test]
fn jobs_of_one_instance_get_theirs_at_a_rate_of_their_own() {
    // Sixteen requests of a cluster are answered in a second. Each is offered some more candidates than it needs, which are offered to no
    // other meanwhile: so the last ones take longer.
    let mut storm = Storm::new(6_000, (0..320).map(|_| batch(1)));
    storm.run_for(Span::minutes(2));
    assert_eq!((storm.active(), storm.taken()), (320, 320));
    storm.assert_pace(600);
}

#[test]
fn grace_comes_on_top_and_nothing_else() {
    let mut storm = Storm::new(20_000, [batch(2_000)]);
    storm.case.shard("a").dies_at_once = false;
    // What is stopped dies at the next of these moments: within 10 s.
    for _ in 0..10 {
        storm.run_for(Span::seconds(10));
        storm.case.at("a", |s, now| s.die(now));
    }
    storm.run_for(MARGIN);
    assert_eq!((storm.active(), storm.taken()), (2_000, 2_000));
    storm.assert_pace(2_000);
}

#[test]
fn a_fixed_limit_is_kept_and_enough() {
    let mut storm = Storm::new(2_000, []);
    storm.case.rm.config.preemption.a_minute = Amount::Count(60);
    let y = storm.case.job(9, batch(100).pool("/y"));
    storm.wanting.push(y);
    storm.run_for(Span(Span::seconds(30 + 100).0 + MARGIN.0));
    assert_eq!((storm.active(), storm.taken()), (100, 100));
    storm.assert_pace(60);
}

#[test]
fn leaders_that_change_often_take_no_more_in_a_minute() {
    let mut storm = Storm::new(6_000, [batch(1_000)]);
    for _ in 0..12 {
        storm.run_for(Span::seconds(20));
        storm.case.fail_over();
    }
    storm.run_for(Span::minutes(3));
    assert_eq!((storm.active(), storm.taken()), (1_000, 1_000));
    storm.assert_pace(600);
}
