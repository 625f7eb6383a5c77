//! What each reason says to a person.

use super::ReasonCode;

impl ReasonCode {
    /// What it says to a person, without numbers.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Accepted => "accepted, and not admitted yet",
            Self::MaxRunning => "waits because max_running of its group run already",
            Self::StopRequested => "the job was asked to stop",
            Self::DeleteRequested => "the job was deleted",
            Self::RestartRequested => "a restart was asked for",
            Self::ScaledDown => "the group was scaled down",
            Self::Moved => "leaves its cluster, and is assigned to another one",
            Self::NoCluster => "no cluster passes its filters",
            Self::NoClusterCapacity => "no cluster has room for it",
            Self::ClusterUnhealthy => "the cluster cannot start work now",
            Self::ClusterCordoned => "the cluster takes no new work",
            Self::ClusterFailOver => "the cluster is kept for fail-over",
            Self::ClusterShare => {
                "the clusters with capacity have as many of its instances as the job lets one cluster have"
            }
            Self::AwaitingGrant => "the grant is on its way to the shard",
            Self::HostResources => "hosts have too little left",
            Self::HostConstraint => "hosts do not meet a constraint",
            Self::NoHosts => "the cluster has no hosts",
            Self::AwaitingOffer => "waits for Mesos to offer hosts",
            Self::MesosQuota => "Mesos' quota lets this role have no more",
            Self::UsedByOthers => "other frameworks of this Mesos use what hosts have",
            Self::OfferedToOthers => {
                "other frameworks of this Mesos hold offers of what hosts have, and do not use it"
            }
            Self::HostAvoided => "avoids hosts on which it failed before",
            Self::HostMaintenance => "maintenance of its host, or of all that it could use, is planned",
            Self::HostPorts => "hosts have not the ports that it needs",
            Self::HostKept => "hosts with GPUs are kept for work that asks for GPUs",
            Self::HostSlack => "hosts lend too little room for revocable work",
            Self::HostVolume => "waits for the host that has its volume",
            Self::NoVolumes => {
                "the shard's Mesos role is `*`, for which no disk can be reserved; set `mesos_role` in its configuration"
            }
            Self::Launching => "the launch is on its way to Mesos",
            Self::LaunchDropped => "Mesos did not take the launch",
            Self::LaunchInvalid => "Mesos refused the task as invalid",
            Self::Starting => "its host prepares it",
            Self::LaunchUnauthorized => "Mesos' access rules forbid it",
            Self::LaunchFailed => "its host could not make its container",
            Self::PlatformRetry => {
                "a host could not run it; waits before the next try, on another host where there is one"
            }
            Self::Backoff => "waits before the next try",
            Self::Succeeded => "the command ended with status 0",
            Self::Failed => "the command failed",
            Self::Signalled => "the command was ended by a signal",
            Self::Killed => "was killed as asked",
            Self::KilledByHost => "was killed by its host",
            Self::HostUnreachable => "its host is silent; the run may still live",
            Self::HostGone => "its host, or the run on it, is gone",
            Self::Running => "running",
            Self::OlderRunAlive => "waits until its older run is known dead",
            Self::RetriesExhausted => "its retries are used up",
            Self::DeadlineExceeded => "its run deadline has passed",
            Self::Unhealthy => "its health check fails",
            Self::TaskGone => "Mesos says that it is not on its host any more",
            Self::LossAccepted => {
                "was lost with many others; an operator has said that none of them runs any more"
            }
            Self::GoneByOperator => "an operator has said that its host never returns",
            Self::TooManyOlderRuns => {
                "eight older runs of it may still live on hosts that are silent; \
                 `echelon host forget CLUSTER/HOST` says that such a host never returns"
            }
            Self::TaskUnknown => "Mesos knows neither it nor its host; the run may still live",
            Self::OutOfMemory => "used more memory than it asked for, and its host killed it",
            Self::OutOfDisk => "used more disk than it asked for, and its host killed it",
            Self::Preempted => "its host wanted back the room that it had lent",
            Self::HostDraining => "its host is being drained",
            Self::ExecutorFailed => "the process that ran it on its host failed",
            Self::StorageUnavailable => {
                "storage cannot be written at the moment; nothing is started or stopped until it can"
            }
            Self::MesosUnavailable => "the Mesos master cannot be reached at the moment",
            Self::NoResourceManager => "no resource manager is heard at the moment",
            Self::NoShardLeader => "the cluster's shard has no leader at the moment",
            Self::Recovering => "the shard is still reading its state",
            Self::StorageRolledBack => {
                "storage is behind what runs; starts and kills are frozen until `echelon storage resume`"
            }
            Self::AwaitingClusters => {
                "storage was resumed; it goes to a cluster when all clusters have told what they run"
            }
            Self::ClusterLost => "its cluster is lost",
            Self::StartsForbidden => {
                "its cluster was cut off; nothing new begins there until the resource manager allows it again"
            }
            Self::MassLoss => {
                "was lost with many others at once; it is replaced when an operator accepts the loss, unless it comes back"
            }
            Self::FrameworkRemoved => "Mesos has removed our framework, and its tasks with it",
            Self::OtherReasons => "other reasons, each of fewer instances",
            Self::RowRefused => {
                "storage refuses a row of its group for good; nothing of the group is started, replaced or moved"
            }
            Self::KillsOff => "is to end, and lives on while an operator has switched kills off",
            _ => self.of_rollouts(),
        }
    }

    const fn of_rollouts(self) -> &'static str {
        match self {
            Self::RolloutUpdate => "is brought to the version that is wanted",
            Self::RolloutPaused => "the rollout was paused by command",
            Self::RolloutCanary => "the canaries run the new version and wait to be promoted",
            Self::RolloutFailures => "more instances failed with the new version than max_failures allows",
            Self::RolloutAborted => "the rollout was aborted by command",
            Self::RolloutRollback => "an earlier version was asked for",
            Self::CrashLooping => "fails again and again: each try waits for longer than the one before",
            Self::RolloutSpec => "the version that it is to run is still being read",
            _ => self.of_pools(),
        }
    }

    const fn of_rules(self) -> &'static str {
        match self {
            Self::HostMaxPer => "as many of its group as may be (max_per) are wherever it could run",
            Self::HostPool => "hosts are in other host pools than the one that it may use (host_pool)",
            Self::HostAffinity => "no host is near to the jobs that it has to be near to (affinity)",
            Self::HostAntiAffinity => "all hosts are near to jobs that it is kept away from (anti_affinity)",
            Self::HostExclusive => {
                "no host is free of other jobs where one of both wants it for itself (exclusive)"
            }
            _ => self.of_gangs(),
        }
    }

    const fn of_gangs(self) -> &'static str {
        match self {
            Self::GangIncomplete => {
                "a part of its gang did not run in time; all of it is stopped to begin anew"
            }
            Self::GangRestart => {
                "a member of its gang failed or was lost; all of it is stopped to begin anew"
            }
            Self::GangFailed => "a member of its gang has failed for good",
            Self::GangTopology => "no hosts that are together as its gang has to be have room for all of it",
            Self::GangWaits => "waits to begin together with the rest of its gang",
            Self::GangTooLarge => "no cluster is large enough for its whole gang",
            Self::CapacityHold => "capacity is kept for it as other work ends",
            Self::RowUnread => "is set aside: what is stored of it cannot be read by this build",
            Self::Newer(_) => "a reason of a newer version",
            Self::GangBlocked => {
                "what is in the way of its whole gang has no deadline (max_run) and may not be stopped for it"
            }
            _ => "",
        }
    }

    const fn of_pools(self) -> &'static str {
        match self {
            Self::PoolNotFound => "its pool does not exist; create the pool or delete the job",
            Self::PoolLimit => "its pool's limit is reached",
            Self::PoolEntitlement => "its pool uses all that it is entitled to",
            Self::PoolRevocableLimit => "is revocable; such work has all that its pool may have of lent room",
            Self::StartDeadline => "the run did not start within max_start",
            Self::AfterJob => "waits for another job",
            Self::DependencyFailed => "another job can no longer come to what this one waits for",
            Self::CompletionMet => "as many instances have succeeded as the job needs",
            Self::TooManyFailed => "more instances have failed than the job goes on with",
            Self::WaitDeadline => "nothing of the job began within max_wait",
            Self::TotalDeadline => "the job did not end within max_total",
            Self::OnSchedule => "runs nothing itself: jobs are made of it at the times of its schedule",
            Self::DriverEnded => "the group that drives the job has ended, and the job with it",
            Self::ScheduleReplaced => "a later job of its schedule takes its place (overlap is replace)",
            Self::PoolClusterHeld => {
                "its pool is entitled to room that is in use, and who has it has no more than his own"
            }
            Self::PoolReservation => "is not preemptible; such work has all of its pool's reservation",
            Self::PoolControllers => "is a controller, and controllers have all that its pool allows them",
            Self::PoolJobs => "its pool has as many jobs that have begun as it may have",
            Self::PoolInstances => "its pool has as many active instances as it may have",
            Self::PoolClaim => {
                "room for it is being made: others that have more than their own are being stopped"
            }
            Self::PoolPreempted => "was preempted: its room is for a pool that is entitled to it",
            _ => self.of_rules(),
        }
    }
}
