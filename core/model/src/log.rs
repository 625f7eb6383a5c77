//! What is kept of what runs have written, once they have ended: the ends of their outputs, so that logs answer after the loss of a
//! host or a cluster. One row for each task of a run; one row for each job at a cluster lists the runs; and what was not kept
//! because too many ended at once is told by the shard's own row.

use crate::id::{ClusterId, JobId, SidecarName, TaskId};
use crate::pod::MemberId;
use crate::time::{Span, Timestamp};
use std::fmt;
use std::sync::Arc;

/// How long what is kept stays in storage.
pub const LOGS_KEPT: Span = Span::minutes(7 * 24 * 60);

/// Most bytes of one output that can be kept: a row has two of them, and storage takes rows of 512 KiB.
pub const MAX_TAIL: u64 = 192 * 1024;

/// Most bytes of the list of a job's kept runs: storage takes rows of 512 KiB, and it is written whole with what was read.
const MAX_LIST: u64 = 256 * 1024;

/// Most runs that make room for one: each is removed with the same batch.
const MOST_DISPLACED: usize = 64;

/// Why the end of an output is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum NoTail {
    /// The sandbox has no such file.
    NoFile = 1,
    /// The host's agent did not answer.
    AgentSilent = 2,
    /// The host's agent refused, or gave no sensible answer.
    AgentRefused = 3,
    /// Nobody knew where the host's agent listens.
    AgentUnknown = 4,
}

impl NoTail {
    /// All of them, in order of number.
    pub const ALL: [Self; 4] = [
        Self::NoFile,
        Self::AgentSilent,
        Self::AgentRefused,
        Self::AgentUnknown,
    ];

    /// The one of a stored number.
    #[must_use]
    pub fn from_number(n: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|why| u32::from(why.number()) == n)
    }

    /// The number that is stored.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether it may be otherwise in a moment.
    #[must_use]
    pub const fn may_pass(self) -> bool {
        matches!(self, Self::AgentSilent | Self::AgentUnknown)
    }

    /// The word of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoFile => "no_file",
            Self::AgentSilent => "agent_silent",
            Self::AgentRefused => "agent_refused",
            Self::AgentUnknown => "agent_unknown",
        }
    }
}

impl fmt::Display for NoTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFile => "its sandbox had no such file",
            Self::AgentSilent => "its host did not answer",
            Self::AgentRefused => "its host's agent refused to let it be read",
            Self::AgentUnknown => "it was not known where its host's agent listens",
        })
    }
}

/// The end of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Its last bytes, any bytes; all of them where `size` is their number.
    Read {
        /// The bytes.
        bytes: Arc<[u8]>,
        /// Length of the whole output.
        size: u64,
    },
    /// It could not be read.
    Missing(NoTail),
}

impl Tail {
    /// Bytes that are there.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Read { bytes, .. } => size_of(bytes),
            Self::Missing(_) => 0,
        }
    }

    /// Whether no bytes are there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same, of at most so many bytes: the last ones.
    #[must_use]
    pub fn within(self, most: u64) -> Self {
        match self {
            Self::Read { bytes, size } if size_of(&bytes) > most => {
                let cut = usize::try_from(size_of(&bytes) - most).unwrap_or(usize::MAX);
                let bytes = bytes.get(cut..).unwrap_or_default().into();
                Self::Read { bytes, size }
            }
            short => short,
        }
    }

    /// Why it is not there, if it is not.
    #[must_use]
    pub const fn missing(&self) -> Option<NoTail> {
        match self {
            Self::Read { .. } => None,
            Self::Missing(why) => Some(*why),
        }
    }
}

fn size_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The ends of both outputs of one task of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tails {
    /// Whose; `None`: the main task's.
    pub sidecar: Option<SidecarName>,
    /// Of its standard output.
    pub stdout: Tail,
    /// Of its standard error.
    pub stderr: Tail,
}

impl Tails {
    /// Both missing for one reason.
    #[must_use]
    pub const fn missing(sidecar: Option<SidecarName>, why: NoTail) -> Self {
        Self {
            sidecar,
            stdout: Tail::Missing(why),
            stderr: Tail::Missing(why),
        }
    }

    /// The same, of at most so many bytes of each.
    #[must_use]
    pub fn within(self, most: u64) -> Self {
        Self {
            stdout: self.stdout.within(most),
            stderr: self.stderr.within(most),
            ..self
        }
    }

    /// Bytes that are there.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.stdout.len().saturating_add(self.stderr.len())
    }

    /// Whether no bytes are there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What is kept of one task of a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLog {
    /// The run.
    pub run: TaskId,
    /// When it was read.
    pub at: Timestamp,
    /// The host's name, for people.
    pub hostname: Arc<str>,
    /// What was read.
    pub tails: Tails,
}

impl KeptLog {
    /// The task that wrote it.
    #[must_use]
    pub fn task(&self) -> MemberId {
        MemberId {
            run: self.run.clone(),
            sidecar: self.tails.sidecar.clone(),
        }
    }
}

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

    #[test]
    fn a_tail_is_cut_in_front_and_only_where_it_is_too_long() {
        let tail = |text: &[u8]| Tail::Read {
            bytes: text.into(),
            size: 10,
        };
        assert_eq!(tail(b"abc").within(3), tail(b"abc"));
        assert_eq!(tail(b"\xffbc").within(2), tail(b"bc"));
        assert_eq!(tail(b"abc").within(0), tail(b""));
        assert_eq!(tail(b"").within(3), tail(b""));
    }

    #[test]
    fn numbers_of_reasons_read_back() {
        for why in NoTail::ALL {
            assert_eq!(NoTail::from_number(why.number().into()), Some(why));
        }
        assert_eq!(NoTail::from_number(0), None);
    }
}
