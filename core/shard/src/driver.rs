//! The driver itself: its state, and the loop of one step. Each event has its own file; here is only the order.

use crate::adopt::Adopting;
use crate::claims::Claims;
use crate::config::Config;
use crate::contact::Contact;
use crate::control::Switch;
use crate::credit::LaunchCredit;
use crate::daemons::Daemons;
use crate::directive::Orders;
use crate::drivers::Drivers;
use crate::event::{Effect, Event};
use crate::fits::FitReports;
use crate::found::Finding;
use crate::gangs::Gangs;
use crate::journal::Journal;
use crate::keep::Keeping;
use crate::kill::Kills;
use crate::loss::Losses;
use crate::neighbours::Loners;
use crate::openers::{Openers, Proof};
use crate::ops::Ops;
use crate::overdue::Overdue;
use crate::own_unread::{OwnRow, OwnUnread};
use crate::pace::{Action, Paces};
use crate::picture::{At, Picture, RunAt};
use crate::place::Placing;
use crate::purpose::Purpose;
use crate::random::Random;
use crate::reconcile::Reconcile;
use crate::recover::Recovery;
use crate::refused::Refusals;
use crate::release::Leaving;
use crate::replace::Replacing;
use crate::report::Telling;
use crate::reread::Reread;
use crate::sets::SetSampler;
use crate::specs::UnreadSpec;
use crate::start_lease::StartLease;
use crate::starts::Starts;
use crate::stranger::Strangers;
use crate::teardown::TearDown;
use crate::tenure::Tenure;
use echelon_core_hosts::{Drain, Hosts};
use echelon_core_model::gang::Peers;
use echelon_core_model::store::{Evidence, ShardKey, ShardRow, Stamp, Trouble};
use echelon_core_model::time::Span;
use echelon_core_model::{Epoch, Generation, HostId, InstanceRange, JobId, Timestamp};
use echelon_core_placement as placement;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a shard is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It does not lead.
    Follower,
    /// It leads, or is about to, and reads what it must know; groups that it knows are driven already.
    Recovering,
    /// It drives the cluster.
    Serving,
    /// It starts and kills nothing: storage was rolled back, or the cluster is not the one it knows.
    Frozen,
}

/// How far a leader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Follower,
    ReadingEpoch,
    TakingEpoch,
    ReadingOwn,
    Subscribing,
    StoringFramework,
    /// It serves the groups whose buckets are sealed; all of them when the recovery is complete.
    Serving,
}

/// The driver of one cluster.
#[derive(Debug)]
pub struct Shard {
    pub(crate) config: Config,
    pub(crate) random: Random,
    pub(crate) ops: Ops<Purpose>,
    /// Streams of resource managers; they stay when a leadership ends.
    pub(crate) links: Openers,
    /// What came while the leadership was in doubt, to be taken in when it is certain again, or over.
    pub(crate) came_meanwhile: Vec<Event>,
    pub(crate) published: Stamp,
    /// How fast mass actions go; over leaderships, too.
    pub(crate) paces: Paces,
    pub(crate) now: Timestamp,
    pub(crate) out: Vec<Effect>,

    // From here on everything belongs to one leadership and is dropped with it.
    pub(crate) phase: Phase,
    pub(crate) tenure: Tenure,
    pub(crate) epoch: Epoch,
    pub(crate) sequence: u64,
    /// What was found before the epoch is taken.
    pub(crate) evidence: Evidence,
    /// The mark that the sign of life under way stores.
    pub(crate) marking: Option<Stamp>,
    /// Why nothing is started or killed, while storage is behind the cluster, or the cluster is not the
    /// stored one.
    pub(crate) frozen: Option<String>,
    /// The epoch that `echelon storage resume` stored last, as the leadership was taken; 0: never.
    pub(crate) resumed: Epoch,
    /// The last question whether we still lead has failed: nothing leaves until one succeeds.
    pub(crate) suspended: bool,
    pub(crate) confirmed_at: Timestamp,
    pub(crate) confirm_at: Timestamp,
    pub(crate) reread_epoch_at: Option<Timestamp>,
    /// What storage last failed with, and when, unless a commit has succeeded since.
    pub(crate) storage_trouble: Option<(Timestamp, Trouble)>,
    /// When storage last met every leader with the same trouble: its silence before then is held against none.
    pub(crate) excused_at: Timestamp,
    pub(crate) own: ShardRow,
    /// Its rows as they were last written.
    pub(crate) own_stored: BTreeMap<ShardKey, OwnRow>,
    /// Rows of it that cannot be understood.
    pub(crate) own_unread: OwnUnread,
    /// Whether what older leaders wrote of them is hidden.
    pub(crate) own_sealed: bool,
    pub(crate) recovery: Recovery,
    pub(crate) contact: Contact,
    pub(crate) journal: Journal,
    pub(crate) picture: Picture,
    pub(crate) hosts: Hosts,
    pub(crate) placing: Placing,
    /// Instances that are to run where their volumes are, and do not.
    pub(crate) bound: BTreeSet<At>,
    /// Instances for which the room is held that their former runs have left.
    pub(crate) formers: BTreeSet<At>,
    /// Intents that were not sent, and room for their calls.
    pub(crate) credit: LaunchCredit,
    pub(crate) start_lease: StartLease,
    pub(crate) starts: Starts,
    pub(crate) launch_due: BTreeSet<(Timestamp, RunAt)>,
    pub(crate) overdue: Overdue,
    /// Hosts that offer more than our runs there leave: some of these have ended, and we were not told.
    pub(crate) offered_again: BTreeSet<HostId>,
    pub(crate) silent: BTreeMap<HostId, BTreeSet<RunAt>>,
    pub(crate) kills: Kills,
    pub(crate) switch: Switch,
    pub(crate) drivers: Drivers,
    pub(crate) stored_kills: BTreeSet<RunAt>,
    pub(crate) strangers: Strangers,
    pub(crate) finding: Finding,
    pub(crate) losses: Losses,
    pub(crate) replacing: Replacing,
    /// The latest version of the hosts that never return that was obeyed.
    pub(crate) forgotten: u64,
    pub(crate) reconcile: Reconcile,
    pub(crate) leaving: Leaving,
    /// Hosts that are to be empty, as last looked at.
    pub(crate) draining: BTreeMap<HostId, Drain>,
    pub(crate) taking: BTreeSet<(u32, Generation, InstanceRange)>,
    /// Specs that were asked for and are not read.
    pub(crate) unread_specs: BTreeMap<(JobId, u32), UnreadSpec>,
    pub(crate) refreshing: BTreeSet<JobId>,
    pub(crate) orders: Orders,
    pub(crate) proof: Proof,
    /// Jobs of which an order wants a stop that the stored head must confirm.
    pub(crate) confirming: BTreeSet<JobId>,
    /// When this leadership began to listen: silence from before was our own.
    pub(crate) listens_since: Timestamp,
    pub(crate) claims: Claims,
    pub(crate) fits: FitReports,
    pub(crate) gangs: Gangs,
    /// What members of gangs that are launched in this step are told of each other.
    pub(crate) peers: BTreeMap<JobId, Peers>,
    pub(crate) loners: Loners,
    pub(crate) daemons: Daemons,
    /// The hosts as placement was asked about them last.
    pub(crate) snapshot: Arc<placement::Hosts>,
    /// How often a host of the snapshot was renewed.
    pub(crate) views_renewed: u64,
    pub(crate) telling: Telling,
    /// Logs of ended runs on their way into storage.
    pub(crate) keeping: Keeping,
    /// Groups of which storage refuses a row.
    pub(crate) refusals: Refusals,
    /// Groups that are set aside, are to stop and have not ended.
    pub(crate) aside_stops: BTreeSet<u32>,
    pub(crate) archiving: BTreeSet<u32>,
    /// How far the shard has left Mesos for good.
    pub(crate) teardown: TearDown,
    /// When storage is asked again which cluster has indexes that run here and are not assigned here, by group.
    pub(crate) inquiries: BTreeMap<u32, Timestamp>,
    /// Groups that leave volumes behind of which the row cannot note yet that they are to be destroyed.
    pub(crate) crowded: BTreeSet<u32>,
    /// Jobs that ended and were ordered to the archive: their assignment, which stays, is not ours to follow any more.
    pub(crate) archived: BTreeSet<JobId>,
    pub(crate) adopting: Adopting,
    pub(crate) beat_at: Timestamp,
    pub(crate) reread_at: Timestamp,
    pub(crate) reread: Reread,
    pub(crate) host_rows_at: Timestamp,
    /// Looks at the sets of instances, block by block.
    pub(crate) sampler: SetSampler,
    /// Broken rules that only show at the moment of breaking; empty, or there is a fault in this program.
    pub(crate) faults: Vec<crate::check::Broken>,
}

impl Shard {
    /// A follower that knows nothing yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let timing = &config.timing;
        // A third of the lease: an answer that was lost is asked for again well before the lease ends.
        let ops = Ops::new(timing.storage_retry, Span(timing.lease.0 / 3));
        Self {
            random: Random::new(config.seed),
            ops,
            links: Openers::default(),
            came_meanwhile: Vec::new(),
            published: Stamp::default(),
            paces: Paces::new(timing.rates),
            now: Timestamp(0),
            out: Vec::new(),
            phase: Phase::Follower,
            tenure: Tenure::Able,
            epoch: Epoch(0),
            sequence: 0,
            evidence: Evidence::default(),
            marking: None,
            frozen: None,
            resumed: Epoch(0),
            suspended: false,
            confirmed_at: Timestamp(0),
            confirm_at: Timestamp(0),
            reread_epoch_at: None,
            storage_trouble: None,
            excused_at: Timestamp(0),
            own: ShardRow::default(),
            own_stored: BTreeMap::new(),
            own_unread: OwnUnread::default(),
            own_sealed: false,
            recovery: Recovery::default(),
            contact: Contact::default(),
            journal: Journal::default(),
            picture: Picture::default(),
            hosts: Hosts::new(timing.hosts),
            placing: Placing::default(),
            bound: BTreeSet::new(),
            formers: BTreeSet::new(),
            credit: LaunchCredit::default(),
            start_lease: StartLease::default(),
            starts: Starts::default(),
            launch_due: BTreeSet::new(),
            overdue: Overdue::default(),
            offered_again: BTreeSet::new(),
            silent: BTreeMap::new(),
            kills: Kills::default(),
            switch: Switch::default(),
            drivers: Drivers::default(),
            stored_kills: BTreeSet::new(),
            strangers: Strangers::default(),
            finding: Finding::default(),
            losses: Losses::default(),
            replacing: Replacing::default(),
            forgotten: 0,
            reconcile: Reconcile::default(),
            leaving: Leaving::default(),
            draining: BTreeMap::new(),
            taking: BTreeSet::new(),
            unread_specs: BTreeMap::new(),
            refreshing: BTreeSet::new(),
            orders: Orders::default(),
            proof: Proof::default(),
            confirming: BTreeSet::new(),
            listens_since: Timestamp::default(),
            claims: Claims::default(),
            fits: FitReports::default(),
            gangs: Gangs::default(),
            peers: BTreeMap::new(),
            loners: Loners::default(),
            daemons: Daemons::default(),
            snapshot: Arc::default(),
            views_renewed: 0,
            telling: Telling::default(),
            keeping: Keeping::default(),
            refusals: Refusals::new(),
            aside_stops: BTreeSet::new(),
            archiving: BTreeSet::new(),
            teardown: TearDown::default(),
            inquiries: BTreeMap::new(),
            crowded: BTreeSet::new(),
            archived: BTreeSet::new(),
            adopting: Adopting::default(),
            beat_at: Timestamp(0),
            reread_at: Timestamp(0),
            reread: Reread::default(),
            host_rows_at: Timestamp(0),
            sampler: SetSampler::default(),
            faults: Vec::new(),
            config,
        }
    }

    /// Becomes a follower that knows nothing; what is under way finds nobody when it completes.
    pub(crate) fn reset(&mut self) {
        let fresh = Self::new(self.config.clone());
        let old = std::mem::replace(self, fresh);
        self.random = old.random;
        self.links = old.links;
        self.links.forget_proofs();
        self.came_meanwhile = old.came_meanwhile;
        self.published = old.published;
        self.paces = old.paces;
        self.now = old.now;
        self.out = old.out;
        self.keeping.stats = old.keeping.stats;
        self.sampler.found = old.sampler.found;
        self.drivers = old.drivers;
        self.ops = old.ops;
        self.ops.forget_all();
    }

    /// Takes one event in and appends what is to be done, in order. `now` never goes back: an earlier one counts as the last.
    pub fn step(&mut self, event: Event, now: Timestamp, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        self.count_observed();
        std::mem::swap(&mut self.out, out);
        if self.is_suspended() {
            self.wait(event);
        } else {
            self.act_on(event);
        }
        std::mem::swap(&mut self.out, out);
    }

    /// Takes one event in and does all that follows from it and from the time.
    pub(crate) fn act_on(&mut self, event: Event) {
        if matches!(event, Event::Suspended) {
            return self.suspend();
        }
        self.note_start_lapse();
        // A process that was stopped for a while must find that out before it acts.
        if !self.keep_lease() || matches!(event, Event::Elected { .. }) {
            self.take_in(event);
        }
        self.keep_time();
        self.settle();
        self.peers.clear();
    }

    fn take_in(&mut self, event: Event) {
        match event {
            Event::Elected { published } => self.on_elected(published),
            Event::Deposed => self.reset(),
            Event::Storage(id, result) => {
                let result = self.tell_unread(id, result);
                let outcome = self.ops.answered(id, result, self.now);
                self.on_storage(outcome);
            }
            Event::Cluster(event) => self.on_cluster(event),
            Event::LinkOpened(link) => self.on_link_opened(link),
            Event::Directive(link, directive) => self.on_directive(link, directive),
            Event::LinkClosed(link) => self.on_link_closed(link),
            Event::Placed(answer) => self.on_placed(&answer),
            Event::Tails(run, tails) => self.on_tails(&run, tails),
            Event::Probed(answer) => self.on_probed(answer),
            Event::Gateway(address) => self.drivers.reach(address),
            Event::CallCredit(told) => self.on_call_credit(told),
            Event::Suspended | Event::Resumed | Event::Wake => {}
        }
    }

    /// Does what its time has come for.
    fn keep_time(&mut self) {
        if self.phase == Phase::Follower {
            return;
        }
        self.ops.repeat_due(self.now, &mut self.out);
        self.retry_refused();
        self.beat();
        self.report_signs();
        self.report_starts();
        if self.phase >= Phase::Subscribing {
            self.keep_contact();
        }
        self.prove_streams();
        self.keep_reading();
        self.tell_unread_specs();
        self.keep_control();
        self.chase_launches();
        self.chase_overdue();
        self.replace_on();
        self.keep_reconciling();
        self.keep_draining();
        self.keep_daemons();
        self.keep_tearing_down();
        self.keep_inquiring();
        self.let_claims_lapse();
        self.keep_gangs();
        self.write_hosts();
    }

    /// Decides, commits and performs until nothing is left to do at this moment.
    fn settle(&mut self) {
        if self.phase == Phase::Serving {
            self.adopt_listed();
        }
        loop {
            let decided = self.decide_all();
            self.release_noted();
            let performed = self.perform_durable();
            if !decided && !performed {
                break;
            }
        }
        if self.phase == Phase::Serving {
            self.ask_placement();
            self.send_kills();
            self.hosts.set_complete(self.has_counted_runs());
            if self.contact.subscribed && !self.suspended {
                self.discard_volumes();
                self.ask_about_agents();
                self.change_host_pools();
                self.ask_for_agents();
                self.ask_for_flags();
                let calls = self.hosts.next_calls(self.demand(), self.now);
                self.out.extend(calls.into_iter().map(Effect::Cluster));
            }
            self.keep_finding();
            self.keep_reporting();
            self.perform_durable();
            self.keep_logs();
        }
        self.start_commits();
        self.sample_sets();
    }

    /// When `Event::Wake` is wanted at the latest; `None`: not before something happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        if self.phase == Phase::Follower {
            return None;
        }
        if self.is_suspended() {
            let at = self.next_resumption();
            return at.map(|at| at.max(Timestamp(self.now.0.saturating_add(1))));
        }
        let common = [
            self.ops.next_due(),
            self.journal.next_flush(),
            self.next_retry_of_refused(),
            self.reread_epoch_at,
            (self.phase >= Phase::Subscribing).then(|| self.contact.due()),
        ];
        let lease = self.config.timing.lease;
        let leading = [
            Some(self.confirm_at),
            // A storage that is full keeps a leader beyond its lease: what has passed is no reason to wake then.
            Some(self.confirmed_at.plus(lease)).filter(|at| *at > self.now),
            self.journal
                .oldest_flight()
                .map(|at| at.plus(lease))
                .filter(|at| *at > self.now),
            self.storage_trouble
                .as_ref()
                .map(|(at, _)| at.plus(lease))
                .filter(|at| *at > self.now),
            Some(self.excused_at.plus(lease)).filter(|at| *at > self.now),
            Some(self.beat_at),
            Some(self.telling.signs_at),
        ];
        // What may not be done now is no reason to wake: its time may have passed long ago.
        let subscribed = self.contact.subscribed;
        let acting = self.may_act() && subscribed;
        let serving = [
            self.picture.timers.first().map(|(at, _)| *at),
            self.launch_due.first().map(|(at, _)| *at),
            self.overdue.next_due().filter(|_| subscribed),
            self.kills
                .next_due()
                .map(|at| at.max(self.paces.free_at(Action::Kill)))
                .filter(|_| acting && self.may_kill()),
            self.next_control(),
            self.next_teardown(),
            self.next_inquiry(),
            self.claims.next_due(),
            self.gangs.next_due().filter(|_| acting),
            self.next_finding(),
            self.daemons.next_due(),
            self.reconcile
                .next_due()
                .filter(|_| subscribed && !self.suspended),
            self.placing.next_due(self.may_begin()),
            self.placing
                .next_launches(self.may_begin() && !self.awaits_credit())
                .map(|()| self.paces.free_at(Action::Launch)),
            self.next_replacement(),
            self.next_log().filter(|_| self.may_act()),
            self.hosts
                .next_wake(self.demand(), self.now)
                .filter(|_| subscribed && !self.suspended),
            self.next_agent_call().filter(|_| acting && !self.is_recovering()),
            self.next_list().filter(|_| subscribed && !self.suspended),
            self.hosts.next_flags().filter(|_| subscribed && !self.suspended),
            self.telling.due.filter(|_| self.telling.batches.is_empty()),
        ];
        let complete = [self.telling.capacity_at, self.reread_at, self.host_rows_at];
        let all = common.into_iter();
        let all = all.chain(leading.into_iter().filter(|_| self.epoch_taken()));
        let all = all.chain(serving.into_iter().filter(|_| self.phase == Phase::Serving));
        let complete = complete
            .into_iter()
            .filter(|_| self.phase == Phase::Serving && !self.is_recovering());
        all.flatten()
            .chain(complete)
            .min()
            .map(|at| Timestamp(at.0.max(self.now.0.saturating_add(1))))
    }
}
