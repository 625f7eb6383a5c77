//! Whether work was lost, run twice, or left undone.

use std::collections::{BTreeMap, BTreeSet};

use crate::absences::Absences;
use crate::backups::Backups;
use crate::history::{Event, History, Kind, Wish};
use crate::lives::{Life, Lives};
use crate::{Broken, Rule, TOLERANCE_MS};

/// What clients want of a job.
#[derive(Debug, Default)]
struct Wanted {
    kind: Option<Kind>,
    instances: u32,
    acknowledged: bool,
    /// Asked for, perhaps in vain.
    stop_asked: bool,
    stop_acknowledged: bool,
    restarts: Vec<u64>,
}

pub(crate) fn judge(history: &History, lives: &Lives) -> Vec<Broken> {
    let (backups, absences) = (Backups::of(history), Absences::of(history));
    let wanted = wanted(history, &backups);
    let mut broken = Vec::new();
    for ((job, index), of_instance) in lives {
        let Some(wish) = wanted.get(job.as_str()) else {
            let at = of_instance.first().map_or(0, |life| life.began);
            let text = format!("{job}/{index} ran and was never asked for");
            broken.push(Broken::new(Rule::Wrong, at, text));
            continue;
        };
        broken.extend(twice(job, *index, of_instance));
        let early = of_instance.iter().filter(|life| backups.is_behind(life.began));
        broken.extend(early.map(|life| {
            let text = format!(
                "{job}/{index}: run {} began on storage that was put back",
                life.run
            );
            Broken::new(Rule::Wrong, life.began, text)
        }));
        if wish.kind == Some(Kind::Batch) {
            broken.extend(again(
                &format!("{job}/{index}"),
                of_instance,
                &wish.restarts,
                (&backups, &absences),
            ));
        }
    }
    broken.extend(missing(history, &wanted));
    broken.extend(in_the_end(history, lives, &wanted));
    broken
}

/// What may be lost in the end counts as not acknowledged.
fn wanted<'a>(history: &'a History, backups: &Backups) -> BTreeMap<&'a str, Wanted> {
    let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
    for request in history.requests() {
        let is_done = request.done_at().is_some_and(|at| !backups.lose(at));
        match request.what {
            Wish::Submit { job, kind, instances } => {
                let wish = wanted.entry(job).or_default();
                wish.kind = Some(*kind);
                wish.instances = *instances;
                wish.acknowledged |= is_done;
            }
            Wish::Stop { job } => {
                let wish = wanted.entry(job).or_default();
                wish.stop_asked = true;
                wish.stop_acknowledged |= is_done;
            }
            Wish::Restart { job } => wanted.entry(job).or_default().restarts.push(request.asked_at),
            Wish::Get { .. } | Wish::List | Wish::Events { .. } => {}
        }
    }
    wanted
}

/// Runs of an instance that lived at one time.
fn twice(job: &str, index: u32, lives: &[Life]) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (place, earlier) in lives.iter().enumerate() {
        for later in lives.iter().skip(place + 1) {
            let overlap = earlier
                .alive_until
                .map_or(u64::MAX, |until| until.saturating_sub(later.began));
            // the later one may have been shorter than the tolerance and still was one too many
            if overlap > TOLERANCE_MS {
                let text = format!(
                    "{job}/{index}: run {} (pid {}, {}) began while run {} (pid {}, {}) lived",
                    later.run, later.pid, later.host, earlier.run, earlier.pid, earlier.host
                );
                broken.push(Broken::new(Rule::Twice, later.began, text));
            }
        }
    }
    broken
}

/// Runs that began after one of the same instance had finished, unless a restart was asked for in between.
fn again(
    instance: &str,
    lives: &[Life],
    restarts: &[u64],
    (backups, absences): (&Backups, &Absences),
) -> Vec<Broken> {
    let mut broken = Vec::new();
    for (place, later) in lives.iter().enumerate() {
        let earlier = lives.iter().take(place);
        let finished = earlier
            .filter_map(|life| Some((life, life.done?)))
            .filter(|(life, done)| !backups.forget_end(*done) && !absences.hide_end(&life.host, *done))
            .find(|(_, done)| {
                *done < later.began && !restarts.iter().any(|at| (*done..=later.began).contains(at))
            });
        if let Some((life, _)) = finished {
            let text = format!(
                "{instance}: run {} began after run {} had finished",
                later.run, life.run
            );
            broken.push(Broken::new(Rule::Again, later.began, text));
        }
    }
    broken
}

/// Acknowledged jobs that the last whole list lacks.
fn missing(history: &History, wanted: &BTreeMap<&str, Wanted>) -> Vec<Broken> {
    let lists = history.lines.iter().rev();
    let last = lists.into_iter().find_map(|line| match &line.event {
        Event::Listed { views, .. } => Some((line.at, views)),
        _ => None,
    });
    let acknowledged = wanted.iter().filter(|(_, wish)| wish.acknowledged);
    match last {
        None => {
            let text = "no whole list of jobs was ever read".to_owned();
            vec![Broken::new(Rule::Missing, history.end(), text)]
        }
        Some((at, views)) => {
            let there: BTreeSet<&str> = views.iter().map(|view| view.job.as_str()).collect();
            acknowledged
                .filter(|(job, _)| !there.contains(*job))
                .map(|(job, _)| Broken::new(Rule::Missing, at, format!("{job} was acknowledged and is gone")))
                .collect()
        }
    }
}

/// What is not as it is wanted when the judged time is over.
fn in_the_end(history: &History, lives: &Lives, wanted: &BTreeMap<&str, Wanted>) -> Vec<Broken> {
    let over = history.lines.iter().rev();
    let over = over
        .into_iter()
        .find(|line| line.event == Event::Over)
        .map_or(history.end(), |line| line.at);
    let none = Vec::new();
    let mut broken = Vec::new();
    for (job, wish) in wanted {
        for index in 0..wish.instances {
            let of_instance = lives.get(&((*job).to_owned(), index)).unwrap_or(&none);
            let n_alive = of_instance
                .iter()
                .filter(|life| life.alive_until.is_none_or(|until| until >= over))
                .count();
            let is_done = of_instance.iter().any(|life| life.done.is_some());
            if wish.stop_acknowledged && n_alive > 0 {
                let text = format!("{job}/{index} was stopped and still runs");
                broken.push(Broken::new(Rule::NotStopped, over, text));
            }
            if !wish.acknowledged || wish.stop_asked {
                continue;
            }
            let text = match wish.kind {
                Some(Kind::Batch) if !is_done => format!("{job}/{index} was acknowledged and is not done"),
                Some(Kind::Service) if n_alive == 0 => format!("{job}/{index} is wanted and does not run"),
                _ => continue,
            };
            broken.push(Broken::new(Rule::NotRunning, over, text));
        }
    }
    broken
}
