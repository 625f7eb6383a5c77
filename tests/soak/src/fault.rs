//! Faults by name: what is done, and to what.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// kill -9; it is started again when the fault ends.
    Kill,
    /// SIGSTOP for some seconds.
    Pause,
    /// SIGSTOP for a minute.
    Freeze,
    /// SIGTERM; it is started again when the fault ends.
    End,
    /// The machine's clock is set an hour ahead as this process sees it, and back when the fault ends.
    ClockAhead,
    /// The same an hour back.
    ClockBehind,
    /// kill -9; it is started again at once with a clock that is an hour ahead. At the end the same with
    /// the right clock.
    RestartAhead,
    /// The files that it writes may not grow any more.
    FullDisk,
    /// Its disk takes four writes a second.
    SlowDisk,
    /// It is killed and its storage file damaged. A start has to refuse it; when the fault ends the good
    /// file is put back.
    DamagedFile,
    /// The same with a storage file that is away.
    MissingFile,
    /// A reason that only a newer build knows is written into stored runs by hand, while no process of the
    /// cluster's shard runs. They are started again at once.
    UnknownCodes,
    /// The same with bytes that nothing can read, in a block of one job and the head of another; then the
    /// leading resource manager is killed and started again. At the end the good rows are put back the same way.
    UnreadableRows,
    /// A copy of all that Cassandra has is taken. Twenty seconds later all roles but the gateways are killed, the copy is put back, and
    /// they are started again: they have to freeze. At the end `echelon storage resume` is run.
    Restored,
    /// A link passes nothing in either direction.
    Cut,
    /// A link passes requests and loses their answers.
    CutAnswers,
    /// Each task that begins there ends at once with an error.
    Failing,
    /// It starts no task.
    Broken,
    /// An operator has its tasks moved away, and takes it back.
    Drained,
    /// An operator marks it as gone, for which it ends its tasks.
    /// When the fault ends it is started again as a new one.
    Gone,
    /// It is killed and loses its work folder. It is started again at once, as a new one at the same address.
    /// The tasks of the old one live on until their executors give it up.
    Replaced,
    /// Its port gets requests of which small ones cause much, and connections that say nothing.
    Hostile,
}

/// To what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// One gateway.
    Gateway,
    /// The leading resource manager.
    Manager,
    /// The leading shard of one cluster.
    Shard,
    /// The simulated master of one cluster, with its agents; of real ones the master that leads. Tasks live on.
    Master,
    /// One agent of one cluster, or its host.
    Agent,
    /// A ZooKeeper server that follows.
    ZooKeeperFollower,
    /// The ZooKeeper server that leads.
    ZooKeeperLeader,
    /// All ZooKeeper servers.
    ZooKeeper,
    /// One Cassandra node.
    CassandraNode,
    /// All Cassandra nodes.
    Cassandra,
    /// What gateways and others send to the leading resource manager.
    ToManager,
    /// What gateways and resource managers send to a leading shard.
    ToShard,
    /// Between a leading shard and its master.
    ShardMaster,
    /// Between a leading shard and ZooKeeper.
    ShardZooKeeper,
    /// Between the leading resource manager and ZooKeeper.
    ManagerZooKeeper,
    /// A backup of the storage.
    Backup,
    /// The one process of the standalone shape.
    Standalone,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What is done.
    pub action: Action,
    /// To what.
    pub subject: Subject,
}

const ACTIONS: [(Action, &str); 22] = [
    (Action::Kill, "kill"),
    (Action::Pause, "pause"),
    (Action::Freeze, "freeze"),
    (Action::End, "end"),
    (Action::ClockAhead, "clock-ahead"),
    (Action::ClockBehind, "clock-behind"),
    (Action::RestartAhead, "restart-ahead"),
    (Action::FullDisk, "full-disk"),
    (Action::SlowDisk, "slow-disk"),
    (Action::DamagedFile, "damaged-file"),
    (Action::MissingFile, "missing-file"),
    (Action::UnknownCodes, "unknown-codes"),
    (Action::UnreadableRows, "unreadable-rows"),
    (Action::Restored, "restored"),
    (Action::Cut, "cut"),
    (Action::CutAnswers, "cut-answers"),
    (Action::Failing, "failing"),
    (Action::Broken, "broken"),
    (Action::Drained, "drained"),
    (Action::Gone, "gone"),
    (Action::Replaced, "replaced"),
    (Action::Hostile, "hostile"),
];

const SUBJECTS: [(Subject, &str); 17] = [
    (Subject::Gateway, "gateway"),
    (Subject::Manager, "manager"),
    (Subject::Shard, "shard"),
    (Subject::Master, "master"),
    (Subject::Agent, "agent"),
    (Subject::ZooKeeperFollower, "zookeeper-follower"),
    (Subject::ZooKeeperLeader, "zookeeper-leader"),
    (Subject::ZooKeeper, "zookeeper"),
    (Subject::CassandraNode, "cassandra-node"),
    (Subject::Cassandra, "cassandra"),
    (Subject::ToManager, "to-manager"),
    (Subject::ToShard, "to-shard"),
    (Subject::ShardMaster, "shard-master"),
    (Subject::ShardZooKeeper, "shard-zookeeper"),
    (Subject::ManagerZooKeeper, "manager-zookeeper"),
    (Subject::Backup, "backup"),
    (Subject::Standalone, "standalone"),
];

/// What CI plays.
const CI: [&str; 11] = [
    "kill-gateway",
    "kill-manager",
    "kill-shard",
    "kill-master",
    "cut-to-shard",
    "pause-cassandra-node",
    "unknown-codes-shard",
    "unreadable-rows-shard",
    "failing-agent",
    "broken-agent",
    "hostile-gateway",
];

/// Which processes a soak starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Processes of each role over Cassandra and ZooKeeper.
    Federation,
    /// One process over embedded storage.
    Standalone,
}

impl Shape {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Federation => "federation",
            Self::Standalone => "standalone",
        }
    }
}

/// What drives the hosts of a soak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MesosKind {
    /// One process for the master and agents of each cluster.
    Simulated,
    /// Three masters and three agents of each cluster, whose programs `ECHELON_TEST_MESOS` names.
    Real,
}

impl Action {
    /// Whether it needs a clock of the process's own.
    #[must_use]
    pub const fn sets_clock(self) -> bool {
        matches!(self, Self::ClockAhead | Self::ClockBehind | Self::RestartAhead)
    }

    /// Whether it is done to a storage file.
    #[must_use]
    pub const fn is_of_file(self) -> bool {
        matches!(self, Self::FullDisk | Self::DamagedFile | Self::MissingFile)
    }

    /// Whether it is done to an agent alone.
    #[must_use]
    pub const fn is_of_agent(self) -> bool {
        matches!(
            self,
            Self::Failing | Self::Broken | Self::Drained | Self::Gone | Self::Replaced
        )
    }

    /// Whether it writes rows by hand.
    #[must_use]
    pub const fn is_of_rows(self) -> bool {
        matches!(self, Self::UnknownCodes | Self::UnreadableRows)
    }

    /// Seconds that the clock of the process goes wrong.
    #[must_use]
    pub const fn clock(self) -> i64 {
        match self {
            Self::ClockAhead | Self::RestartAhead => 3600,
            Self::ClockBehind => -3600,
            Self::Kill
            | Self::Pause
            | Self::Freeze
            | Self::End
            | Self::FullDisk
            | Self::SlowDisk
            | Self::DamagedFile
            | Self::MissingFile
            | Self::UnknownCodes
            | Self::UnreadableRows
            | Self::Restored
            | Self::Cut
            | Self::CutAnswers
            | Self::Failing
            | Self::Broken
            | Self::Drained
            | Self::Gone
            | Self::Replaced
            | Self::Hostile => 0,
        }
    }
}

impl Subject {
    const fn is_link(self) -> bool {
        matches!(
            self,
            Self::ToManager
                | Self::ToShard
                | Self::ShardMaster
                | Self::ShardZooKeeper
                | Self::ManagerZooKeeper
        )
    }

    const fn is_server(self) -> bool {
        matches!(
            self,
            Self::ZooKeeperFollower
                | Self::ZooKeeperLeader
                | Self::ZooKeeper
                | Self::CassandraNode
                | Self::Cassandra
        )
    }

    const fn shape(self) -> Shape {
        match self {
            Self::Standalone => Shape::Standalone,
            _ => Shape::Federation,
        }
    }
}

impl Fault {
    /// Every fault of a shape.
    #[must_use]
    pub fn all(shape: Shape, mesos: MesosKind) -> Vec<Self> {
        let subjects = SUBJECTS
            .into_iter()
            .filter(|(subject, _)| subject.shape() == shape);
        subjects
            .flat_map(|(subject, _)| ACTIONS.map(|(action, _)| Self { action, subject }))
            .filter(|fault| fault.exists() && fault.suits(mesos))
            .collect()
    }

    /// Whether it can be done to this kind of Mesos. Shards find real masters in ZooKeeper, past any proxy.
    /// All simulated agents of a cluster are one process.
    const fn suits(self, mesos: MesosKind) -> bool {
        match self.subject {
            Subject::Agent => {
                matches!(mesos, MesosKind::Real) || matches!(self.action, Action::Failing | Action::Broken)
            }
            Subject::ShardMaster => matches!(mesos, MesosKind::Simulated),
            _ => true,
        }
    }

    fn exists(self) -> bool {
        if self.action == Action::SlowDisk {
            return matches!(self.subject, Subject::Standalone | Subject::CassandraNode);
        }
        if self.action.is_of_file() {
            return self.subject == Subject::Standalone;
        }
        if self.action.is_of_rows() {
            return self.subject == Subject::Shard;
        }
        if self.action == Action::Restored || self.subject == Subject::Backup {
            return self.action == Action::Restored && self.subject == Subject::Backup;
        }
        let is_cut = matches!(self.action, Action::Cut | Action::CutAnswers);
        if self.subject.is_link() {
            return is_cut;
        }
        if self.subject == Subject::Agent {
            return matches!(self.action, Action::Kill | Action::Pause) || self.action.is_of_agent();
        }
        if self.action.is_of_agent() {
            return false;
        }
        if self.action == Action::Hostile {
            return matches!(self.subject, Subject::Gateway | Subject::Manager | Subject::Shard);
        }
        // servers that are not ours are killed and paused; how they end when they are asked is their matter
        let is_role_only = matches!(self.action, Action::Freeze | Action::End) || self.action.sets_clock();
        // a master measures with the monotonic clock alone, and has no clock that can be set
        let has_clock = !matches!(self.subject, Subject::Master) || !self.action.sets_clock();
        !is_cut && has_clock && (!is_role_only || !self.subject.is_server())
    }

    /// The faults of a list: `ci`, `all`, or names with commas between them.
    ///
    /// # Errors
    /// A name is unknown, or belongs to another shape; the error lists those that there are.
    pub fn list(text: &str, shape: Shape, mesos: MesosKind) -> Result<Vec<Self>> {
        let all = Self::all(shape, mesos);
        match (text, shape) {
            ("all", _) | ("ci", Shape::Standalone) => return Ok(all),
            ("ci", Shape::Federation) => {
                let mut faults = Self::list(&CI.join(","), shape, mesos)?;
                let of_agents: Vec<Self> = all
                    .into_iter()
                    .filter(|fault| fault.subject == Subject::Agent && !faults.contains(fault))
                    .collect();
                faults.extend(of_agents);
                return Ok(faults);
            }
            _ => {}
        }
        let mut faults = Vec::new();
        for name in text.split(',') {
            let found = all.iter().find(|fault| fault.to_string() == name);
            let Some(fault) = found else {
                let names: Vec<String> = all.iter().map(Self::to_string).collect();
                bail!(
                    "no fault `{name}` in the shape {}; there are: ci, all, {}",
                    shape.name(),
                    names.join(", ")
                );
            };
            faults.push(*fault);
        }
        Ok(faults)
    }

    /// How long it lasts.
    #[must_use]
    pub const fn lasts(self) -> Duration {
        Duration::from_secs(match (self.action, self.subject) {
            (Action::Kill | Action::End, Subject::ZooKeeper | Subject::Cassandra) => 15,
            // as long as what watches over processes takes to start one again
            (Action::Kill | Action::Pause | Action::End | Action::DamagedFile | Action::MissingFile, _) => 5,
            (Action::FullDisk | Action::SlowDisk, _) => 30,
            (Action::ClockAhead | Action::ClockBehind, _) => 10,
            // longer than what is tried again after a failure waits at first
            (Action::Failing | Action::Broken, _) => 25,
            (Action::Hostile, _) => 10,
            (
                Action::UnknownCodes
                | Action::UnreadableRows
                | Action::Restored
                | Action::Cut
                | Action::CutAnswers
                | Action::Drained
                | Action::Gone
                | Action::Replaced
                | Action::RestartAhead,
                _,
            ) => 20,
            (Action::Freeze, _) => 60,
        })
    }

    /// Instances of the fresh job that follows its beginning. Many meet a host that fails.
    #[must_use]
    pub const fn n_fresh(self) -> u32 {
        match self.action {
            Action::Failing | Action::Broken => 40,
            _ => 1,
        }
    }

    /// Whether this one and another would undo each other, or make each other impossible, when played together.
    #[must_use]
    pub fn disturbs(self, other: Self) -> bool {
        let one_way = |one: Self, other: Self| one.touches().contains(&other.subject);
        one_way(self, other) || one_way(other, self)
    }

    /// What it kills and starts again, or needs.
    fn touches(self) -> Vec<Subject> {
        let mut all = vec![self.subject];
        if self.action == Action::Restored {
            all.extend(SUBJECTS.map(|(subject, _)| subject));
        }
        if self.action.is_of_agent() {
            // an operator's call to a master, and what the simulated one is told, die with it
            all.push(Subject::Master);
        }
        if self.action.is_of_rows() {
            all.extend([Subject::Manager, Subject::CassandraNode, Subject::Cassandra]);
        }
        all
    }

    /// Whether a fresh job cannot run before it ends. `n_cassandra` nodes hold the storage.
    #[must_use]
    pub const fn blocks(self, n_cassandra: u8) -> bool {
        match self.subject {
            Subject::Master
            | Subject::ZooKeeper
            | Subject::Cassandra
            | Subject::ShardMaster
            | Subject::ToManager
            | Subject::ToShard
            | Subject::Backup
            | Subject::Standalone => true,
            Subject::CassandraNode => n_cassandra < 3,
            _ => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = ACTIONS.iter().find(|(action, _)| *action == self.action);
        let subject = SUBJECTS.iter().find(|(subject, _)| *subject == self.subject);
        let (action, subject) = (
            action.map_or("?", |(_, name)| name),
            subject.map_or("?", |(_, name)| name),
        );
        write!(f, "{action}-{subject}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name() {
        for shape in [Shape::Federation, Shape::Standalone] {
            let all = Fault::all(shape, MesosKind::Simulated);
            for fault in &all {
                assert_eq!(
                    Fault::list(&fault.to_string(), shape, MesosKind::Simulated).unwrap(),
                    [*fault]
                );
            }
            assert_eq!(Fault::list("all", shape, MesosKind::Simulated).unwrap(), all);
        }
        assert_eq!(
            Fault::all(Shape::Federation, MesosKind::Simulated).len(),
            16 + 9 + 10 + 10 + 2 + 1 + 1 + 2 + 3
        );
        assert_eq!(
            Fault::list("ci", Shape::Federation, MesosKind::Simulated)
                .unwrap()
                .len(),
            11
        );
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let error = Fault::list(
            "kill-gateway,cut-gateway",
            Shape::Federation,
            MesosKind::Simulated,
        )
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("`cut-gateway`") && text.contains("freeze-shard"),
            "{text}"
        );
        assert!(Fault::list("kill-shard", Shape::Standalone, MesosKind::Simulated).is_err());
        assert!(Fault::list("full-disk-shard", Shape::Federation, MesosKind::Simulated).is_err());
        assert_eq!(
            Fault::list("full-disk-standalone", Shape::Standalone, MesosKind::Simulated)
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn only_real_mesos_has_agents_of_its_own() {
        let names = |text: &str, mesos: MesosKind| Fault::list(text, Shape::Federation, mesos);
        assert!(names("kill-agent,kill-master", MesosKind::Real).is_ok());
        for name in ["kill-agent", "drained-agent", "gone-agent", "replaced-agent"] {
            assert!(names(name, MesosKind::Real).is_ok());
            assert!(names(name, MesosKind::Simulated).is_err());
        }
        assert!(names("failing-agent,broken-agent", MesosKind::Simulated).is_ok());
        assert!(names("cut-shard-master", MesosKind::Real).is_err());
        assert!(names("freeze-agent", MesosKind::Real).is_err());
        let n_of_ci = |mesos: MesosKind| names("ci", mesos).unwrap().len();
        assert_eq!(n_of_ci(MesosKind::Real), n_of_ci(MesosKind::Simulated) + 5);
    }
}
