//! What is known of one host. Its master tells how large it is where it lists its agents to us; else its capacity is the most that
//! offers and our tasks together were ever seen to take.

use crate::agents::Agent;
use crate::event::Offer;
use crate::ledger::Used;
use echelon_core_model::cluster::{Host, HostView, LeftOut, Slack};
use echelon_core_model::host_pool::HostPlace;
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::{HostId, HostPoolName, PortSet, Resources, Span, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The room of an ended task may be offered before its end is told (R97), and then counts twice: a larger capacity is
/// believed once none of the host's tasks has ended for this long. Longer than the first retries of an update (R94).
const SETTLED_AFTER: Span = Span::minutes(2);

/// One host.
#[derive(Debug, Clone)]
pub struct Record {
    hostname: Arc<str>,
    address: String,
    /// As many as its row has a place for: nothing of a host grows with what its master sends.
    attributes: Arc<BTreeMap<String, String>>,
    /// How many attributes are left out.
    attributes_left_out: u32,
    capacity: Resources,
    /// All ports that it ever offered us; none before its first offer to this leader.
    ports: Option<PortSet>,
    /// Capacity before the latest growth that is not settled.
    believed: Resources,
    grown_at: Timestamp,
    /// What the master says that it has.
    pub listed: Option<Resources>,
    /// What others were last told to hold of the capacity.
    others: Others,
    /// What the last list told to be offered to others.
    offered_before: Resources,
    /// What it lends. It may want that back at any time, so the newest sign counts and not the most that was seen.
    pub lent: Resources,
    /// Whether Mesos has contact with it.
    pub reachable: bool,
    /// When it was last seen in an offer, an update or the list of all agents.
    pub seen_at: Timestamp,
    /// When it was last lost.
    pub lost_at: Timestamp,
    /// Whether its master offers what it has.
    pub agent: AgentState,
}

impl Record {
    /// A host of which only the id is known.
    pub fn unnamed(id: &HostId, now: Timestamp) -> Self {
        Self {
            hostname: Arc::from(id.as_str()),
            address: String::new(),
            attributes: Arc::default(),
            attributes_left_out: 0,
            capacity: Resources::ZERO,
            ports: None,
            believed: Resources::ZERO,
            grown_at: now,
            listed: None,
            others: Others::default(),
            offered_before: Resources::ZERO,
            lent: Resources::ZERO,
            reachable: true,
            seen_at: now,
            lost_at: Timestamp::default(),
            agent: AgentState::Active,
        }
    }

    /// A host as an earlier leader stored it.
    pub fn restored(row: Host) -> Self {
        Self {
            hostname: Arc::from(row.hostname),
            address: row.address,
            attributes: Arc::new(row.attributes),
            attributes_left_out: row.left_out.attributes,
            capacity: row.capacity,
            ports: None,
            believed: row.capacity,
            grown_at: Timestamp::default(),
            listed: None,
            others: Others::default(),
            offered_before: Resources::ZERO,
            lent: Resources::ZERO,
            reachable: row.reachable,
            seen_at: row.seen_at,
            lost_at: Timestamp::default(),
            agent: AgentState::Active,
        }
    }

    /// Takes name and attributes from an offer; whether anything is new. A restarted agent may have more attributes (R120).
    pub fn described_by(&mut self, offer: &Offer, now: Timestamp) -> bool {
        let same = self.reachable
            && self.agent == AgentState::Active
            && self.hostname == offer.hostname
            && self.address == offer.address
            && self.has_attributes(&offer.attributes);
        self.seen(now);
        self.agent = AgentState::Active;
        let ports = offer.all_ports();
        match &mut self.ports {
            Some(known) if known.covers(&ports) => {}
            Some(known) => *known = known.union(&ports),
            None => self.ports = Some(ports),
        }
        if !same {
            self.hostname = Arc::clone(&offer.hostname);
            self.address.clone_from(&offer.address);
            self.set_attributes(&offer.attributes);
        }
        !same
    }

    /// Takes in what the master lists of it; whether anything but what others hold is another than before.
    /// `ours` is what our tasks held there when it was listed. `offered_of_role` is what was offered to other
    /// frameworks of our role.
    pub fn listed(&mut self, agent: &Agent, ours: Resources, offered_of_role: Resources) -> bool {
        let offered = agent.others.offered.plus(offered_of_role);
        let others = Others {
            used: agent.others.used.plus(agent.of_role.minus(ours)),
            // An offer that is on its way back to the master is in one list only.
            offered: offered.min_each(self.offered_before),
        };
        self.offered_before = offered;
        let same = self.capacity == agent.total
            && self.hostname == agent.hostname
            && self.address == agent.address
            && self.has_attributes(&agent.attributes);
        if !same {
            self.hostname = Arc::clone(&agent.hostname);
            self.address.clone_from(&agent.address);
            self.set_attributes(&agent.attributes);
        }
        (self.capacity, self.believed) = (agent.total, agent.total);
        self.listed = Some(agent.total);
        self.others = others;
        self.lent = agent.lent;
        if self.ports.as_ref() != Some(&agent.ports) {
            self.ports = Some(agent.ports.clone());
        }
        !same
    }

    fn has_attributes(&self, all: &BTreeMap<String, String>) -> bool {
        if Host::takes_attributes(all) {
            return self.attributes_left_out == 0 && *self.attributes == *all;
        }
        let (taken, left_out) = Host::cut_attributes(all);
        (&*self.attributes, self.attributes_left_out) == (&taken, left_out)
    }

    fn set_attributes(&mut self, all: &BTreeMap<String, String>) {
        let (taken, left_out) = Host::cut_attributes(all);
        self.attributes = Arc::new(taken);
        self.attributes_left_out = left_out;
    }

    /// Notes a sign of life; whether it was thought lost.
    pub fn seen(&mut self, now: Timestamp) -> bool {
        self.seen_at = self.seen_at.max(now);
        !std::mem::replace(&mut self.reachable, true)
    }

    /// More room was offered or counted; whether the capacity grew.
    pub fn sum_grew(&mut self, free: Resources, used: Resources, now: Timestamp) -> bool {
        let sum = free.plus(used);
        if sum.fits(self.capacity) {
            return false;
        }
        if self.settled(now) {
            self.believed = self.capacity;
        }
        self.capacity = self.capacity.max_each(sum);
        self.grown_at = now;
        if used.is_zero() {
            // Nothing can be counted twice.
            self.believed = self.capacity;
        }
        true
    }

    /// A task of the host ended, so that `used` is less now; whether the capacity was corrected.
    pub fn task_ended(&mut self, free: Resources, used: Resources, now: Timestamp) -> bool {
        if self.settled(now) {
            return false;
        }
        let corrected = self.believed.max_each(free.plus(used)).min_each(self.capacity);
        std::mem::replace(&mut self.capacity, corrected) != corrected
    }

    fn settled(&self, now: Timestamp) -> bool {
        now.since(self.grown_at) >= SETTLED_AFTER
    }

    /// Its name.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Its name and the address of its agent.
    pub fn place(&self) -> (&str, &str) {
        (&self.hostname, &self.address)
    }

    /// Makes the same name the same text.
    pub fn share_hostname(&self, name: &mut Arc<str>) {
        if *self.hostname == **name {
            name.clone_from(&self.hostname);
        }
    }

    /// All that it is known to have.
    pub const fn capacity(&self) -> Resources {
        self.capacity
    }

    /// What there is for us: not what others hold, and at least what our tasks do. A launch that was lost is counted while its room
    /// is offered again: where the master has told what there is, both together make it no larger.
    pub fn room(&self, used: Resources) -> Resources {
        let left = if self.is_offerable() {
            self.owned()
        } else {
            Resources::ZERO
        };
        left.max_each(used)
    }

    /// What others were last told to hold of it.
    pub const fn others(&self) -> Others {
        self.others
    }

    /// What tasks of others do not use of it, whether the master offers it or not.
    pub fn owned(&self) -> Resources {
        self.listed.unwrap_or(self.capacity).minus(self.others.used)
    }

    /// Whether the master may offer it: it is connected, and no operator of Mesos wants it empty.
    pub fn is_offerable(&self) -> bool {
        self.agent == AgentState::Active
    }

    /// All ports that it is known to have.
    pub const fn ports(&self) -> Option<&PortSet> {
        self.ports.as_ref()
    }

    /// As placement sees it.
    pub fn view(
        &self,
        id: &HostId,
        host_pool: HostPoolName,
        (free, slack): (Resources, Resources),
        used: Used,
    ) -> HostView {
        HostView {
            id: id.clone(),
            hostname: Arc::clone(&self.hostname),
            attributes: Arc::clone(&self.attributes),
            host_pool,
            free,
            capacity: self.capacity,
            used: used.resources,
            slack: Slack {
                free: slack,
                capacity: self.lent,
                used: used.revocable,
            },
            draining: false,
            kept: false,
            others: self.others,
            ports: PortSet::new(),
            ports_left: None,
        }
    }

    /// As it is stored, but for its maintenance, its volumes and its host pool.
    pub fn row(&self, id: &HostId, used: Used) -> Host {
        Host {
            id: id.clone(),
            hostname: self.hostname.to_string(),
            address: self.address.clone(),
            capacity: self.capacity,
            used: used.resources,
            tasks: used.tasks,
            attributes: (*self.attributes).clone(),
            reachable: self.reachable,
            seen_at: self.seen_at,
            maintenance: None,
            volumes: Vec::new(),
            drain: None,
            place: HostPlace::default(),
            left_out: LeftOut {
                attributes: self.attributes_left_out,
                volumes: 0,
            },
            others: self.others,
            agent: self.agent,
        }
    }
}
