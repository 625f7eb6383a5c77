use super::*;
use crate::testing::{Memory, NOW, run, web};
use echelon_core_model::assignment::AssignedRange;
use echelon_core_model::{Generation, InstanceRange, JobId, RunState};
use echelon_core_testkit::build::main_group;

/// Three instances of `web` run: 0 and 1 at `west`, 2 at `east`.
struct Case {
    store: Memory,
    job: JobId,
    assignment: Assignment,
}

impl Case {
    fn new() -> Self {
        let (mut store, job) = web();
        let mut assignment = Assignment::new(job);
        for (name, first, last) in [("west", 0, 1), ("east", 2, 2)] {
            let cluster = store.add_cluster(name);
            let range = AssignedRange {
                range: InstanceRange { first, last },
                cluster,
                generation: Generation(1),
                former: None,
                releasing: None,
            };
            assignment.groups.get_or_default(main_group()).push(range);
        }
        store.add_cluster("north");
        Self {
            store,
            job,
            assignment,
        }
    }

    /// Mesos confirmed a cluster so many seconds ago.
    fn with(mut self, name: &str, health: Health, seconds: u64) -> Self {
        let heard = Timestamp(NOW.0 - seconds * 1000);
        self.store.health(&ClusterId::new(name), health, heard);
        self
    }

    fn listed(&mut self, state: JobState, assignment: Option<&Assignment>) -> JobView {
        let federation = run(
            &mut self.store,
            |facts| async move { Federation::read(&facts).await },
        );
        let federation = federation.unwrap();
        let mut counts = Counts::default();
        counts.add(RunState::Running, 3);
        let progress = Progress {
            state,
            groups: std::iter::once((main_group(), counts)).collect(),
            ..Progress::waiting(self.job, NOW)
        };
        let head = self.store.heads[&self.job].clone();
        let stale: Vec<Part> = federation.stale_parts(NOW).collect();
        JobView::new(head, None, Some(progress), &federation).with_stale_parts(assignment, &stale)
    }

    fn words(&mut self) -> Option<String> {
        let assignment = self.assignment.clone();
        self.listed(JobState::Running, Some(&assignment)).unconfirmed()
    }
}

#[test]
fn a_count_states_what_of_it_is_at_a_silent_cluster_and_how_old_that_is() {
    assert_eq!(Case::new().words(), None);
    let west = "2 at west unconfirmed for 1m";
    for health in [
        Health::CutOff,
        Health::WithoutMesos,
        Health::Lost,
        Health::Healthy,
    ] {
        let words = Case::new().with("west", health, 75).words();
        assert_eq!(words.as_deref(), Some(west), "{health}");
    }
    let mut both = Case::new()
        .with("west", Health::CutOff, 75)
        .with("east", Health::Lost, 9);
    assert_eq!(
        both.words().unwrap(),
        "1 at east unconfirmed for 9s, 2 at west unconfirmed for 1m"
    );
    let elsewhere = Case::new().with("north", Health::CutOff, 75).words();
    assert_eq!(elsewhere, None, "nothing of it is there");
}

#[test]
fn what_a_job_that_has_ended_became_is_stored() {
    let mut case = Case::new().with("west", Health::CutOff, 75);
    let assignment = case.assignment.clone();
    let ended = case.listed(JobState::Succeeded, Some(&assignment));
    assert_eq!(ended.unconfirmed(), None);
}

#[test]
fn without_its_assignment_it_is_not_known_how_much_is_there() {
    let mut case = Case::new().with("west", Health::CutOff, 75);
    let words = case.listed(JobState::Running, None).unconfirmed();
    assert_eq!(words.unwrap(), "an unknown number at west unconfirmed for 1m");
}

#[test]
fn one_silent_cluster_with_all_of_a_job_needs_no_name() {
    let mut case = Case::new().with("west", Health::CutOff, 75);
    let all = case.assignment.groups.get_or_default(main_group());
    for range in all {
        range.cluster = ClusterId::new("west");
    }
    assert_eq!(case.words().unwrap(), "unconfirmed for 1m");
}
