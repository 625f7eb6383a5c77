//! Which runs of a job have kept logs: a list that is bounded in length and in bytes, and the times in which more ended than can be kept.

use crate::id::{ClusterId, JobId, SidecarName, TaskId};
use crate::pod::MemberId;
use crate::time::{Span, Timestamp};

/// Most bytes of the list of a job's kept runs: storage takes rows of 512 KiB, and it is written whole with what was read.
const MAX_LIST: u64 = 256 * 1024;

/// Most runs that make room for one: each is removed with the same batch.
const MOST_DISPLACED: usize = 64;

/// A run of which something is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRun {
    /// Which.
    pub run: TaskId,
    /// What runs beside its main task.
    pub sidecars: Vec<SidecarName>,
    /// Whether it ended otherwise than by success: such a one stays longer.
    pub failed: bool,
}

impl KeptRun {
    /// Every task of which there is a row.
    pub fn tasks(&self) -> impl Iterator<Item = MemberId> + '_ {
        let all = std::iter::once(None).chain(self.sidecars.iter().cloned().map(Some));
        all.map(|sidecar| MemberId {
            run: self.run.clone(),
            sidecar,
        })
    }

    /// Bytes that it takes in the list where that is stored, about: never less than it really does.
    #[must_use]
    pub fn stored_size(&self) -> u64 {
        let sidecars: usize = self.sidecars.iter().map(|s| s.as_str().len() + 3).sum();
        let size = self.run.instance.group.as_str().len() + sidecars + 70;
        u64::try_from(size).unwrap_or(u64::MAX)
    }
}

/// The runs of a job at a cluster of which something is kept, in the order in which they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRuns {
    /// The job.
    pub job: JobId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The runs.
    pub runs: Vec<KeptRun>,
    /// How many more were kept once and made room for these.
    pub displaced: u64,
}

impl KeptRuns {
    /// None yet.
    #[must_use]
    pub const fn new(job: JobId, cluster: ClusterId) -> Self {
        Self {
            job,
            cluster,
            runs: Vec::new(),
            displaced: 0,
        }
    }

    /// Whether something of a run is kept.
    #[must_use]
    pub fn has(&self, run: &TaskId) -> bool {
        self.runs.iter().any(|kept| kept.run == *run)
    }

    /// Bytes that it takes where it is stored, about: never less than it really does.
    #[must_use]
    pub fn stored_size(&self) -> u64 {
        let runs: u64 = self.runs.iter().map(KeptRun::stored_size).sum();
        runs.saturating_add(200)
    }

    /// Adds a run and takes out who goes for it, where there are more than `most` or the list becomes too large to be stored: who succeeded
    /// goes before who did not, and else the one that was kept first.
    pub fn add(&mut self, run: KeptRun, most: usize) -> Vec<KeptRun> {
        self.runs.retain(|kept| kept.run != run.run);
        self.runs.push(run);
        let mut gone = Vec::new();
        let mut size = self.stored_size();
        let is_full = |len: usize, size: u64| len > most.max(1) || (size > MAX_LIST && len > 1);
        // Of a list that was longer under other settings, some go with each.
        while is_full(self.runs.len(), size) && gone.len() < MOST_DISPLACED {
            // Never the newest: it would be read in vain.
            let older = self.runs.len() - 1;
            let succeeded = self.runs.iter().take(older).position(|kept| !kept.failed);
            let run = self.runs.remove(succeeded.unwrap_or(0));
            size = size.saturating_sub(run.stored_size());
            gone.push(run);
            self.displaced += 1;
        }
        gone
    }
}

/// A time in which more runs ended than can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogGap {
    /// When the first of them ended.
    pub from: Timestamp,
    /// When the last of them ended.
    pub to: Timestamp,
    /// How many were not kept.
    pub runs: u64,
}

/// Gaps that are remembered; the oldest is forgotten first.
const GAPS: usize = 64;

/// Gaps closer to each other than this are one.
const ONE_GAP: Span = Span::seconds(1);

impl LogGap {
    /// Notes that a run which ended at a moment was not kept.
    pub fn note(gaps: &mut Vec<Self>, at: Timestamp) {
        let near = |gap: &&mut Self| {
            at.0.saturating_add(ONE_GAP.0) > gap.from.0 && at.0 < gap.to.0.saturating_add(ONE_GAP.0)
        };
        if let Some(gap) = gaps.iter_mut().rev().find(near) {
            gap.from = gap.from.min(at);
            gap.to = gap.to.max(at);
            gap.runs += 1;
            return;
        }
        gaps.push(Self {
            from: at,
            to: at,
            runs: 1,
        });
        if gaps.len() > GAPS {
            gaps.remove(0);
        }
    }

    /// The gap that a run which ended at a moment fell into.
    #[must_use]
    pub fn around(gaps: &[Self], at: Timestamp) -> Option<Self> {
        gaps.iter().rev().find(|g| (g.from..=g.to).contains(&at)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Generation, GroupName, InstanceId, InstanceNumber, RunNumber};

    fn run(number: u32, failed: bool) -> KeptRun {
        let instance = InstanceId {
            job: JobId(7),
            group: GroupName::new("main"),
            number: InstanceNumber(number),
        };
        KeptRun {
            run: TaskId {
                instance,
                generation: Generation(1),
                run: RunNumber(1),
            },
            sidecars: Vec::new(),
            failed,
        }
    }

    fn numbers(runs: &[KeptRun]) -> Vec<u32> {
        runs.iter().map(|r| r.run.instance.number.0).collect()
    }

    #[test]
    fn who_failed_stays_longer_and_the_newest_always() {
        let mut kept = KeptRuns::new(JobId(7), ClusterId::new("c1"));
        for n in 0..3 {
            assert!(kept.add(run(n, n == 0), 3).is_empty());
        }
        assert_eq!(numbers(&kept.add(run(3, true), 3)), [1]);
        assert_eq!(numbers(&kept.add(run(4, true), 3)), [2]);
        assert_eq!(
            numbers(&kept.add(run(5, false), 3)),
            [0],
            "it is the newest, and all others failed"
        );
        assert_eq!(numbers(&kept.add(run(6, true), 3)), [5]);
        assert_eq!((numbers(&kept.runs), kept.displaced), (vec![3, 4, 6], 4));
        assert!(kept.has(&run(3, true).run) && !kept.has(&run(5, true).run));
    }

    #[test]
    fn a_list_stays_small_enough_to_be_stored_however_long_the_names_of_sidecars_are() {
        let mut kept = KeptRuns::new(JobId(7), ClusterId::new("c1"));
        let long = |n: u32| KeptRun {
            sidecars: (0..8).map(|s| SidecarName::new(format!("{s:063}"))).collect(),
            ..run(n, false)
        };
        let gone: Vec<u32> = (0..2_000)
            .flat_map(|n| numbers(&kept.add(long(n), 2_000)))
            .collect();
        assert!(kept.stored_size() <= MAX_LIST, "{}", kept.stored_size());
        assert_eq!(
            gone,
            (0..kept.displaced)
                .map(|n| u32::try_from(n).unwrap())
                .collect::<Vec<_>>()
        );
        assert_eq!(kept.runs.len() + gone.len(), 2_000);
        assert!(kept.runs.len() > 400, "{}", kept.runs.len());
    }

    #[test]
    fn a_list_that_is_too_long_under_new_settings_shrinks_in_steps() {
        let mut kept = KeptRuns::new(JobId(7), ClusterId::new("c1"));
        for n in 0..500 {
            kept.add(run(n, false), 1_000);
        }
        assert_eq!(kept.add(run(500, false), 10).len(), MOST_DISPLACED);
        for n in 501..600 {
            kept.add(run(n, false), 10);
        }
        assert_eq!(numbers(&kept.runs), (590..600).collect::<Vec<_>>());
    }

    #[test]
    fn a_run_that_is_kept_again_is_listed_once() {
        let mut kept = KeptRuns::new(JobId(7), ClusterId::new("c1"));
        assert!(kept.add(run(1, true), 2).is_empty());
        assert!(kept.add(run(1, true), 2).is_empty());
        assert_eq!((kept.runs.len(), kept.displaced), (1, 0));
    }

    #[test]
    fn gaps_of_one_time_are_one_and_the_oldest_is_forgotten() {
        let mut gaps = Vec::new();
        for at in [5_000, 5_400, 4_900, 9_000] {
            LogGap::note(&mut gaps, Timestamp(at));
        }
        let first = LogGap {
            from: Timestamp(4_900),
            to: Timestamp(5_400),
            runs: 3,
        };
        assert_eq!(gaps.first(), Some(&first));
        assert_eq!(LogGap::around(&gaps, Timestamp(5_000)), Some(first));
        assert_eq!(LogGap::around(&gaps, Timestamp(6_000)), None);
        for n in 0..100 {
            LogGap::note(&mut gaps, Timestamp(20_000 + n * 10_000));
        }
        assert_eq!(gaps.len(), GAPS);
        assert_eq!(LogGap::around(&gaps, Timestamp(5_000)), None);
    }
}
