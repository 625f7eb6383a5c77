//! Whether storage, read past the product, has what was acknowledged, and whether answers are as new as what was known before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::backups::Backups;
use crate::history::{Event, History, StoredJob, Wish};
use crate::lives::Lives;
use crate::{Broken, Rule, TOLERANCE_MS};

/// What refuses a request for a job of which a row cannot be read.
const ROW_UNREAD: &str = "ROW_UNREAD";

/// Times in which jobs are set aside, since a row of them is unreadable on purpose.
pub(crate) struct SetAside<'a>(BTreeMap<&'a str, Vec<(u64, u64)>>);

impl<'a> SetAside<'a> {
    pub(crate) fn of(history: &'a History) -> Self {
        let mut times: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for line in &history.lines {
            match &line.event {
                Event::SpoilsRow { job, .. } => {
                    times.entry(job).or_default().push((line.at, u64::MAX));
                }
                Event::RowBack { job } => {
                    let of_job = times.entry(job).or_default().iter_mut();
                    // several rows of a job may be spoiled at one time
                    of_job
                        .filter(|(_, to)| *to == u64::MAX)
                        .for_each(|(_, to)| *to = line.at);
                }
                _ => {}
            }
        }
        Self(times)
    }

    /// Whether a job was set aside at some moment from `from` to `to`.
    pub(crate) fn between(&self, job: &str, from: u64, to: u64) -> bool {
        let times = self.0.get(job).into_iter().flatten();
        let mut times = times.filter(|(since, until)| *since <= to && from <= *until);
        times.next().is_some()
    }

    /// Whether this refusal is the right answer for a job that was set aside.
    pub(crate) fn excuses(&self, job: &str, asked: RangeInclusive<u64>, text: &str) -> bool {
        text.contains(ROW_UNREAD) && self.between(job, *asked.start(), *asked.end())
    }
}

pub(crate) fn judge(history: &History, lives: &Lives) -> Vec<Broken> {
    let aside = SetAside::of(history);
    let mut broken = touched(&aside, lives);
    let mut facts = Facts {
        backups: Backups::of(history),
        ..Facts::default()
    };
    let requests = history.requests();
    let mut acknowledged: Vec<(u64, &Wish)> = requests
        .iter()
        .filter_map(|request| Some((request.done_at()?, request.what)))
        .collect();
    acknowledged.sort_by_key(|(at, _)| *at);
    for line in &history.lines {
        match &line.event {
            Event::Started { shape, .. } => facts.must_be_read = shape == "federation",
            Event::Acknowledged { job, version } => {
                if *version == 0 {
                    let text = format!("a change of {job} was acknowledged without a version");
                    broken.push(Broken::new(Rule::Wrong, line.at, text));
                }
                facts.know(job, line.at, *version);
            }
            Event::Shown { asked_at, view } => {
                broken.extend(facts.older(&view.job, *asked_at, line.at, view.version, "is shown"));
                facts.know(&view.job, line.at, view.version);
            }
            Event::Listed { asked_at, views } => {
                for view in views {
                    broken.extend(facts.older(&view.job, *asked_at, line.at, view.version, "is listed"));
                }
                for view in views {
                    facts.know(&view.job, line.at, view.version);
                }
            }
            Event::StoredJobs { asked_at, jobs, .. } => {
                facts.is_read = true;
                let before = acknowledged.iter().filter(|(at, _)| at < asked_at);
                let before = before.filter(|(at, _)| !facts.backups.forget(*at, line.at));
                let before: Vec<&Wish> = before.map(|(_, what)| *what).collect();
                broken.extend(read(jobs, &before, (*asked_at, line.at), &aside));
                for job in jobs {
                    if let Some(found) = facts.older(&job.job, *asked_at, line.at, job.version, "is stored") {
                        broken.push(Broken {
                            rule: Rule::Missing,
                            ..found
                        });
                    }
                    facts.know(&job.job, line.at, job.version);
                }
            }
            Event::Checked { what, held, seen } if !held => {
                let text = format!("{what}; seen: {seen}");
                broken.push(Broken::new(Rule::Wrong, line.at, text));
            }
            _ => {}
        }
    }
    if facts.must_be_read && !facts.is_read {
        let text = "storage was never read past the product".to_owned();
        broken.push(Broken::new(Rule::Missing, history.end(), text));
    }
    broken
}

/// The versions that were known, with their moments.
#[derive(Default)]
struct Facts<'a> {
    versions: BTreeMap<&'a str, Vec<(u64, u64)>>,
    backups: Backups,
    must_be_read: bool,
    is_read: bool,
}

impl<'a> Facts<'a> {
    fn know(&mut self, job: &'a str, at: u64, version: u64) {
        let of_job = self.versions.entry(job).or_default();
        if of_job.last().is_none_or(|(_, last)| *last < version) {
            of_job.push((at, version));
        }
    }

    /// Something was asked for and told in an older version than was known before.
    fn older(&self, job: &str, asked_at: u64, at: u64, version: u64, how: &str) -> Option<Broken> {
        let of_job = self.versions.get(job)?;
        let before = of_job.iter().rev().filter(|(known_at, _)| *known_at < asked_at);
        let known = before
            .into_iter()
            .find(|(known_at, _)| !self.backups.forget(*known_at, at));
        let (_, known) = known.filter(|(_, known)| *known > version && version > 0)?;
        let text = format!("{job} {how} in version {version}, and {known} was known before");
        Some(Broken::new(Rule::Wrong, at, text))
    }
}

/// What a read of storage lacks of what was acknowledged before it.
fn read(
    jobs: &[StoredJob],
    before: &[&Wish],
    (asked_at, at): (u64, u64),
    aside: &SetAside<'_>,
) -> Vec<Broken> {
    let by_name: BTreeMap<&str, &StoredJob> = jobs.iter().map(|job| (job.job.as_str(), job)).collect();
    let missing = |text: String| Broken::new(Rule::Missing, at, text);
    let mut broken = Vec::new();
    if by_name.len() < jobs.len() {
        let ids: BTreeSet<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        let (names, ids) = (by_name.len(), ids.len());
        let text = format!("storage has {ids} jobs and {names} names");
        broken.push(Broken::new(Rule::Wrong, at, text));
    }
    for wish in before {
        match wish {
            Wish::Submit { job, .. }
                if !by_name.contains_key(job.as_str()) && !aside.between(job, asked_at, at) =>
            {
                broken.push(missing(format!("{job} was acknowledged and is not stored")));
            }
            Wish::Stop { job }
                if by_name
                    .get(job.as_str())
                    .is_some_and(|stored| stored.desired == "RUNNING") =>
            {
                broken.push(missing(format!(
                    "the stop of {job} was acknowledged and is not stored"
                )));
            }
            _ => {}
        }
    }
    broken
}

/// Tasks of a job that began or ended while it was set aside.
fn touched(aside: &SetAside<'_>, lives: &Lives) -> Vec<Broken> {
    let mut broken = Vec::new();
    for ((job, index), of_instance) in lives {
        for (from, to) in aside.0.get(job.as_str()).into_iter().flatten() {
            let inside = |at: u64| (from + TOLERANCE_MS..*to).contains(&at);
            for life in of_instance {
                let text =
                    |what: &str| format!("{job}/{index}: run {} {what} while it was set aside", life.run);
                if inside(life.began) {
                    broken.push(Broken::new(Rule::Touched, life.began, text("began")));
                }
                if let Some(at) = life.alive_until.filter(|at| inside(*at)) {
                    broken.push(Broken::new(Rule::Touched, at, text("ended")));
                }
            }
        }
    }
    broken
}
