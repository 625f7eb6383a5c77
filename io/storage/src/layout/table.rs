//! The tables and their columns. The Cassandra schema repeats them as frozen statements; a test compares the two.

/// What a table's cells of one column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Number,
    Text,
    Bytes,
}

/// A column of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: &'static str,
    pub kind: CellKind,
}

/// How the rows of a table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// By compare-and-set alone. The named column guards a row's changes; without one a row is only ever inserted.
    Decided { guard: Option<&'static str> },
    /// By one leader, each write with a stamp. Rows go by themselves after so many milliseconds, where it says so.
    Owned { keep_ms: Option<u64> },
}

/// The columns of a table beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    pub partition: &'static [Column],
    pub key: &'static [Column],
    pub ownership: Ownership,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Heads,
    Specs,
    Names,
    Requests,
    PoolParts,
    PoolIndex,
    Clusters,
    Assignments,
    EndedAssignments,
    Leaderships,
    Progress,
    ClusterStates,
    Shards,
    Instances,
    Archive,
    Heartbeats,
    Marks,
    Hosts,
    Events,
    EventEnds,
    Control,
    StartBans,
    Logs,
    KeptRuns,
}

/// Request ids are kept for 24 h.
pub(crate) const REQUEST_KEEP_MS: u64 = echelon_core_model::store::REQUEST_IDS_KEPT.0;
/// Events are kept for 30 days: long enough to explain last month's incident.
pub(crate) const EVENT_KEEP_MS: u64 = 30 * 24 * 3600 * 1000;
/// For longer than any event that it is about.
pub(crate) const EVENT_END_KEEP_MS: u64 = EVENT_KEEP_MS + 2 * 24 * 3600 * 1000;
/// What ended runs have written is kept for a week.
pub(crate) const LOG_KEEP_MS: u64 = echelon_core_model::log::LOGS_KEPT.0;
/// Deletions of owned rows are remembered for a day, longer than any late write may be under way.
pub(crate) const DELETION_KEEP_MS: u64 = 24 * 3600 * 1000;

const fn number(name: &'static str) -> Column {
    let kind = CellKind::Number;
    Column { name, kind }
}

const fn text(name: &'static str) -> Column {
    let kind = CellKind::Text;
    Column { name, kind }
}

const fn bytes(name: &'static str) -> Column {
    let kind = CellKind::Bytes;
    Column { name, kind }
}

const BUCKET: Column = number("bucket");
const JOB: Column = bytes("job");
const VERSION: Column = number("version");
const NAME: Column = text("name");
const ID: Column = text("id");
const ONE: Column = number("one");
const PART: Column = number("part");
const PIECE: Column = number("piece");
const KIND: Column = text("kind");
const ROLE: Column = text("role");
const CLUSTER: Column = text("cluster");
const GROUP: Column = text("group");
const BLOCK: Column = number("block");
const OWNER: Column = text("owner");
const DAY: Column = number("day");
const LANE: Column = number("lane");
const EPOCH: Column = number("epoch");
const STAMP: Column = number("stamp");
const TASK: Column = text("task");
const PLACE: Column = number("place");
const DIGEST: Column = bytes("digest");

const fn decided(partition: &'static [Column], key: &'static [Column], guard: &'static str) -> Columns {
    Columns {
        partition,
        key,
        ownership: Ownership::Decided { guard: Some(guard) },
    }
}

const fn inserted(partition: &'static [Column], key: &'static [Column]) -> Columns {
    Columns {
        partition,
        key,
        ownership: Ownership::Decided { guard: None },
    }
}

const fn owned(partition: &'static [Column], key: &'static [Column]) -> Columns {
    Columns {
        partition,
        key,
        ownership: Ownership::Owned { keep_ms: None },
    }
}

const fn kept(partition: &'static [Column], key: &'static [Column], keep_ms: u64) -> Columns {
    Columns {
        partition,
        key,
        ownership: Ownership::Owned {
            keep_ms: Some(keep_ms),
        },
    }
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 24] = [
        Self::Heads,
        Self::Specs,
        Self::Names,
        Self::Requests,
        Self::PoolParts,
        Self::PoolIndex,
        Self::Clusters,
        Self::Assignments,
        Self::EndedAssignments,
        Self::Leaderships,
        Self::Progress,
        Self::ClusterStates,
        Self::Shards,
        Self::Instances,
        Self::Archive,
        Self::Heartbeats,
        Self::Marks,
        Self::Hosts,
        Self::Events,
        Self::EventEnds,
        Self::Control,
        Self::StartBans,
        Self::Logs,
        Self::KeptRuns,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::Specs => "specs",
            Self::Names => "names",
            Self::Requests => "requests",
            Self::PoolParts => "pool_parts",
            Self::PoolIndex => "pool_index",
            Self::Clusters => "clusters",
            Self::Assignments => "assignments",
            Self::EndedAssignments => "ended_assignments",
            Self::Leaderships => "leaderships",
            Self::Progress => "progress",
            Self::ClusterStates => "cluster_states",
            Self::Shards => "shards",
            Self::Instances => "instances",
            Self::Archive => "archive",
            Self::Heartbeats => "heartbeats",
            Self::Marks => "marks",
            Self::Hosts => "hosts",
            Self::Events => "events",
            Self::EventEnds => "event_ends",
            Self::Control => "control",
            Self::StartBans => "start_bans",
            Self::Logs => "logs",
            Self::KeptRuns => "kept_runs",
        }
    }

    /// Its columns.
    pub const fn columns(self) -> Columns {
        match self {
            Self::Heads => decided(&[BUCKET], &[JOB], "version"),
            Self::Specs => inserted(&[JOB], &[VERSION]),
            Self::Names => decided(&[NAME], &[], "version"),
            Self::Requests => inserted(&[ID], &[]),
            // No row is ever changed, so that its writers need no order and no condition; the index says
            // which of them hold.
            Self::PoolParts => owned(&[VERSION], &[PART, DIGEST]),
            Self::PoolIndex | Self::Control | Self::StartBans => decided(&[ONE], &[], "version"),
            Self::Clusters => decided(&[ONE], &[ID, PIECE], "version"),
            Self::Assignments => decided(&[PART], &[JOB, PIECE], "epoch"),
            Self::EndedAssignments => owned(&[JOB], &[PIECE]),
            Self::Leaderships => decided(&[ROLE], &[], "epoch"),
            Self::Progress => owned(&[BUCKET], &[JOB]),
            Self::ClusterStates => owned(&[ONE], &[CLUSTER]),
            Self::Shards => owned(&[CLUSTER], &[KIND, ID]),
            Self::Heartbeats => owned(&[CLUSTER], &[]),
            Self::Marks => owned(&[ROLE], &[]),
            // Blocks, and the group's slice row at block 2^32 - 1.
            Self::Instances => owned(&[CLUSTER, BUCKET], &[JOB, GROUP, BLOCK]),
            Self::Archive => owned(&[JOB, CLUSTER], &[GROUP, BLOCK]),
            Self::Hosts => owned(&[CLUSTER], &[ID]),
            Self::Events => kept(&[JOB, OWNER, DAY], &[LANE, STAMP, PLACE], EVENT_KEEP_MS),
            Self::EventEnds => kept(&[OWNER, LANE], &[EPOCH], EVENT_END_KEEP_MS),
            Self::Logs => kept(&[JOB, CLUSTER], &[TASK], LOG_KEEP_MS),
            Self::KeptRuns => kept(&[JOB], &[CLUSTER], LOG_KEEP_MS),
        }
    }

    /// Which tables a batch writes first: events are durable before they are noted, and both before what they tell of.
    pub const fn turn(self) -> u8 {
        match self {
            Self::Events => 0,
            Self::EventEnds => 1,
            _ => 2,
        }
    }
}
