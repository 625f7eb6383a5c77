//! What a simulated federation is made of, and how much goes wrong in it.

use echelon_core_model::Span;

/// The shape of a run. One seed with one set of options is one history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Clusters.
    pub clusters: usize,
    /// Hosts of each cluster.
    pub hosts: usize,
    /// Cores that each host lends beside its own.
    pub lent: u64,
    /// Other frameworks on each cluster, see `others.rs`.
    pub others: usize,
    /// Processes of each shard: one leads, the others stand by.
    pub shards: usize,
    /// Resource-manager processes.
    pub managers: usize,
    /// Pools of equal share, to which jobs belong in turn. With more than one, jobs want more than there is: all are of plain instances
    /// of one core, some of them gangs, and the end is judged by what each pool has of it.
    pub pools: usize,
    /// Cores that each pool has reserved.
    pub reserved: u64,
    /// Paths of pools beside these, those above them included; jobs belong to any of them without pools below.
    pub more_pools: &'static [&'static str],
    /// In how many worlds of a thousand pools have bounds, and jobs that meet them.
    pub bounded: u32,
    /// How long grants hold.
    pub lease: Span,
    /// A shard reports changes so long after those before. It is drawn in worlds of many clusters.
    pub report_apart: Span,
    /// Users' jobs.
    pub jobs: usize,
    /// Instances of a service of one more user, which asks for nothing else; 0: there is none.
    pub lasting: u32,
    /// Of a thousand jobs so many are daemons, where pools are not compared.
    pub daemons: u32,
    /// Most instances of a job.
    pub instances: u32,
    /// Faults happen until then.
    pub faulty: Span,
    /// From the last fault until everything must have come to rest.
    pub settle: Span,
    /// What goes wrong.
    pub faults: FaultRates,
    /// Whether clusters, pools and jobs are drawn as `pressure.rs` says, of which `clusters` are the most.
    pub pressure: bool,
    /// Whether clusters, jobs and what goes wrong are drawn as `federation.rs` says.
    pub federated: bool,
    /// Whether the trace tells every message and every call, for whoever looks into a failure.
    pub detailed: bool,
}

/// Faults in a run, as counts over its faulty part, and losses as chances in a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// Processes killed and started again.
    pub crashes: u32,
    /// Processes stopped for a while that go on as if nothing had been.
    pub pauses: u32,
    /// Processes that lose their connections to the membership servers for a while, mostly for less than a lease.
    pub blips: u32,
    /// Streams between resource manager and shard cut, or silent for a while.
    pub links: u32,
    /// Subscriptions to Mesos broken.
    pub streams: u32,
    /// Agents that fall silent and come back.
    pub agents: u32,
    /// Masters that fail over.
    pub masters: u32,
    /// Times that most hosts of a cluster are lost together, and its next master does not know them.
    pub losses: u32,
    /// 1: operators put an earlier copy of storage back.
    pub backups: u32,
    /// Machines whose maintenance is planned and done.
    pub maintenances: u32,
    /// Hosts that an operator wants empty for a while.
    pub drains: u32,
    /// Hosts that an operator moves to another host pool for a while.
    pub moves: u32,
    /// Times that an operator switches kills off for a while.
    pub switches: u32,
    /// Changes of the tree of pools.
    pub trees: u32,
    /// Hosts that lend another amount for a while, and end what runs on more.
    pub estimates: u32,
    /// Agents that drop each task that comes, for a while.
    pub starts: u32,
    /// Storage operations in a thousand whose outcome the caller does not learn, half of them after they took effect.
    pub storage: u32,
    /// Of a thousand reads of specs by shards so many come late, by up to 20 seconds.
    pub late_specs: u32,
    /// Calls to Mesos in a thousand that are lost with their connection.
    pub calls: u32,
    /// Clusters that join later; the first is always there.
    pub joins: u32,
    /// Times that a cluster is drained or cordoned for a while.
    pub wishes: u32,
    /// Times that all processes and hosts of a cluster are lost for a while.
    pub outages: u32,
    /// Times that a pool gets another share.
    pub shares: u32,
}

impl FaultRates {
    /// Some faults of Echelon's processes and of what they speak with. Agents and masters stay.
    #[must_use]
    pub fn of_echelon() -> Self {
        Self {
            crashes: 3,
            pauses: 2,
            blips: 2,
            links: 2,
            streams: 2,
            storage: 10,
            calls: 10,
            ..Self::default()
        }
    }
}

impl Options {
    /// A small world in which nothing goes wrong.
    #[must_use]
    pub const fn calm() -> Self {
        Self {
            clusters: 2,
            hosts: 3,
            lent: 0,
            others: 0,
            shards: 1,
            managers: 1,
            pools: 1,
            reserved: 0,
            more_pools: &[],
            bounded: 0,
            lease: Span::minutes(10),
            report_apart: Span::millis(100),
            jobs: 2,
            lasting: 0,
            daemons: 0,
            instances: 8,
            faulty: Span::seconds(60),
            settle: Span::minutes(4),
            faults: FaultRates {
                crashes: 0,
                pauses: 0,
                blips: 0,
                links: 0,
                streams: 0,
                agents: 0,
                masters: 0,
                losses: 0,
                backups: 0,
                maintenances: 0,
                drains: 0,
                moves: 0,
                switches: 0,
                trees: 0,
                estimates: 0,
                starts: 0,
                storage: 0,
                late_specs: 0,
                calls: 0,
                joins: 0,
                wishes: 0,
                outages: 0,
                shares: 0,
            },
            pressure: false,
            federated: false,
            detailed: false,
        }
    }

    /// Two to six clusters of one to three hosts. Some of them are lost for a while, drained, added or removed.
    #[must_use]
    pub const fn of_many_clusters() -> Self {
        Self {
            clusters: 6,
            hosts: 1,
            shards: 2,
            managers: 2,
            jobs: 0,
            faulty: Span::minutes(9),
            settle: Span::minutes(6),
            federated: true,
            ..Self::calm()
        }
    }

    /// The small world of CI in which everything goes wrong.
    #[must_use]
    pub const fn stormy() -> Self {
        Self {
            clusters: 2,
            hosts: 3,
            lent: 4,
            others: 0,
            shards: 2,
            managers: 2,
            pools: 1,
            reserved: 0,
            more_pools: &["/a", "/a/x", "/a/y", "/b"],
            bounded: 400,
            lease: Span::minutes(10),
            report_apart: Span::millis(100),
            jobs: 4,
            lasting: 0,
            daemons: 0,
            instances: 8,
            faulty: Span::minutes(4),
            settle: Span::minutes(16),
            faults: FaultRates {
                crashes: 6,
                pauses: 3,
                blips: 6,
                links: 3,
                streams: 3,
                agents: 2,
                masters: 1,
                losses: 0,
                backups: 0,
                maintenances: 1,
                drains: 1,
                moves: 0,
                switches: 1,
                trees: 8,
                estimates: 6,
                storage: 20,
                late_specs: 300,
                calls: 20,
                ..Self::calm().faults
            },
            pressure: false,
            federated: false,
            detailed: false,
        }
    }

    /// The same with daemons among the jobs.
    #[must_use]
    pub const fn with_daemons() -> Self {
        Self {
            daemons: 400,
            bounded: 0,
            ..Self::stormy()
        }
    }

    /// A small world of two pools that both want all of it, and in which everything goes wrong that takes no room away.
    #[must_use]
    pub const fn contested() -> Self {
        let stormy = Self::stormy();
        Self {
            lent: 0,
            pools: 2,
            reserved: 6,
            more_pools: &[],
            bounded: 0,
            lease: Span::seconds(20),
            jobs: 6,
            lasting: 0,
            instances: 14,
            faults: FaultRates {
                maintenances: 0,
                drains: 0,
                estimates: 0,
                trees: 4,
                ..stormy.faults
            },
            ..stormy
        }
    }

    /// Nested pools that want more than there is, with mixed shapes and kinds of work, on 1 to 5 clusters that join,
    /// drain, are cordoned and are lost for a while.
    #[must_use]
    pub const fn under_pressure() -> Self {
        let stormy = Self::stormy();
        Self {
            clusters: 5,
            lent: 0,
            more_pools: &[],
            bounded: 0,
            lease: Span::seconds(20),
            jobs: 10,
            instances: 12,
            settle: Span::minutes(20),
            faults: FaultRates {
                agents: 1,
                maintenances: 0,
                drains: 0,
                estimates: 0,
                trees: 0,
                joins: 1,
                wishes: 3,
                outages: 1,
                shares: 3,
                ..stormy.faults
            },
            pressure: true,
            ..stormy
        }
    }
}
