//! Answers that cannot be true, and requests that got none.

use std::collections::{BTreeMap, BTreeSet};

use crate::backups::Backups;
use crate::history::{Event, History, JobView, Kind, Outcome, Request, Wish};
use crate::lives::Lives;
use crate::stored::SetAside;
use crate::{Broken, Rule, TOLERANCE_MS};

/// Answers that say "not now"; any other refusal of what is valid is wrong.
const NOT_NOW: [u16; 5] = [408, 429, 500, 503, 504];

/// What another conflict than a lasting one says.
const TRY_AGAIN: &str = "ABORTED";

/// The state of a job of which each instance succeeded.
const SUCCEEDED: &str = "JOB_STATE_SUCCEEDED";

/// States that a job never leaves but for being deleted.
const ENDED: [&str; 3] = [SUCCEEDED, "JOB_STATE_FAILED", "JOB_STATE_STOPPED"];

/// A submitted job, as its answers must know it.
struct Known {
    kind: Kind,
    instances: u32,
    /// When its first acknowledgement came.
    since: Option<u64>,
}

pub(crate) fn judge(history: &History, lives: &Lives) -> Vec<Broken> {
    let requests = history.requests();
    let known = known(&requests);
    let aside = SetAside::of(history);
    let backups = Backups::of(history);
    let mut broken: Vec<Broken> = requests
        .iter()
        .filter_map(|request| refused(request, &known, (&aside, &backups)))
        .collect();
    let mut ended = BTreeMap::new();
    for line in &history.lines {
        match &line.event {
            Event::Shown { asked_at, view } => {
                broken.extend(view_of(view, &known, lives, line.at));
                broken.extend(turned_back(view, (*asked_at, line.at), &mut ended, &backups));
            }
            Event::Listed { asked_at, views } => {
                broken.extend(list(views, (*asked_at, line.at), &known, (&aside, &backups)));
                for view in views {
                    broken.extend(view_of(view, &known, lives, line.at));
                    broken.extend(turned_back(view, (*asked_at, line.at), &mut ended, &backups));
                }
            }
            Event::GaveUp { what, tries } => {
                let text = format!("{what:?}: no answer in {tries} tries");
                broken.push(Broken::new(Rule::GivenUp, line.at, text));
            }
            _ => {}
        }
    }
    broken
}

fn known<'a>(requests: &[Request<'a>]) -> BTreeMap<&'a str, Known> {
    let mut known: BTreeMap<&str, Known> = BTreeMap::new();
    for request in requests {
        if let Wish::Submit { job, kind, instances } = request.what {
            let of_job = known.entry(job).or_insert(Known {
                kind: *kind,
                instances: *instances,
                since: None,
            });
            of_job.since = of_job.since.or(request.done_at());
        }
    }
    known
}

/// An answer that is an error, or says of what is there that it is not.
fn refused(
    request: &Request<'_>,
    known: &BTreeMap<&str, Known>,
    (aside, backups): (&SetAside<'_>, &Backups),
) -> Option<Broken> {
    let Some((at, outcome)) = request.answer else {
        let text = format!("{:?} was never answered", request.what);
        return Some(Broken::new(Rule::Error, request.asked_at, text));
    };
    match outcome {
        Outcome::Done => None,
        Outcome::Unknown { why } => Some(Broken::new(Rule::Error, at, format!("{:?}: {why}", request.what))),
        Outcome::Refused { status, text }
            if NOT_NOW.contains(status) || (*status == 409 && text.contains(TRY_AGAIN)) =>
        {
            let text = format!("{:?}: {status} {text}", request.what);
            Some(Broken::new(Rule::Error, at, text))
        }
        Outcome::Refused { status, text } => {
            let job = match request.what {
                Wish::Get { job } | Wish::Events { job } | Wish::Stop { job } | Wish::Restart { job } => {
                    Some(job.as_str())
                }
                Wish::Submit { .. } | Wish::List => None,
            };
            if job.is_some_and(|job| aside.excuses(job, request.asked_at..=at, text)) {
                return None;
            }
            let of_job = job.and_then(|job| known.get(job));
            // a job whose submit was not answered yet may be there or not
            let is_excused = *status == 404
                && of_job.is_some_and(|job| {
                    job.since
                        .is_none_or(|since| since > request.asked_at || backups.forget(since, at))
                });
            let text = format!("{:?}: {status} {text}", request.what);
            (!is_excused).then(|| Broken::new(Rule::Wrong, at, text))
        }
    }
}

/// A list must have what was acknowledged before it, and each job once.
fn list(
    views: &[JobView],
    (asked_at, at): (u64, u64),
    known: &BTreeMap<&str, Known>,
    (aside, backups): (&SetAside<'_>, &Backups),
) -> Vec<Broken> {
    let names: BTreeSet<&str> = views.iter().map(|view| view.job.as_str()).collect();
    let ids: BTreeSet<&str> = views.iter().map(|view| view.id.as_str()).collect();
    let mut broken = Vec::new();
    if ids.len() < views.len() || names.len() < views.len() {
        let text = format!(
            "a list of {} jobs has {} names and {} ids",
            views.len(),
            names.len(),
            ids.len()
        );
        broken.push(Broken::new(Rule::Wrong, at, text));
    }
    let lacks = known
        .iter()
        .filter(|(_, of)| {
            of.since
                .is_some_and(|since| since < asked_at && !backups.forget(since, at))
        })
        .filter(|(job, _)| !names.contains(*job))
        .filter(|(job, _)| !aside.between(job, asked_at, at));
    broken.extend(lacks.map(|(job, _)| {
        Broken::new(
            Rule::Wrong,
            at,
            format!("a list lacks {job}, which was acknowledged"),
        )
    }));
    broken
}

/// What a view of one job says that cannot be.
fn view_of(view: &JobView, known: &BTreeMap<&str, Known>, lives: &Lives, at: u64) -> Vec<Broken> {
    let wrong = |text: String| Broken::new(Rule::Wrong, at, text);
    let Some(job) = known.get(view.job.as_str()) else {
        return vec![wrong(format!("{} is shown and was never asked for", view.job))];
    };
    let mut broken = Vec::new();
    let counted: u64 = view.counts.iter().map(|counts| counts.count).sum();
    if counted > u64::from(job.instances) {
        broken.push(wrong(format!(
            "{} has {} instances and {counted} are counted",
            view.job, job.instances
        )));
    }
    if view.state == SUCCEEDED {
        let is_done = |index: u32| {
            let of_instance = lives.get(&(view.job.clone(), index)).into_iter().flatten();
            of_instance
                .filter_map(|life| life.done)
                .any(|done| done <= at + TOLERANCE_MS)
        };
        if job.kind == Kind::Service {
            broken.push(wrong(format!(
                "{} is a service and is said to have succeeded",
                view.job
            )));
        } else if let Some(index) = (0..job.instances).find(|index| !is_done(*index)) {
            broken.push(wrong(format!(
                "{} is said to have succeeded, and its instance {index} has not finished",
                view.job
            )));
        }
    }
    broken
}

/// A job that was said to have ended must not be shown as running by a later question.
fn turned_back<'a>(
    view: &'a JobView,
    (asked_at, at): (u64, u64),
    ended: &mut BTreeMap<&'a str, (u64, &'a str)>,
    backups: &Backups,
) -> Option<Broken> {
    if ENDED.contains(&view.state.as_str()) {
        ended.entry(&view.job).or_insert((at, &view.state));
        return None;
    }
    let (since, state) = ended.get(view.job.as_str())?;
    let text = format!("{} was {state} and is {} later", view.job, view.state);
    let is_later = *since < asked_at && !backups.forget(*since, at);
    (is_later && view.state != "JOB_STATE_DELETED").then(|| Broken::new(Rule::Wrong, at, text))
}
