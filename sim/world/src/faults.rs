//! What goes wrong, chosen by the seed before anything begins, and how it is done.

use crate::members::{LEASE, SESSION};
use crate::process::Who;
use crate::sites::{Site, StoppedWay};
use crate::world::{Item, World};
use echelon_core_model::Span;
use echelon_core_model::cluster::DesiredState;

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed and started again after this long.
    Crash(Who, Span),
    /// A process stands still for this long.
    Pause(Who, Span),
    /// A process loses its connection to the membership servers for this long.
    Blip(Who, Span),
    /// The n-th open stream between resource manager and shard breaks.
    CutLink(usize),
    /// The n-th open stream is silent for this long.
    SilentLink(usize, Span),
    /// A cluster's site is cut off from all others for this long.
    CutOff(usize, Span),
    /// Nothing gets from one site to another one for this long, or back.
    PartSites {
        /// The first site.
        near: Site,
        /// The second one.
        far: Site,
        /// Which way.
        stopped: StoppedWay,
        /// How long.
        span: Span,
    },
    /// The same between the site of the leading resource manager, which is the first one, and another site.
    PartLeader {
        /// The second site.
        far: Site,
        /// Which way.
        stopped: StoppedWay,
        /// How long.
        span: Span,
    },
    /// A cluster's subscriptions break.
    CutStream(usize),
    /// An agent of a cluster is silent for this long.
    LoseAgent {
        /// The cluster.
        cluster: usize,
        /// Which of its agents.
        agent: usize,
        /// How long.
        span: Span,
    },
    /// A host lends another amount.
    Lend {
        /// The cluster.
        cluster: usize,
        /// Which of its agents.
        agent: usize,
        /// So many cores.
        cores: u64,
    },
    /// An agent of a cluster drops each task that comes, for this long.
    FailStarts {
        /// The cluster.
        cluster: usize,
        /// Which of its agents.
        agent: usize,
        /// How long.
        span: Span,
    },
    /// It starts tasks again.
    MendStarts {
        /// The cluster.
        cluster: usize,
        /// Which of its agents.
        agent: usize,
    },
    /// An operator switches kills off for this long.
    KillsOff(Span),
    /// A cluster joins.
    Join(usize),
    /// An operator wants this of a cluster.
    SetDesiredState(usize, DesiredState),
    /// All processes and hosts of a cluster are gone for this long.
    LoseCluster(usize, Span),
    /// A pool gets another share.
    Share(usize, u64),
    /// A cluster's master fails over.
    FailMaster(usize),
    /// A cluster has no leading master for this long.
    LoseMaster(usize, Span),
    /// A cluster's master accepts everything and says nothing for this long.
    HangMaster(usize, Span),
    /// Messages between a cluster's shard and resource managers are up to so much later, for this long.
    SlowLink(usize, Span, Span),
    /// A cluster is added, with machines of its own.
    AddCluster,
    /// All hosts of a cluster but one are lost with all that runs there, and the next master knows none of
    /// them. They return after this long.
    LoseHosts(usize, Span),
    /// An operator wants a host empty for a while, and its agent drained.
    Drain {
        /// The cluster.
        cluster: usize,
        /// Which of its machines.
        host: usize,
        /// How long.
        span: Span,
    },
    /// An operator moves a host to another host pool for a while.
    Move {
        /// The cluster.
        cluster: usize,
        /// Which of its machines.
        host: usize,
        /// How long.
        span: Span,
    },
    /// An operator plans the maintenance of a machine, and does it.
    Maintain {
        /// The cluster.
        cluster: usize,
        /// Which of its machines.
        host: usize,
        /// How long before it is told.
        notice: Span,
        /// How long it lasts.
        away: Span,
    },
}

impl World {
    /// Plans all faults of the run.
    pub(crate) fn plan_faults(&mut self) {
        let rates = self.options.faults;
        for _ in 0..rates.crashes {
            let (who, span) = (
                self.any_process(),
                self.dice.faults.span(Span::millis(100), Span::seconds(20)),
            );
            self.plan_fault(Fault::Crash(who, span));
        }
        for _ in 0..rates.pauses {
            let (who, span) = (
                self.any_process(),
                self.dice.faults.span(Span::seconds(1), Span(SESSION.0 * 4)),
            );
            self.plan_fault(Fault::Pause(who, span));
        }
        self.plan_blips();
        for i in 0..rates.links {
            let n = self.dice.faults.index(16);
            let silent = self.dice.faults.span(Span::seconds(5), Span::seconds(60));
            self.plan_fault(if i % 2 == 0 {
                Fault::CutLink(n)
            } else {
                Fault::SilentLink(n, silent)
            });
        }
        for _ in 0..rates.streams {
            let cluster = self.dice.faults.index(self.options.clusters);
            self.plan_fault(Fault::CutStream(cluster));
        }
        for _ in 0..rates.agents {
            let cluster = self.dice.faults.index(self.options.clusters);
            let agent = self.dice.faults.index(self.options.hosts);
            let span = self.dice.faults.span(Span::seconds(5), Span::minutes(3));
            self.plan_fault(Fault::LoseAgent { cluster, agent, span });
        }
        for _ in 0..rates.masters {
            let cluster = self.dice.faults.index(self.options.clusters);
            self.plan_fault(Fault::FailMaster(cluster));
        }
        for _ in 0..rates.losses {
            let cluster = self.dice.faults.index(self.options.clusters);
            let span = self.dice.faults.span(Span::minutes(2), Span::minutes(4));
            self.plan_fault(Fault::LoseHosts(cluster, span));
        }
        // In the end there is room again; hosts that were away until then are asked once more.
        let faults_end = crate::world::BEGIN.plus(self.options.faulty);
        let calm = [Span::seconds(1), Span::minutes(5)].map(|late| faults_end.plus(late));
        for at in calm.into_iter().chain([crate::world::BEGIN]) {
            self.queue.plan(at, Item::LendAll);
        }
        for _ in 0..rates.estimates {
            let lend = Fault::Lend {
                cluster: self.dice.faults.index(self.options.clusters),
                agent: self.dice.faults.index(self.options.hosts),
                cores: self.dice.faults.below(self.options.lent + 1),
            };
            self.plan_fault(lend);
        }
        for _ in 0..rates.starts {
            let fail = Fault::FailStarts {
                cluster: self.dice.faults.index(self.options.clusters),
                agent: self.dice.faults.index(self.options.hosts),
                span: self.dice.faults.span(Span::seconds(10), Span::minutes(2)),
            };
            self.plan_fault(fail);
        }
        for _ in 0..rates.drains {
            let drain = Fault::Drain {
                cluster: self.dice.faults.index(self.options.clusters),
                host: self.dice.faults.index(self.options.hosts),
                span: self.dice.faults.span(Span::seconds(5), Span::minutes(3)),
            };
            self.plan_fault(drain);
        }
        self.plan_moves();
        self.plan_pressure();
        self.plan_kills_on();
        for _ in 0..rates.switches {
            let span = self.dice.faults.span(Span::seconds(5), Span::minutes(2));
            self.plan_fault(Fault::KillsOff(span));
        }
        for _ in 0..rates.maintenances {
            let maintain = Fault::Maintain {
                cluster: self.dice.faults.index(self.options.clusters),
                host: self.dice.faults.index(self.options.hosts),
                notice: self.dice.faults.span(Span::seconds(5), Span::minutes(1)),
                away: self.dice.faults.span(Span::seconds(10), Span::minutes(2)),
            };
            self.plan_fault(maintain);
        }
    }

    /// One of four is longer than a lease.
    fn plan_blips(&mut self) {
        for i in 0..self.options.faults.blips {
            let all: Vec<Who> = self.everyone().collect();
            let who = all.get(self.dice.blips.index(all.len())).copied();
            let (least, most) = if i % 4 == 3 {
                (LEASE, Span::seconds(12))
            } else {
                (Span::millis(50), LEASE)
            };
            let span = self.dice.blips.span(least, most);
            let at = self.dice.blips.span(Span::seconds(1), self.options.faulty);
            if let Some(who) = who {
                let item = Item::Fault(Fault::Blip(who, span));
                self.queue.plan(crate::world::BEGIN.plus(at), item);
            }
        }
    }

    fn plan_moves(&mut self) {
        for _ in 0..self.options.faults.moves {
            let moved = Fault::Move {
                cluster: self.dice.faults.index(self.options.clusters),
                host: self.dice.faults.index(self.options.hosts),
                span: self.dice.faults.span(Span::seconds(5), Span::minutes(3)),
            };
            self.plan_fault(moved);
        }
    }

    fn plan_fault(&mut self, fault: Fault) {
        let at = self.dice.faults.span(Span::seconds(1), self.options.faulty);
        self.queue.plan(crate::world::BEGIN.plus(at), Item::Fault(fault));
    }

    fn any_process(&mut self) -> Who {
        let all: Vec<Who> = self.everyone().collect();
        let n = self.dice.faults.index(all.len());
        all.get(n).copied().unwrap_or(Who::Manager(0))
    }

    /// Does a fault.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.trace.line(self.now, &format!("fault {fault:?}"));
        self.note_cause();
        match fault {
            Fault::Crash(who, span) => {
                self.kill(who);
                self.queue.plan(self.now.plus(span), Item::Start(who));
            }
            Fault::Pause(who, span) => self.pause(who, span),
            Fault::Blip(who, span) => self.blip(who, span),
            Fault::CutLink(n) => {
                if let Some(id) = self.nth_link(n) {
                    self.close_link(id);
                }
            }
            Fault::SilentLink(n, span) => {
                let until = self.now.plus(span);
                if let Some(link) = self.nth_link(n).and_then(|id| self.links.open.get_mut(&id)) {
                    link.silent_until = until;
                }
            }
            Fault::CutOff(cluster, span) => self.cut_off(cluster, span),
            Fault::PartSites {
                near,
                far,
                stopped,
                span,
            } => self.part_sites(near, far, stopped, span),
            Fault::PartLeader { far, stopped, span } => self.part_leader(far, stopped, span),
            Fault::CutStream(cluster) => self.cut_streams(cluster),
            Fault::LoseAgent { cluster, agent, span } => {
                if let Some(agent) = self.lose_agent(cluster, agent) {
                    self.queue
                        .plan(self.now.plus(span), Item::ReturnAgent { cluster, agent });
                }
            }
            Fault::Lend {
                cluster,
                agent,
                cores,
            } => {
                let agents = self.clusters.get(cluster).map(|c| c.mesos.agent_ids());
                let id = agents.and_then(|mut ids| ids.nth(agent)).cloned();
                if let Some(id) = id {
                    self.lend(cluster, &id, cores);
                }
            }
            Fault::FailStarts { cluster, agent, span } => {
                let words = "Failed to create executor directory: No space left on device";
                self.set_starts(cluster, agent, Some(words.to_owned()));
                let mend = Fault::MendStarts { cluster, agent };
                self.queue.plan(self.now.plus(span), Item::Fault(mend));
            }
            Fault::MendStarts { cluster, agent } => self.set_starts(cluster, agent, None),
            Fault::KillsOff(span) => self.switch_kills_off(span),
            Fault::Drain { cluster, host, span } => self.want_empty(cluster, host, span),
            Fault::Move { cluster, host, span } => self.move_host(cluster, host, span),
            Fault::Maintain {
                cluster,
                host,
                notice,
                away,
            } => self.plan_maintenance(cluster, host, (notice, away)),
            Fault::Join(cluster) => {
                let id = self.cluster_id(cluster);
                self.store_cluster(&id);
            }
            Fault::SetDesiredState(cluster, desired_state) => self.set_desired_state(cluster, desired_state),
            Fault::LoseCluster(cluster, span) => self.lose_cluster(cluster, span),
            Fault::Share(pool, share) => self.set_share(pool, share),
            Fault::FailMaster(cluster) => self.fail_master(cluster),
            Fault::LoseMaster(cluster, span) => self.lose_master(cluster, span),
            Fault::HangMaster(cluster, span) => self.hang_master(cluster, span),
            Fault::SlowLink(cluster, span, delay) => self.slow_link(cluster, span, delay),
            Fault::AddCluster => self.add_cluster(),
            Fault::LoseHosts(cluster, span) => {
                for agent in self.lose_hosts(cluster) {
                    self.queue
                        .plan(self.now.plus(span), Item::ReturnAgent { cluster, agent });
                }
            }
        }
    }

    fn nth_link(&self, n: usize) -> Option<u64> {
        let len = self.links.open.len();
        self.links.open.keys().nth(n.checked_rem(len)?).copied()
    }
}
