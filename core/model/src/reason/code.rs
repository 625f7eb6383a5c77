//! The closed set of reasons, by number and word.

/// Which layer of the system makes an instance wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The user's own wish (stopped, max_running).
    Goal,
    /// Quota: pool limits and entitlement.
    Pool,
    /// Choice of a cluster.
    Routing,
    /// Choice of a host.
    Placement,
    /// Between the choice of a host and the running task.
    Launch,
    /// What the run itself did.
    Run,
    /// The system's own parts: storage, leaders, links.
    System,
}

/// Makes the enum and what maps it to numbers from one list.
macro_rules! reason_codes {
    ($($(#[$doc:meta])+ $name:ident = $number:literal,)+) => {
        /// Machine-readable reasons. A code is stable; its number is what is stored and sent.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReasonCode {
            $($(#[$doc])+ $name,)+
            /// A number that this build does not know: a newer build gave this reason. It is kept as it is. Only `from_number`
            /// makes it, so it is never a number of the others.
            Newer(u32),
        }

        impl ReasonCode {
            /// All codes that this build knows, in order of number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The number that is stored and sent.
            #[must_use]
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)+
                    Self::Newer(number) => number,
                }
            }

            /// The code of a number.
            #[must_use]
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$name,)+
                    _ => Self::Newer(number),
                }
            }
        }
    };
}

reason_codes! {
    /// Accepted, not looked at yet.
    Accepted = 1,
    /// Others of the group run up to `max_running`.
    MaxRunning = 2,
    /// The job is to be stopped.
    StopRequested = 3,
    /// The job is to be deleted.
    DeleteRequested = 4,
    /// A restart was asked for.
    RestartRequested = 5,
    /// The group was scaled down.
    ScaledDown = 6,
    /// The instance leaves its cluster, and is assigned to another one.
    Moved = 7,
    /// A part of its gang did not run in time: all of it is stopped, to begin anew together.
    GangIncomplete = 8,
    /// The rest of its gang cannot begin yet.
    GangWaits = 9,
    /// Its pool does not exist (any more).
    PoolNotFound = 10,
    /// The pool's limit is reached.
    PoolLimit = 11,
    /// The pool's entitlement is used up.
    PoolEntitlement = 12,
    /// Its pool's reservation is taken by work that is not preemptible, as it is.
    PoolReservation = 13,
    /// Its pool's controllers have all that they may have, and it is one.
    PoolControllers = 14,
    /// As many jobs of its pool as may have begun, and it has not.
    PoolJobs = 15,
    /// As many instances of its pool are active as may be.
    PoolInstances = 16,
    /// Room for it is being made: others that have more than their own are being stopped.
    PoolClaim = 18,
    /// Preempted: its room is for a pool that is entitled to it.
    PoolPreempted = 19,
    /// No cluster passes the filters.
    NoCluster = 20,
    /// No cluster has room.
    NoClusterCapacity = 21,
    /// The shard of a cluster that it could use has not reported yet.
    ClusterUnhealthy = 22,
    /// A cluster that it could use is cordoned or draining.
    ClusterCordoned = 23,
    /// The grant has not reached the shard yet.
    AwaitingGrant = 24,
    /// A cluster that it could use is kept for fail-over, and another can take it.
    ClusterFailOver = 25,
    /// The clusters with capacity have as many of its instances as they may.
    ClusterShare = 26,
    /// No cluster's hosts together are large enough for all of a gang.
    GangTooLarge = 27,
    /// Capacity is kept for it at a cluster, or for all of its gang, as other work there ends.
    CapacityHold = 28,
    /// What is in a gang's way has no deadline and may not be stopped for it.
    GangBlocked = 29,
    /// Hosts have too little of a kind left.
    HostResources = 30,
    /// Hosts do not meet a constraint.
    HostConstraint = 31,
    /// The cluster has no host at all (yet).
    NoHosts = 32,
    /// Waiting for an offer.
    AwaitingOffer = 33,
    /// Hosts that this instance should avoid after failures there.
    HostAvoided = 34,
    /// Hosts are to be empty for planned maintenance.
    HostMaintenance = 35,
    /// Hosts have too few ports left, or not the one that is wanted.
    HostPorts = 36,
    /// Hosts have GPUs and are kept for work that asks for some.
    HostKept = 37,
    /// Hosts lend too little room for revocable work.
    HostSlack = 38,
    /// Its volume is on a host that is not offered, is silent or has too little left for it.
    HostVolume = 39,
    /// The launch is on its way to Mesos.
    Launching = 40,
    /// Mesos did not take the launch.
    LaunchDropped = 41,
    /// Mesos refused the task as invalid.
    LaunchInvalid = 42,
    /// The host has the run and prepares it: fetches, mounts, starts its command.
    Starting = 43,
    /// Mesos' access rules forbid the launch.
    LaunchUnauthorized = 44,
    /// The host could not make the run's container.
    LaunchFailed = 45,
    /// The cluster's shard has a Mesos role for which nothing can be reserved.
    NoVolumes = 46,
    /// Its last run ended by the platform: it waits before it is tried again, on another host where there is one.
    PlatformRetry = 47,
    /// A retry waits for its backoff.
    Backoff = 50,
    /// The command ended with status 0.
    Succeeded = 51,
    /// The command ended with another status, or was never started.
    Failed = 52,
    /// The command was ended by a signal.
    Signalled = 53,
    /// The run was killed as asked.
    Killed = 54,
    /// The run was killed by the host (memory, disk, drain).
    KilledByHost = 55,
    /// The host is silent; the run may live.
    HostUnreachable = 56,
    /// The host, or the run on it, is gone.
    HostGone = 57,
    /// Running.
    Running = 58,
    /// An older run of the instance is not known dead yet.
    OlderRunAlive = 59,
    /// Its retries are used up.
    RetriesExhausted = 60,
    /// The run deadline has passed.
    DeadlineExceeded = 61,
    /// Failing health.
    Unhealthy = 62,
    /// Mesos knows the host, and says that the task is not there any more.
    TaskGone = 63,
    /// Mesos knows neither the task nor its host; the run may live.
    TaskUnknown = 64,
    /// It used more memory than it asked for.
    OutOfMemory = 65,
    /// It used more disk than it asked for.
    OutOfDisk = 66,
    /// Its host wanted lent room back.
    Preempted = 67,
    /// Its host is being drained.
    HostDraining = 68,
    /// The process that ran it on its host failed.
    ExecutorFailed = 69,
    /// Storage cannot be written at the moment.
    StorageUnavailable = 70,
    /// Mesos cannot be reached at the moment.
    MesosUnavailable = 71,
    /// No resource manager leads, or reaches the cluster, at the moment.
    NoResourceManager = 72,
    /// The shard has no leader at the moment.
    NoShardLeader = 73,
    /// The shard is still reading and sealing its state.
    Recovering = 74,
    /// Storage was rolled back: everything is frozen.
    StorageRolledBack = 75,
    /// Too many running tasks of the cluster were lost at once: replacements wait for an operator.
    MassLoss = 76,
    /// Mesos has removed our framework, and with it all of its tasks.
    FrameworkRemoved = 77,
    /// Kills are switched off: what is to end lives on.
    KillsOff = 78,
    /// What is stored of it cannot be understood by this build: it is set aside.
    RowUnread = 79,
    /// Storage refuses a row of its group for good.
    RowRefused = 80,
    /// Several reasons that are not told one by one.
    OtherReasons = 81,
    /// The pool's revocable work has all that it may have of what hosts lend.
    PoolRevocableLimit = 90,
    /// Its pool is entitled to room for it; those who have the cluster have no more than their own.
    PoolClusterHeld = 91,
    /// As many of its group as may be are on, or in the rack or zone of, each host that it could use.
    HostMaxPer = 100,
    /// No host is near to the jobs that it has to be near to.
    HostAffinity = 101,
    /// All hosts are near to jobs that it, or who is there, has to be away from.
    HostAntiAffinity = 102,
    /// All hosts would be shared with others, where one of both wants them for itself.
    HostExclusive = 103,
    /// The run did not start within `max_start`.
    StartDeadline = 110,
    /// Another job has not come to what this one waits for.
    AfterJob = 111,
    /// Another job can no longer come to what this one waits for.
    DependencyFailed = 112,
    /// As many instances have succeeded as the job needs.
    CompletionMet = 113,
    /// More instances have failed than the job goes on with.
    TooManyFailed = 114,
    /// Nothing of the job began within `max_wait`.
    WaitDeadline = 115,
    /// The job did not end within `max_total`.
    TotalDeadline = 116,
    /// It runs nothing itself: jobs are made of it at the times of its schedule.
    OnSchedule = 117,
    /// A later job of its schedule takes its place.
    ScheduleReplaced = 118,
    /// The group that drives the job has ended, and the job with it.
    DriverEnded = 119,
    /// It is brought to the version that is wanted.
    RolloutUpdate = 120,
    /// A rollout was paused by command.
    RolloutPaused = 121,
    /// Its canaries wait to be accepted.
    RolloutCanary = 122,
    /// More instances failed with the new version than may.
    RolloutFailures = 123,
    /// A rollout was aborted by command: it goes back.
    RolloutAborted = 124,
    /// An earlier version was asked for.
    RolloutRollback = 125,
    /// The version that it is to run is still being read.
    RolloutSpec = 126,
    /// A member of its gang failed or was lost: all of it is stopped, to begin anew together.
    GangRestart = 218,
    /// A member of its gang has failed for good.
    GangFailed = 219,
    /// No hosts that are together as its gang is to be have room for all of it.
    GangTopology = 220,
    /// It fails again and again.
    CrashLooping = 222,
    /// Hosts are in another host pool than the one that it may use.
    HostPool = 233,
    /// It was lost with many others, and an operator has said that none of them runs any more.
    LossAccepted = 234,
    /// An operator has said that its host never returns.
    GoneByOperator = 235,
    /// As many older runs of it as are kept may still live: nothing more is begun.
    TooManyOlderRuns = 236,
    /// Storage was resumed, and some clusters have not told yet what they run.
    AwaitingClusters = 237,
    /// Its cluster was cut off for so long that nothing new may begin there until the resource manager allows it again.
    StartsForbidden = 238,
    /// Its cluster is silent for longer than its job waits: it begins at another one.
    ClusterLost = 239,
    /// Mesos' quota lets our role have no more.
    MesosQuota = 240,
    /// Tasks of other frameworks use what hosts have.
    UsedByOthers = 241,
    /// Other frameworks have been offered what hosts have, and neither use it nor give it back.
    OfferedToOthers = 242,
}

impl ReasonCode {
    /// The layer that gives this reason.
    #[must_use]
    pub const fn layer(self) -> Layer {
        if matches!(self, Self::Newer(_)) {
            return Layer::System;
        }
        match self.number() {
            0..=9 | 111..=129 | 218 | 219 => Layer::Goal,
            // The first ten are used up.
            10..=19 | 90..=99 => Layer::Pool,
            20..=29 => Layer::Routing,
            30..=39 | 100..=109 | 220 | 233 | 240..=242 => Layer::Placement,
            40..=49 => Layer::Launch,
            50..=69 | 110 | 222 | 234..=236 => Layer::Run,
            _ => Layer::System,
        }
    }

    /// Whether a run that was stopped for this is followed by another one, by our own wish: `max_unavailable` bounds how many are.
    #[must_use]
    pub const fn is_replacement(self) -> bool {
        matches!(
            self,
            Self::RestartRequested | Self::HostMaintenance | Self::RolloutUpdate
        )
    }

    /// Whether active instances wait for this, beside those that are counted as waiting to begin.
    #[must_use]
    pub const fn withholds(self) -> bool {
        matches!(
            self,
            Self::MassLoss
                | Self::KillsOff
                | Self::RowRefused
                | Self::CrashLooping
                | Self::PlatformRetry
                | Self::RowUnread
                | Self::TooManyOlderRuns
        )
    }

    /// The stable word of the API: `POOL_LIMIT`.
    #[must_use]
    pub fn word(self) -> String {
        if matches!(self, Self::Newer(_)) {
            return "NEWER".to_owned();
        }
        let camel = format!("{self:?}");
        let mut out = String::with_capacity(camel.len() + 4);
        for (i, c) in camel.chars().enumerate() {
            if c.is_ascii_uppercase() && i > 0 {
                out.push('_');
            }
            out.push(c.to_ascii_uppercase());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart_by_number_and_word() {
        for pair in ReasonCode::ALL.windows(2) {
            assert!(pair[0].number() < pair[1].number(), "{pair:?}");
        }
        for code in ReasonCode::ALL {
            assert_eq!(ReasonCode::from_number(code.number()), *code);
            assert!(code.word().chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            assert!(!code.sentence().is_empty(), "{code:?}");
        }
        let newer = ReasonCode::from_number(9999);
        assert_eq!((newer, newer.number()), (ReasonCode::Newer(9999), 9999));
        assert_eq!((newer.word().as_str(), newer.layer()), ("NEWER", Layer::System));
        assert_eq!(ReasonCode::PoolLimit.word(), "POOL_LIMIT");
    }
}
