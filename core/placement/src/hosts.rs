//! The hosts of a cluster as placement keeps them between questions: changed host by host, shared with a question as a whole. What
//! follows from them is kept, too: an order from the fullest to the roomiest that does not depend on what is to be placed, and the
//! values of their attributes by number.

use echelon_core_model::cluster::HostView;
use echelon_core_model::{HostId, Kind, Resources};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Index of a host in the order of ids.
pub type HostIdx = usize;

/// Place of a host in the order: how much it has left, then its index.
pub type Rank = (u64, HostIdx);

/// What tells of most hosts that have no room that they have none, without a look at all that is known of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brief {
    /// Room that may be used.
    pub free: Resources,
    /// It is kept for work with GPUs.
    pub kept: bool,
}

impl Brief {
    const fn of(view: &HostView) -> Self {
        Self {
            free: view.free,
            kept: view.kept,
        }
    }
}

/// Millionths: fine enough to tell 0.001 cpus of a 1,000-core host from nothing.
const PARTS: u64 = 1_000_000;

/// All hosts at one moment. Two are equal when their hosts are, whatever was changed to come there.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// In the order of ids.
    views: Vec<HostView>,
    /// Where an id is, by a number that is made of it: ids are long and begin alike, so that comparing them takes longer.
    index: Vec<(u64, HostIdx)>,
    order: BTreeMap<Rank, Brief>,
    sizes: Vec<u64>,
    /// How many hosts have so much of each kind: the most of them is the unit of sizes.
    most: [BTreeMap<u64, u32>; 4],
    unit: Resources,
    columns: BTreeMap<String, Column>,
    pools: Column,
    /// The machines, by their names. Several agents may run on one.
    machines: Column,
    /// Of hosts that share their machine: the others on it.
    beside: BTreeMap<HostIdx, Vec<HostIdx>>,
    /// Hosts that were listed twice; the later entry was dropped.
    twice: Vec<HostId>,
}

/// The values of an attribute, numbered. Number 0 is no value.
#[derive(Debug, Clone, Default)]
pub struct Column {
    of_host: Vec<u32>,
    numbers: BTreeMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Column {
    /// The number of a host's value.
    pub fn number(&self, host: HostIdx) -> u32 {
        self.of_host.get(host).copied().unwrap_or_default()
    }

    /// The number of a value; `None`: no host ever had it.
    pub fn number_of(&self, text: &str) -> Option<u32> {
        self.numbers.get(text).copied()
    }

    /// The values in the order of their numbers; the first is none.
    pub fn values(&self) -> impl Iterator<Item = Option<&str>> {
        std::iter::once(None).chain(self.texts.iter().map(|t| Some(&**t)))
    }

    fn set(&mut self, host: HostIdx, text: &str) {
        let number = match self.numbers.get(text) {
            Some(n) => *n,
            None => {
                let text: Arc<str> = Arc::from(text);
                self.texts.push(Arc::clone(&text));
                let n = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
                self.numbers.insert(text, n);
                n
            }
        };
        if let Some(at) = self.of_host.get_mut(host) {
            *at = number;
        }
    }
}

impl Hosts {
    /// These hosts, in any order. `O(hosts log hosts)`.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = HostView>) -> Self {
        let mut twice = Vec::new();
        let mut by_id: BTreeMap<HostId, HostView> = BTreeMap::new();
        for host in hosts {
            if by_id.contains_key(&host.id) {
                twice.push(host.id);
            } else {
                by_id.insert(host.id.clone(), host);
            }
        }
        let mut out = Self {
            views: by_id.into_values().collect(),
            twice,
            ..Self::default()
        };
        for h in 0..out.views.len() {
            out.describe(h);
        }
        out.note_machines();
        out.index = out.views.iter().map(|v| mark(&v.id)).zip(0..).collect();
        out.index.sort_unstable();
        let all: Vec<Resources> = out.views.iter().map(span).collect();
        all.into_iter().for_each(|room| out.count(room, true));
        out.rank_all();
        out
    }

    /// The hosts in the order of their indexes.
    #[must_use]
    pub fn views(&self) -> &[HostView] {
        &self.views
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The index of a host, if it is among these. `O(log hosts)`.
    #[must_use]
    pub fn find(&self, id: &HostId) -> Option<HostIdx> {
        let mark = mark(id);
        let from = self.index.partition_point(|(m, _)| *m < mark);
        let mut alike = self.index.get(from..)?.iter().take_while(|(m, _)| *m == mark);
        let is = |host: &HostIdx| self.views.get(*host).is_some_and(|v| v.id == *id);
        alike.find(|(_, host)| is(host)).map(|(_, host)| *host)
    }

    /// Takes in how a host is now; one that is new makes all that is kept anew. `O(log hosts)`, unless it is larger or smaller than the
    /// largest.
    pub fn update(&mut self, view: HostView) {
        let Some(host) = self.find(&view.id) else {
            let views = std::mem::take(&mut self.views);
            *self = Self::new(views.into_iter().chain([view]));
            return;
        };
        let Some(at) = self.views.get_mut(host) else {
            return;
        };
        if *at == view {
            return;
        }
        let before = std::mem::replace(at, view);
        if machine_of(&before) != machine_of(at) {
            let views = std::mem::take(&mut self.views);
            *self = Self::new(views);
            return;
        }
        let (was, now) = (span(&before), span(at));
        let moved = Brief::of(&before) != Brief::of(at);
        let described = Arc::ptr_eq(&before.attributes, &at.attributes) || before.attributes == at.attributes;
        let moved_over = before.host_pool != at.host_pool;
        if !described {
            for name in before.attributes.keys() {
                if let Some(number) = self.columns.get_mut(name).and_then(|c| c.of_host.get_mut(host)) {
                    *number = 0;
                }
            }
        }
        if !described || moved_over {
            self.describe(host);
        }
        if was != now {
            let unit = self.unit;
            self.count(was, false);
            self.count(now, true);
            if self.unit != unit {
                self.rank_all();
                return;
            }
        }
        if moved {
            self.rank(host);
        }
    }

    /// Takes in how some hosts are now, and that others are gone; the rest is as before. `O(log hosts)` for
    /// each of them, but all that is kept is made once more where a host is new or of another machine, or one
    /// that was here is gone.
    pub fn renew(&mut self, changed: Vec<HostView>, gone: &[HostId]) {
        let known = |view: &HostView| self.find(&view.id).and_then(|host| self.views.get(host));
        let stays = |view: &HostView| known(view).is_some_and(|was| machine_of(was) == machine_of(view));
        let is_same = gone.iter().all(|id| self.find(id).is_none()) && changed.iter().all(stays);
        if is_same {
            changed.into_iter().for_each(|view| self.update(view));
            return;
        }
        let views = std::mem::take(&mut self.views)
            .into_iter()
            .map(|view| (view.id.clone(), view));
        let mut by_id: BTreeMap<HostId, HostView> = views.collect();
        gone.iter().for_each(|id| {
            by_id.remove(id);
        });
        by_id.extend(changed.into_iter().map(|view| (view.id.clone(), view)));
        *self = Self::new(by_id.into_values());
    }

    /// Forgets a host and makes all that is kept anew.
    pub fn remove(&mut self, id: &HostId) {
        if let Some(host) = self.find(id) {
            let mut views = std::mem::take(&mut self.views);
            views.remove(host);
            *self = Self::new(views);
        }
    }

    /// Hosts that were listed twice.
    pub(crate) fn twice(&self) -> &[HostId] {
        &self.twice
    }

    /// All hosts from the fullest to the roomiest.
    pub(crate) const fn order(&self) -> &BTreeMap<Rank, Brief> {
        &self.order
    }

    /// The values of an attribute; `None`: no host ever had it.
    pub(crate) fn column(&self, attribute: &str) -> Option<&Column> {
        self.columns.get(attribute)
    }

    /// The host pools.
    pub(crate) const fn pools(&self) -> &Column {
        &self.pools
    }

    /// The machines.
    pub(crate) const fn machines(&self) -> &Column {
        &self.machines
    }

    /// The other hosts on a host's machine.
    pub(crate) fn beside(&self, host: HostIdx) -> &[HostIdx] {
        self.beside.get(&host).map_or(&[], Vec::as_slice)
    }

    /// How much room is over all kinds, as a sum of parts of the largest host's.
    pub(crate) fn size_of(&self, room: Resources) -> u64 {
        let part = |kind: Kind| match (self.unit.get(kind), room.get(kind)) {
            (0, _) | (_, 0) => 0,
            (most, free) => match free.checked_mul(PARTS) {
                Some(parts) => parts / most,
                None => {
                    u64::try_from(u128::from(free) * u128::from(PARTS) / u128::from(most)).unwrap_or(u64::MAX)
                }
            },
        };
        Kind::ALL.into_iter().map(part).fold(0, u64::saturating_add)
    }

    /// How much a host has left as it is here.
    pub(crate) fn size(&self, host: HostIdx) -> u64 {
        self.sizes.get(host).copied().unwrap_or_default()
    }

    fn describe(&mut self, host: HostIdx) {
        let n = self.views.len();
        let Some(view) = self.views.get(host) else { return };
        self.pools.of_host.resize(n, 0);
        self.pools.set(host, view.host_pool.as_str());
        self.machines.of_host.resize(n, 0);
        self.machines.set(host, machine_of(view));
        for (name, text) in view.attributes.iter() {
            if !self.columns.contains_key(name) {
                let column = Column {
                    of_host: vec![0; n],
                    ..Column::default()
                };
                self.columns.insert(name.clone(), column);
            }
            if let Some(column) = self.columns.get_mut(name) {
                column.set(host, text);
            }
        }
    }

    /// Notes which hosts share a machine.
    fn note_machines(&mut self) {
        let mut by_machine: BTreeMap<u32, Vec<HostIdx>> = BTreeMap::new();
        for (host, machine) in self.machines.of_host.iter().enumerate() {
            by_machine.entry(*machine).or_default().push(host);
        }
        for hosts in by_machine.values().filter(|hosts| hosts.len() > 1) {
            for host in hosts {
                let others = hosts.iter().copied().filter(|other| other != host);
                self.beside.insert(*host, others.collect());
            }
        }
    }

    fn count(&mut self, room: Resources, comes: bool) {
        for (kind, of) in Kind::ALL.into_iter().zip(&mut self.most) {
            let n = of.entry(room.get(kind)).or_default();
            *n = if comes {
                n.saturating_add(1)
            } else {
                n.saturating_sub(1)
            };
            if *n == 0 {
                of.remove(&room.get(kind));
            }
            let most = of.last_key_value().map_or(0, |(most, _)| *most);
            self.unit = self.unit.with(kind, most);
        }
    }

    fn rank(&mut self, host: HostIdx) {
        let Some(brief) = self.views.get(host).map(Brief::of) else {
            return;
        };
        let size = self.size_of(brief.free);
        if let Some(at) = self.sizes.get_mut(host) {
            if *at != size {
                self.order.remove(&(*at, host));
                *at = size;
            }
            self.order.insert((size, host), brief);
        }
    }

    fn rank_all(&mut self) {
        self.sizes = self.views.iter().map(|v| self.size_of(v.free)).collect();
        let ranks = self.sizes.iter().copied().zip(0..);
        self.order = ranks.zip(self.views.iter().map(Brief::of)).collect();
    }
}

impl PartialEq for Hosts {
    fn eq(&self, other: &Self) -> bool {
        self.views == other.views
    }
}

impl Eq for Hosts {}

impl From<Vec<HostView>> for Hosts {
    fn from(views: Vec<HostView>) -> Self {
        Self::new(views)
    }
}

/// The name of the machine of a host: the host's name. A host without a name is by itself.
pub(crate) fn machine_of(view: &HostView) -> &str {
    if view.hostname.is_empty() {
        view.id.as_str()
    } else {
        &view.hostname
    }
}

/// A number of an id that few others share (FNV-1a).
fn mark(id: &HostId) -> u64 {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}

/// What a host has at most: what is known of that may lag behind what it offers.
fn span(view: &HostView) -> Resources {
    view.capacity.max_each(view.free)
}
