//! What may be forgotten since a backup was put back: acknowledged changes, versions that were seen, and ends of runs, all of them
//! from the moment of the copy on.

use crate::history::{Event, History};

/// Ends of runs that came while everything was frozen may be lost until so long after the resume: a run that has ended is in no list
/// of the master.
const ENDS_LOST_MS: u64 = 30_000;

/// A backup that was put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Backup {
    taken: u64,
    back: u64,
    resumed: Option<u64>,
}

/// All backups of a history that were put back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Backups(Vec<Backup>);

impl Backups {
    pub(crate) fn of(history: &History) -> Self {
        let (mut all, mut last): (Vec<Backup>, _) = (Vec::new(), None);
        for line in &history.lines {
            match &line.event {
                Event::BackupTaken => last = Some(line.at),
                Event::BackupBack => all.extend(last.take().map(|taken| Backup {
                    taken,
                    back: line.at,
                    resumed: None,
                })),
                Event::Resumed => {
                    let open = all.iter_mut().filter(|backup| backup.resumed.is_none());
                    open.for_each(|backup| backup.resumed = Some(line.at));
                }
                _ => {}
            }
        }
        Self(all)
    }

    /// Whether what was acknowledged or seen at this moment may be gone at a later one.
    pub(crate) fn forget(&self, at: u64, later: u64) -> bool {
        let mut all = self.0.iter();
        all.any(|backup| (backup.taken..=backup.back).contains(&at) && later >= backup.back)
    }

    /// Whether it may be gone in the end.
    pub(crate) fn lose(&self, at: u64) -> bool {
        self.forget(at, u64::MAX)
    }

    /// Whether storage was put back at this moment, and not resumed yet: nothing may begin.
    pub(crate) fn is_behind(&self, at: u64) -> bool {
        let mut all = self.0.iter();
        all.any(|backup| (backup.back..backup.resumed.unwrap_or(u64::MAX)).contains(&at))
    }

    /// Whether the end of a run at this moment may be forgotten, so that its instance runs again.
    pub(crate) fn forget_end(&self, at: u64) -> bool {
        let mut all = self.0.iter();
        all.any(|backup| {
            let until = backup.resumed.map_or(u64::MAX, |at| at + ENDS_LOST_MS);
            (backup.taken..=until).contains(&at)
        })
    }
}
