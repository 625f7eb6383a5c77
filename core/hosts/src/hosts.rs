//! The state of a cluster's hosts: what is offered, held, launched and lost. Its caller, `core/shard`, feeds every event of
//! the cluster and performs the calls that come out. Events are in `observe.rs`, what is said about offers in `manners.rs`.

use crate::agents::{Known, Listing};
use crate::appetite::Appetite;
use crate::call::{Call, Launch};
use crate::config::Config;
use crate::drains::Drains;
use crate::event::OfferId;
use crate::flags::FlagQuestions;
use crate::ledger::{Ledger, Need};
use crate::pools::Pools;
use crate::record::Record;
use crate::reserved::allot;
use crate::stock::Stock;
use crate::tally::{End, Tally};
use crate::volumes::Volumes;
use echelon_core_model::cluster::{GpuHosts, Host, HostView, LeftOut, Maintenance, Slack};
use echelon_core_model::health::AgentCounts;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::{GroupName, HostId, JobId, PortSet, Resources, Span, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often it is looked for hosts to forget.
const SWEEP: Span = Span::minutes(1);

/// All hosts of a cluster.
#[derive(Debug, Clone)]
pub struct Hosts {
    pub(crate) config: Config,
    pub(crate) stock: Stock,
    pub(crate) ledger: Ledger,
    /// All our tasks are counted: before, no host is known to be empty.
    pub(crate) complete: bool,
    pub(crate) records: BTreeMap<HostId, Record>,
    /// Of the present subscription; `None` while there is none.
    pub(crate) appetite: Option<Appetite>,
    pub(crate) last_appetite: Option<Appetite>,
    pub(crate) subscribed_at: Timestamp,
    /// Offers of calls that failed: they may still be open in Mesos, declining them twice does no harm (R42).
    pub(crate) give_back: BTreeMap<OfferId, Timestamp>,
    /// Hosts with planned maintenance.
    pub(crate) planned: BTreeMap<HostId, Maintenance>,
    /// Hosts that operators want empty.
    pub(crate) drains: Drains,
    /// In which host pools hosts are.
    pub(crate) pools: Pools,
    /// Inverse offers without an answer.
    pub(crate) asked: BTreeMap<OfferId, HostId>,
    /// Offers that were closed since nothing that waits fits into them; to be declined with the next calls.
    pub(crate) misfits: Vec<OfferId>,
    pub(crate) volumes: Volumes,
    pub(crate) listing: Listing,
    /// How the cluster is shared with other frameworks.
    pub(crate) sharing: Sharing,
    /// Agents that are listed no more, with another one at their address.
    pub(crate) replaced: BTreeSet<HostId>,
    /// Those of them that were not asked for yet.
    pub(crate) newly_replaced: Vec<HostId>,
    /// What is known of the flags of agents that were replaced.
    pub(crate) flags: FlagQuestions,
    pub(crate) changed: BTreeSet<HostId>,
    /// Hosts of which something else than their offers has changed since placement was last shown them.
    pub(crate) touched: BTreeSet<HostId>,
    /// Counts what became known of hosts: which there are, what they are like, whether they can be reached.
    pub(crate) news: u64,
    pub(crate) removed: BTreeSet<HostId>,
    /// How many agents there were when they were counted last.
    pub(crate) counted: Option<(Known, Option<AgentCounts>)>,
    pub(crate) revivals: u64,
    pub(crate) held_revivals: u64,
    swept_at: Timestamp,
}

/// Rows of the host table that are to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Hosts that are new or have changed.
    pub rows: Vec<Host>,
    /// Hosts that are forgotten.
    pub removed: Vec<HostId>,
}

impl Hosts {
    /// No hosts yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            stock: Stock::default(),
            ledger: Ledger::default(),
            complete: true,
            records: BTreeMap::new(),
            appetite: None,
            last_appetite: None,
            subscribed_at: Timestamp::default(),
            give_back: BTreeMap::new(),
            planned: BTreeMap::new(),
            drains: Drains::default(),
            pools: Pools::default(),
            asked: BTreeMap::new(),
            misfits: Vec::new(),
            volumes: Volumes::default(),
            listing: Listing::default(),
            sharing: Sharing::default(),
            replaced: BTreeSet::new(),
            newly_replaced: Vec::new(),
            flags: FlagQuestions::default(),
            changed: BTreeSet::new(),
            touched: BTreeSet::new(),
            news: 0,
            removed: BTreeSet::new(),
            counted: None,
            revivals: 0,
            held_revivals: 0,
            swept_at: Timestamp::default(),
        }
    }

    /// Takes in what an earlier leader stored, so that capacity does not start from nothing. What was seen meanwhile is newer
    /// and stays. A host that does not show again after the subscription is forgotten.
    pub fn restore(&mut self, rows: Vec<Host>) {
        for row in rows {
            let id = row.id.clone();
            if let Some(m) = row.maintenance {
                self.planned.entry(id.clone()).or_insert(m);
            }
            self.volumes.restore(&id, &row.volumes);
            let hostname = row.hostname.clone();
            self.records
                .entry(id.clone())
                .or_insert_with(|| Record::restored(row));
            self.touch(&id);
            self.is_named(&id, &hostname);
        }
    }

    /// Has a run name its host by the texts that are here already: there are many runs, and far fewer hosts.
    pub fn share_texts(&self, id: &mut HostId, hostname: &mut Arc<str>) {
        if let Some((known, record)) = self.records.get_key_value(id) {
            id.clone_from(known);
            record.share_hostname(hostname);
        }
    }

    /// Counts a task that storage or the cluster tells of and that `accept` did not launch. Repeating it changes nothing.
    pub fn adopt(&mut self, task: &TaskId, host: &HostId, need: &Need, now: Timestamp) {
        if self.ledger.is_counted(task, host, need) {
            return;
        }
        // Of a pod, members end one by one.
        self.release(task, now);
        self.ledger.add(task, host, need);
        let (free, used) = (self.stock.free(host), self.ledger.used(host).resources);
        self.record(host, now).sum_grew(free, used, now);
        self.note(host.clone());
        let sum = self.lent_sum(host);
        let record = self.record(host, now);
        record.lent = record.lent.max_each(sum);
    }

    /// What a host lends by our tasks and its open offers.
    pub(crate) fn lent_sum(&self, host: &HostId) -> Resources {
        self.stock.lent(host).plus(self.ledger.used(host).revocable)
    }

    /// Says whether all our tasks are counted: not while a new leader reads what there is.
    pub const fn set_complete(&mut self, complete: bool) {
        self.complete = complete;
    }

    /// Whether nothing of ours is on a host for certain, nor on its way there.
    pub(crate) fn is_empty(&self, host: &HostId) -> bool {
        self.complete && self.ledger.used(host).tasks == 0 && !self.stock.is_spoken_for(host)
    }

    /// Stops counting a task: its run has ended, was given up, or was never sent.
    pub fn release(&mut self, task: &TaskId, now: Timestamp) {
        let Some((host, room)) = self.ledger.remove(task) else {
            return;
        };
        self.listing.ended(&host, room);
        let (free, used) = (self.stock.free(&host), self.ledger.used(&host).resources);
        self.record(&host, now).task_ended(free, used, now);
        self.changed.insert(host);
    }

    /// The call that launches these tasks on a host, using all its open offers; the rest is refused for a short time.
    /// `None`, and nothing changes, when the open offers have too little room or not the ports, a port or a task is named
    /// twice (hazard H1), a task is already counted, or there is nothing to launch.
    pub fn accept(&mut self, host: &HostId, launches: Vec<Launch>, now: Timestamp) -> Option<Call> {
        self.appetite?;
        let mut launches = self.with_volumes(host, launches)?;
        let need = sum(&launches, |l| self.taken_of_free(l));
        let lent = sum(&launches, |l| l.revocable);
        let tasks: BTreeSet<&TaskId> = launches.iter().map(|l| &l.task).collect();
        let new = tasks.len() == launches.len()
            && launches.iter().all(names_differ)
            && !tasks.iter().any(|t| self.ledger.holds(t));
        if launches.is_empty()
            || !new
            || !need.fits(self.stock.free(host))
            || !lent.fits(self.stock.lent(host))
        {
            return None;
        }
        let mut ports = self.stock.ports(host);
        if !launches
            .iter()
            .flat_map(|l| &l.ports)
            .all(|p| ports.take(p.number))
        {
            return None;
        }
        let parts = self.stock.parts(host);
        allot(&mut launches, parts, self.stock.disk_of(host));
        let offers = self.stock.close_host(host, End::Accepted, now);
        if offers.is_empty() {
            return None;
        }
        for l in &launches {
            self.adopt(&l.task, host, &need_of(l), now);
        }
        Some(Call::Accept {
            offers,
            host: host.clone(),
            launches,
            refuse: self.config.refuse_rest,
        })
    }

    /// The hosts that can be reached, by id, with the room of their open offers that nobody has spoken for; of one that is to be
    /// left none is free.
    #[must_use]
    pub fn views(&self, now: Timestamp) -> Vec<HostView> {
        self.reachable()
            .map(|(id, record)| self.view(id, record, now))
            .collect()
    }

    /// The same of some hosts only.
    #[must_use]
    pub fn views_of<'a>(&self, ids: impl IntoIterator<Item = &'a HostId>, now: Timestamp) -> Vec<HostView> {
        let reachable = |id: &HostId| self.records.get_key_value(id).filter(|(_, r)| r.reachable);
        ids.into_iter()
            .filter_map(reachable)
            .map(|(id, record)| self.view(id, record, now))
            .collect()
    }

    fn view(&self, id: &HostId, record: &Record, now: Timestamp) -> HostView {
        let view = HostView {
            kept: self.is_kept(record),
            ..record.view(
                id,
                self.pools.of(id),
                self.stock.unspoken(id),
                self.ledger.used(id),
            )
        };
        if !self.takes_work(id, record, now) {
            HostView {
                free: Resources::ZERO,
                slack: Slack {
                    free: Resources::ZERO,
                    ..view.slack
                },
                draining: true,
                ..view
            }
        } else {
            view
        }
    }

    /// Whether anything may be placed on a host. Nothing is while it drains, or while its host pool cannot be read.
    fn takes_work(&self, id: &HostId, record: &Record, now: Timestamp) -> bool {
        self.drain_of(id, now).is_none() && !self.pools.is_unknown(record.hostname())
    }

    /// Whether a host is kept for work that asks for GPUs.
    pub(crate) fn is_kept(&self, record: &Record) -> bool {
        self.config.gpu_hosts == GpuHosts::Kept && record.capacity().gpus > 0
    }

    /// Fills in the hosts' ports, which few problems ask for.
    pub fn add_ports(&self, views: &mut [HostView]) {
        for view in views {
            view.ports = self.stock.ports(&view.id);
            view.ports_left = self.ports_left(&view.id);
        }
    }

    /// All ports that a host is known to have. `None`: not known yet.
    #[must_use]
    pub fn known_ports(&self, host: &HostId) -> Option<PortSet> {
        self.records.get(host).and_then(Record::ports).cloned()
    }

    /// What our tasks leave of these.
    #[must_use]
    pub fn ports_left(&self, host: &HostId) -> Option<PortSet> {
        let known = self.records.get(host).and_then(Record::ports);
        known.map(|all| all.minus(&self.ledger.ports(host)))
    }

    /// The hosts on which something may be placed sooner or later, each with the capacity that our tasks leave of it.
    /// It counts whether it is offered at the moment or not. `O(hosts)`.
    #[must_use]
    pub fn spare_views(&self, now: Timestamp) -> Vec<HostView> {
        let mut views = self.open_to_all(now);
        for view in &mut views {
            let known = self.records.get(&view.id);
            let left = known.map(|record| record.room(view.used).minus(view.used));
            view.free = left.unwrap_or_default();
            view.slack.free = view.slack.capacity.minus(view.slack.used);
        }
        views
    }

    /// Ports of a host's open offers.
    #[must_use]
    pub fn ports(&self, host: &HostId) -> PortSet {
        self.stock.ports(host)
    }

    /// How many tasks of a group each host has; hosts without any are left out.
    #[must_use]
    pub fn tasks_of(&self, job: JobId, group: &GroupName) -> BTreeMap<HostId, u32> {
        self.ledger.of_group(job, group)
    }

    /// A host as it is stored.
    #[must_use]
    pub fn host(&self, id: &HostId) -> Option<Host> {
        let row = self.records.get(id)?.row(id, self.ledger.used(id));
        let maintenance = self.planned.get(id).copied();
        let volumes = self.volumes.of(id);
        let left_out = LeftOut {
            volumes: self.volumes.left_out(id),
            ..row.left_out
        };
        let drain = self.drains.state(id).cloned();
        let whole = Host {
            maintenance,
            volumes,
            drain,
            place: self.pools.place(id),
            left_out,
            ..row
        };
        Some(whole.bounded())
    }

    /// What a host has for us beside our tasks, offered at the moment or not; nothing where nothing is to be placed.
    #[must_use]
    pub fn spare(&self, host: &HostId, now: Timestamp) -> Resources {
        let reachable = self.records.get(host).filter(|r| r.reachable);
        let record = reachable.filter(|record| self.takes_work(host, record, now));
        record.map_or(Resources::ZERO, |record| {
            let used = self.ledger.used(host).resources;
            record.room(used).minus(used)
        })
    }

    /// Whether a host offers capacity of tasks that are counted there. All its open offers count, those that are
    /// about to be used too. `None` while the host is away.
    #[must_use]
    pub fn offers_again(&self, host: &HostId) -> Option<bool> {
        let Some(record) = self.records.get(host) else {
            return Some(false);
        };
        let taken = self.ledger.used(host).resources.plus(self.stock.free(host));
        record.reachable.then(|| !taken.fits(record.capacity()))
    }

    /// Rows to write since this was last asked.
    pub fn changes(&mut self) -> Changes {
        let changed = std::mem::take(&mut self.changed);
        Changes {
            rows: changed.iter().filter_map(|id| self.host(id)).collect(),
            removed: std::mem::take(&mut self.removed).into_iter().collect(),
        }
    }

    /// Offers that are open: a gauge, zero in an idle shard.
    #[must_use]
    pub fn open_offers(&self) -> usize {
        self.stock.len()
    }

    /// What became of all offers so far.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.stock.tally()
    }

    /// A host has become known, or something else is known of it.
    pub(crate) fn note(&mut self, host: HostId) {
        self.news += 1;
        self.touch(&host);
        self.changed.insert(host);
    }

    /// Another number than before where it may be that other hosts can be reached, or that they are otherwise.
    #[must_use]
    pub const fn news(&self) -> u64 {
        self.news
    }

    /// The hosts on which something may be placed sooner or later: they can be reached, and are not to be left.
    #[must_use]
    pub fn open_to_all(&self, now: Timestamp) -> Vec<HostView> {
        let open = self.reachable().filter(|(_, record)| record.is_offerable());
        let views = open.map(|(id, record)| self.view(id, record, now));
        views.filter(|view| !view.draining).collect()
    }

    /// Whether a host is known.
    #[must_use]
    pub fn knows(&self, host: &HostId) -> bool {
        self.records.contains_key(host)
    }

    /// Whether Mesos has no contact with a host that is known.
    #[must_use]
    pub fn any_unreachable(&self) -> bool {
        self.records.values().any(|record| !record.reachable)
    }

    pub(crate) fn reachable(&self) -> impl Iterator<Item = (&HostId, &Record)> {
        self.records.iter().filter(|(_, r)| r.reachable)
    }

    pub(crate) fn record(&mut self, host: &HostId, now: Timestamp) -> &mut Record {
        self.removed.remove(host);
        self.touch(host);
        self.records
            .entry(host.clone())
            .or_insert_with(|| Record::unnamed(host, now))
    }

    /// Whether a host is known, or may become known.
    pub(crate) fn takes(&self, host: &HostId) -> bool {
        self.records.len() < self.config.most_hosts || self.records.contains_key(host)
    }

    /// Forgets hosts without tasks that were not seen since the subscription, or that were lost, for a while.
    pub(crate) fn forget(&mut self, now: Timestamp) {
        let patience = self.config.forget;
        if self.appetite.is_none() || now.since(self.swept_at) < SWEEP {
            return;
        }
        self.swept_at = now;
        let subscribed_at = self.subscribed_at;
        let waited = now.since(subscribed_at) >= patience;
        let gone: Vec<HostId> = self
            .records
            .iter()
            .filter(|(id, r)| {
                let silent = waited && r.seen_at < subscribed_at;
                let lost = !r.reachable && waited && now.since(r.seen_at) >= patience;
                // Of an agent that Mesos drains nothing is offered; it is awaited.
                let drained = self.drains.state(id).is_some();
                (silent || lost) && !drained && self.is_empty(id)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.records.remove(&id);
            self.planned.remove(&id);
            self.drains.forget(&id);
            self.pools.forget(&id);
            self.volumes.forget(&id);
            self.stock.forget(&id);
            self.replaced.remove(&id);
            self.flags.forget(&id);
            self.changed.remove(&id);
            self.touch(&id);
            self.news += 1;
            self.removed.insert(id);
        }
    }
}

fn sum(launches: &[Launch], of: impl Fn(&Launch) -> Resources) -> Resources {
    launches
        .iter()
        .fold(Resources::ZERO, |sum, launch| sum.plus(of(launch)))
}

/// Whether no two tasks of a pod would get one id (hazard H1).
fn names_differ(launch: &Launch) -> bool {
    let names: BTreeSet<_> = launch.sidecars.iter().map(|s| &s.name).collect();
    names.len() == launch.sidecars.len()
}

fn need_of(launch: &Launch) -> Need {
    let need = Need::new(launch.room(), launch.revocable, &launch.ports);
    if launch.sidecars.is_empty() {
        need
    } else {
        need.of_pod()
    }
}
