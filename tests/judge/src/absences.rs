//! Periods in which an agent's process was down and its tasks kept running. The exit code of a task that ends then is lost: Mesos
//! reports a failure (`REASON_EXECUTOR_TERMINATED`), and a retry is right.

use crate::history::{Event, History};

/// A restarted agent needs this long until its executors are connected again.
const FINDS_WITHIN_MS: u64 = 15_000;

/// All such periods of a history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Absences(Vec<Absence>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Absence {
    host: String,
    from: u64,
    until: Option<u64>,
}

impl Absences {
    pub(crate) fn of(history: &History) -> Self {
        let mut all: Vec<Absence> = Vec::new();
        for line in &history.lines {
            match &line.event {
                Event::AgentDown { host } => all.push(Absence {
                    host: host.clone(),
                    from: line.at,
                    until: None,
                }),
                Event::AgentUp { host } => {
                    let open = all.iter_mut().filter(|a| a.host == *host && a.until.is_none());
                    open.for_each(|absence| absence.until = Some(line.at));
                }
                _ => {}
            }
        }
        Self(all)
    }

    /// Whether the exit code of a task that ended at this moment on this host was lost.
    pub(crate) fn hide_end(&self, host: &str, at: u64) -> bool {
        self.0
            .iter()
            .filter(|absence| absence.host == host)
            .any(|absence| {
                let until = absence
                    .until
                    .map_or(u64::MAX, |until| until.saturating_add(FINDS_WITHIN_MS));
                (absence.from..=until).contains(&at)
            })
    }
}
