//! Processes that took more memory than what they were asked for may take.

use crate::history::{Event, History};
use crate::{Broken, Rule};

pub(crate) fn judge(history: &History) -> Vec<Broken> {
    let taken = history.lines.iter().filter_map(|line| match &line.event {
        Event::Memory {
            process,
            before,
            peak,
            most,
        } if peak > most => {
            let text = format!("{process} went from {before} to {peak} KiB, above {most}");
            Some(Broken::new(Rule::Memory, line.at, text))
        }
        _ => None,
    });
    taken.collect()
}
