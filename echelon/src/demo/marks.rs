//! What the runs of a scenario leave in a folder, and what that shows. Nothing here asks the federation.
//!
//! Each run writes files named after it, and the times of these files are its marks. `work.sh` writes them.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The program of every run.
const WORK: &str = include_str!("cluster_loss/work.sh");

/// A run without a mark for longer does not live. It writes one every half second, on an idle machine.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// A job of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkedJob {
    /// Its name.
    pub(super) name: String,
    /// What its instances do.
    pub(super) work: MarkedWork,
    /// How many it has.
    pub(super) instances: usize,
}

/// What the instances of a job do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkedWork {
    /// They run until they are stopped.
    Service,
    /// They run until they have a result.
    Batch,
}

/// An instance of a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MarkedInstance {
    job: String,
    index: u32,
}

/// What a run has left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkedRun {
    pub(super) instance: MarkedInstance,
    pub(super) cluster: String,
    /// When it began.
    pub(super) began: SystemTime,
    /// When it last showed life.
    pub(super) seen: SystemTime,
    /// It was asked to end.
    pub(super) is_stopped: bool,
    /// It has done its work.
    pub(super) has_result: bool,
}

/// The folder of marks.
#[derive(Debug)]
pub(super) struct MarksFolder(PathBuf);

/// All marks at one moment.
#[derive(Debug, Clone)]
pub(super) struct MarkedRuns {
    pub(super) runs: Vec<MarkedRun>,
    pub(super) now: SystemTime,
}

/// What came of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkedOutcome {
    /// Instances that began at one cluster and later at another one.
    pub(super) moved: usize,
    /// Runs of batch work that were stopped.
    pub(super) killed: usize,
    /// Instances of which two runs lived at once, or that have two results.
    pub(super) doubled: usize,
    /// Instances of services that do not run, and of batch work without a result.
    pub(super) lost: usize,
}

impl fmt::Display for MarkedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Service => "service",
            Self::Batch => "batch",
        })
    }
}

impl fmt::Display for MarkedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            moved,
            killed,
            doubled,
            lost,
        } = self;
        write!(
            f,
            "{moved} moved, {killed} killed, {doubled} doubled, {lost} lost"
        )
    }
}

impl MarksFolder {
    /// Makes the folder, with the program of all runs in it.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let folder = folder.join("marks");
        std::fs::create_dir_all(&folder).context("make the folder of marks")?;
        std::fs::write(folder.join("work.sh"), WORK).context("write the program of the runs")?;
        Ok(Self(folder))
    }

    /// Where runs find it: `$MARKS`.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    /// Lets batch work come to its end.
    pub(super) fn finish(&self) -> Result<()> {
        std::fs::write(self.0.join("finish"), "").context("let batch work end")
    }

    /// Reads all marks.
    pub(super) fn read(&self) -> Result<MarkedRuns> {
        let mut found: BTreeMap<String, BTreeMap<String, SystemTime>> = BTreeMap::new();
        for entry in std::fs::read_dir(&self.0).context("read the marks")? {
            let entry = entry.context("read the marks")?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some((run, mark)) = name.rsplit_once('.') {
                let at = entry
                    .metadata()
                    .and_then(|of| of.modified())
                    .context("read a mark")?;
                found
                    .entry(run.to_owned())
                    .or_default()
                    .insert(mark.to_owned(), at);
            }
        }
        let runs = found.iter().filter_map(|(run, marks)| marked_run(run, marks));
        Ok(MarkedRuns {
            runs: runs.collect(),
            now: SystemTime::now(),
        })
    }
}

/// The run of a name such as `web.3.west.1.1.4711`. `None`: that is no run.
fn marked_run(name: &str, marks: &BTreeMap<String, SystemTime>) -> Option<MarkedRun> {
    let mut parts = name.split('.');
    let (job, index, cluster) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let began = *marks.get("begun")?;
    Some(MarkedRun {
        instance: MarkedInstance {
            job: job.to_owned(),
            index,
        },
        cluster: cluster.to_owned(),
        began,
        seen: marks.values().max().copied().unwrap_or(began),
        is_stopped: marks.contains_key("stopped"),
        has_result: marks.contains_key("result"),
    })
}

impl MarkedRuns {
    fn lives(&self, run: &MarkedRun) -> bool {
        // A mark may be newer than `now` was when it was read.
        let age = self.now.duration_since(run.seen).unwrap_or_default();
        !run.is_stopped && !run.has_result && age < SILENT_AFTER
    }

    /// The instances of a job of which a run lives.
    pub(super) fn living(&self, job: &MarkedJob) -> BTreeSet<&MarkedInstance> {
        let of_job = self.of(job).filter(|run| self.lives(run));
        of_job.map(|run| &run.instance).collect()
    }

    /// How many runs of a job live at a cluster.
    pub(super) fn living_at(&self, job: &MarkedJob, cluster: &str) -> usize {
        let there = self.of(job).filter(|run| run.cluster == cluster);
        there.filter(|run| self.lives(run)).count()
    }

    /// How many runs of a job were asked to end.
    fn stopped(&self, job: &MarkedJob) -> usize {
        self.of(job).filter(|run| run.is_stopped).count()
    }

    fn of(&self, job: &MarkedJob) -> impl Iterator<Item = &MarkedRun> {
        self.runs.iter().filter(|run| run.instance.job == job.name)
    }

    /// What came of these jobs.
    pub(super) fn outcome(&self, jobs: &[MarkedJob]) -> MarkedOutcome {
        let mut by_instance: BTreeMap<&MarkedInstance, Vec<&MarkedRun>> = BTreeMap::new();
        for run in &self.runs {
            by_instance.entry(&run.instance).or_default().push(run);
        }
        let of_batch = jobs.iter().filter(|job| job.work == MarkedWork::Batch);
        MarkedOutcome {
            moved: by_instance.values().filter(|runs| has_moved(runs)).count(),
            killed: of_batch.map(|job| self.stopped(job)).sum(),
            doubled: by_instance.values().filter(|runs| is_doubled(runs)).count(),
            lost: jobs.iter().map(|job| self.lost(job)).sum(),
        }
    }

    fn lost(&self, job: &MarkedJob) -> usize {
        let kept = match job.work {
            MarkedWork::Service => self.living(job).len(),
            MarkedWork::Batch => {
                let done = self.of(job).filter(|run| run.has_result);
                done.map(|run| &run.instance).collect::<BTreeSet<_>>().len()
            }
        };
        job.instances.saturating_sub(kept)
    }
}

fn has_moved(runs: &[&MarkedRun]) -> bool {
    let clusters: BTreeSet<&str> = runs.iter().map(|run| run.cluster.as_str()).collect();
    clusters.len() > 1
}

/// Whether a run showed life after another one of its instance had begun. What was killed shows its last life
/// up to half a second before its end.
fn is_doubled(runs: &[&MarkedRun]) -> bool {
    let mut in_order = runs.to_vec();
    in_order.sort_by_key(|run| run.began);
    let mut seen: Option<SystemTime> = None;
    let overlaps = in_order.iter().any(|run| {
        let is_within = seen.is_some_and(|seen| seen > run.began);
        seen = seen.max(Some(run.seen));
        is_within
    });
    overlaps || runs.iter().filter(|run| run.has_result).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// A run of instance 0 from one second to another.
    fn run(job: &str, cluster: &str, began: u64, seen: u64) -> MarkedRun {
        let marks = [("begun", began), ("beat", seen)].map(|(mark, s)| (mark.to_owned(), at(s)));
        marked_run(&format!("{job}.0.{cluster}.1.1.7"), &marks.into()).unwrap()
    }

    fn outcome(runs: Vec<MarkedRun>) -> (usize, usize, usize, usize) {
        let job = |name: &str, work| MarkedJob {
            name: name.to_owned(),
            work,
            instances: 1,
        };
        let jobs = [job("web", MarkedWork::Service), job("render", MarkedWork::Batch)];
        let MarkedOutcome {
            moved,
            killed,
            doubled,
            lost,
        } = MarkedRuns { runs, now: at(100) }.outcome(&jobs);
        (moved, killed, doubled, lost)
    }

    #[test]
    fn marks_tell_what_moved_was_killed_doubled_and_lost() {
        let web = |cluster: &str, began, seen| run("web", cluster, began, seen);
        let render = |began, seen| run("render", "east", began, seen);
        let stopped = |began, seen| MarkedRun {
            is_stopped: true,
            ..render(began, seen)
        };
        let done = |began, seen| MarkedRun {
            has_result: true,
            ..render(began, seen)
        };
        let cases = [
            ("nothing ran", vec![], (0, 0, 0, 2)),
            ("all is well", vec![web("east", 1, 99), done(1, 98)], (0, 0, 0, 0)),
            (
                "one moved",
                vec![web("east", 1, 10), web("west", 20, 99), done(1, 98)],
                (1, 0, 0, 0),
            ),
            (
                "one gave way",
                vec![web("east", 1, 99), stopped(1, 50), done(60, 98)],
                (0, 1, 0, 0),
            ),
            (
                "two lived at once",
                vec![web("east", 1, 21), web("west", 20, 99), done(1, 98)],
                (1, 0, 1, 0),
            ),
            (
                "one within another",
                vec![web("west", 20, 30), web("east", 1, 99), done(1, 98)],
                (1, 0, 1, 0),
            ),
            (
                "two results",
                vec![web("east", 1, 99), done(1, 50), done(60, 98)],
                (0, 0, 1, 0),
            ),
            (
                "the service is gone",
                vec![web("east", 1, 90), done(1, 98)],
                (0, 0, 0, 1),
            ),
            ("no result", vec![web("east", 1, 99), render(1, 99)], (0, 0, 0, 1)),
        ];
        for (name, runs, expected) in cases {
            assert_eq!(outcome(runs), expected, "{name}");
        }
    }
}
