//! Where the instances of one group go, one after the other while nobody else takes room: to the host that is best by the group's
//! rules, and among those to the one that its strategy takes.

use crate::classes::Classes;
use crate::hosts::{Brief, HostIdx, Rank};
use crate::problem::{Item, Wanted};
use crate::room::Room;
use crate::rules::Rules;
use crate::strategy::{Candidate, Cost, Draws, Strategy};
use crate::together::Region;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, btree_map};
use std::ops::Range;
use std::rc::Rc;

/// Where an item went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seated<'a> {
    /// The item.
    pub item: &'a Item,
    /// Its host.
    pub host: HostIdx,
    /// Its ports there.
    pub ports: Vec<u16>,
    /// Whether it should have avoided it.
    pub avoided: bool,
}

/// What a host costs: how often the group is on hosts already where that comes first, then what the strategy says.
type Price = (u32, Cost);
/// Index of a class of hosts between which only the price tells.
type ClassIdx = usize;

/// Hosts in the order in which their prices grow as long as they have none of the group.
struct Draw<'a> {
    how: Draws,
    /// What is as it is kept, and the next of these.
    order: btree_map::Range<'a, Rank, Brief>,
    /// Who asks.
    wanted: &'a Wanted,
    kept: Option<Rank>,
    /// What was moved before the group's turn, the last one first. What the group itself moves was drawn already.
    moved: Vec<Rank>,
    indexes: Range<HostIdx>,
}

impl<'a> Draw<'a> {
    /// Hosts with less room in sum than an instance takes are left out.
    fn new(how: Draws, wanted: &'a Wanted, room: &Room<'a>) -> Self {
        let hosts = room.hosts();
        let least = if wanted.revocable {
            0
        } else {
            hosts.size_of(wanted.resources)
        };
        let mut moved = match how {
            Draws::Fullest | Draws::Roomiest => room.moved(),
            Draws::ById | Draws::All => Vec::new(),
        };
        moved.retain(|(size, _)| *size >= least);
        if how == Draws::Fullest {
            moved.reverse();
        }
        Self {
            how,
            order: hosts.order().range((least, 0)..),
            wanted,
            kept: None,
            moved,
            indexes: 0..hosts.len(),
        }
    }

    fn next(&mut self, room: &Room<'_>) -> Option<HostIdx> {
        let wanted = self.wanted;
        let as_kept = |(rank, brief): (&Rank, &Brief)| {
            let open = wanted.may_fit(brief.free, brief.kept) && room.is_as_kept(rank.1);
            open.then_some(*rank)
        };
        let before: fn(Rank, Rank) -> bool = match self.how {
            Draws::Fullest => {
                self.kept = self.kept.or_else(|| self.order.find_map(as_kept));
                |a, b| a < b
            }
            Draws::Roomiest => {
                self.kept = self.kept.or_else(|| self.order.by_ref().rev().find_map(as_kept));
                |a, b| a > b
            }
            Draws::ById | Draws::All => return self.indexes.next(),
        };
        let rank = match (self.kept, self.moved.last()) {
            (Some(kept), Some(moved)) if before(*moved, kept) => self.moved.pop(),
            (Some(_), _) => self.kept.take(),
            (None, _) => self.moved.pop(),
        };
        rank.map(|(_, host)| host)
    }
}

/// The search for one group.
pub struct Search<'s, 'a> {
    rules: Rules<'a>,
    room: &'s mut Room<'a>,
    strategy: &'static dyn Strategy,
    /// `None`: only the price tells hosts apart.
    classes: Option<Rc<Classes>>,
    /// Known hosts of each class.
    known: Vec<BinaryHeap<Reverse<(Price, HostIdx)>>>,
    /// An entry for each class that may have hosts, at most what its best one is.
    best: BinaryHeap<Reverse<(Vec<u64>, Price, ClassIdx)>>,
    /// Whether a class has none.
    unlisted: Vec<bool>,
    draw: Draw<'a>,
    /// No host that is still to be drawn is cheaper; `None`: all are drawn.
    floor: Option<Price>,
}

const FREE: Price = (0, [0; 3]);

fn price_of(rules: &Rules<'_>, room: &Room<'_>, strategy: &dyn Strategy, host: HostIdx) -> Price {
    let count = rules.count(host);
    let of = Candidate {
        host,
        size: room.size(host),
        count,
    };
    let first = if rules.spreads_over_hosts() { count } else { 0 };
    (first, strategy.cost(of))
}

impl<'s, 'a> Search<'s, 'a> {
    /// Begins one, among all hosts or only some.
    pub fn new(
        rules: Rules<'a>,
        classes: Option<Rc<Classes>>,
        strategy: &'static dyn Strategy,
        room: &'s mut Room<'a>,
        within: Option<&Region>,
    ) -> Self {
        let n = classes.as_ref().map_or(1, |c| c.len());
        // Within a region all hosts are known at once, and none is drawn.
        let draws = within.map_or_else(|| strategy.draws(), |_| Draws::ById);
        let draw = Draw::new(draws, rules.wanted(), room);
        let mut out = Self {
            known: vec![BinaryHeap::new(); n],
            best: BinaryHeap::new(),
            unlisted: vec![false; n],
            floor: Some(FREE),
            draw,
            rules,
            room,
            strategy,
            classes,
        };
        if let Some(region) = within {
            region.hosts.iter().for_each(|host| out.learn(*host));
            out.floor = None;
        } else {
            out.learn_first(strategy.draws());
        }
        out.best = (0..n)
            .map(|class| Reverse((out.standing(class), FREE, class)))
            .collect();
        out
    }

    /// Those that have any of the group, and all others where they are drawn in no order.
    fn learn_first(&mut self, draws: Draws) {
        let occupied: Vec<HostIdx> = self.rules.occupied().collect();
        occupied.into_iter().for_each(|host| self.learn(host));
        if draws == Draws::All {
            while let Some(host) = self.draw.next(self.room) {
                if self.rules.count(host) == 0 {
                    self.learn(host);
                }
            }
            self.floor = None;
        }
    }

    /// Seats the items in order until one finds no host: all others would not find one either, since they have the same shape and
    /// rules, and avoiding a host is only a preference.
    pub fn seat(&mut self, items: &[&'a Item]) -> Vec<Seated<'a>> {
        let mut out = Vec::with_capacity(items.len());
        for &item in items {
            let avoid: Vec<HostIdx> = item.avoid.iter().filter_map(|id| self.room.find(id)).collect();
            let Some(host) = self.choose(&avoid) else { break };
            let ports = self.room.take(host, self.rules.wanted());
            self.rules.seated(host);
            self.learn(host);
            self.learn_beside(host);
            out.push(Seated {
                item,
                host,
                ports,
                avoided: avoid.contains(&host),
            });
        }
        out
    }

    /// Seats those of the items that have a former host to go back to: where it may be used, is not avoided, and no host is better by
    /// the rules. The others are left for later.
    pub fn seat_back(&mut self, items: &[&'a Item]) -> Vec<Seated<'a>> {
        let mut out = Vec::new();
        for &item in items {
            let former = item.former.as_ref().filter(|id| !item.avoid.contains(id));
            let Some(former) = former.and_then(|id| self.room.find(id)) else {
                continue;
            };
            let Some(best) = self.take_best() else { break };
            let goes_back = self.is_as_good(former, best);
            if goes_back {
                let ports = self.room.take(former, self.rules.wanted());
                self.rules.seated(former);
                out.push(Seated {
                    item,
                    host: former,
                    ports,
                    avoided: false,
                });
            }
            self.learn(best);
            if goes_back && former != best {
                self.learn(former);
            }
            if goes_back {
                self.learn_beside(former);
            }
        }
        out
    }

    /// Whether a host may be used, and by the rules none is better than it; `best` is the one that would be taken.
    fn is_as_good(&self, host: HostIdx, best: HostIdx) -> bool {
        if host == best {
            return true;
        }
        let class = |host| self.classes.as_ref().map_or(0, |c| c.of(host));
        let even = self.rules.spreads_over_hosts() || self.strategy.keeps_even();
        self.rules.may_use(host, self.room)
            && self.standing(class(host)) <= self.standing(class(best))
            && (!even || self.rules.count(host) <= self.rules.count(best))
    }

    /// The best host that is not avoided, else the best one.
    fn choose(&mut self, avoid: &[HostIdx]) -> Option<HostIdx> {
        let mut passed_over = Vec::new();
        let chosen = loop {
            match self.take_best() {
                Some(host) if avoid.contains(&host) => passed_over.push(host),
                other => break other,
            }
        };
        let mut passed_over = passed_over.into_iter();
        let chosen = chosen.or_else(|| passed_over.next());
        passed_over.for_each(|host| self.learn(host));
        chosen
    }

    /// Takes the best host of all out of those that are known. What a class is can only become worse, but for the one that a host was
    /// taken of: its entry says the least that it can be.
    fn take_best(&mut self) -> Option<HostIdx> {
        while let Some(Reverse((standing, price, class))) = self.best.pop() {
            let Some((of_class, host)) = self.best_of(class) else {
                if let Some(unlisted) = self.unlisted.get_mut(class) {
                    *unlisted = true;
                }
                continue;
            };
            let now = self.standing(class);
            let better = |next: &Reverse<(Vec<u64>, Price, ClassIdx)>| {
                let Reverse((standing, price, _)) = next;
                (standing, price) < (&now, &of_class)
            };
            if (now == standing && of_class == price) || !self.best.peek().is_some_and(better) {
                self.known.get_mut(class)?.pop();
                self.best.push(Reverse((now, FREE, class)));
                return Some(host);
            }
            self.best.push(Reverse((now, of_class, class)));
        }
        None
    }

    /// The best host of a class.
    fn best_of(&mut self, class: ClassIdx) -> Option<(Price, HostIdx)> {
        loop {
            let known = self.known.get_mut(class)?;
            // What was taken without being drawn is known by its price of now beside that of before.
            while let Some(Reverse((price, host))) = known.peek()
                && (!self.rules.may_use(*host, self.room)
                    || *price != price_of(&self.rules, self.room, self.strategy, *host))
            {
                known.pop();
            }
            let top = known.peek().map(|Reverse(top)| *top);
            let Some(floor) = self.floor else { return top };
            if let Some((price, host)) = top
                && price <= floor
            {
                return Some((price, host));
            }
            match self.draw.next(self.room) {
                None => self.floor = None,
                Some(host) if self.rules.count(host) == 0 => {
                    self.floor = Some(self.price(host));
                    self.learn(host);
                }
                Some(_) => {}
            }
        }
    }

    /// The others on the machine of a host have another price, since the machine has one more of the group.
    fn learn_beside(&mut self, host: HostIdx) {
        let beside = self.room.hosts().beside(host).to_vec();
        beside.into_iter().for_each(|other| self.learn(other));
    }

    /// A host is known from now on, if it may be used.
    fn learn(&mut self, host: HostIdx) {
        if self.rules.may_use(host, self.room) {
            let class = self.classes.as_ref().map_or(0, |c| c.of(host));
            let price = self.price(host);
            if let Some(known) = self.known.get_mut(class) {
                known.push(Reverse((price, host)));
            }
            if self.unlisted.get(class) == Some(&true) {
                self.best.push(Reverse((self.standing(class), FREE, class)));
                if let Some(unlisted) = self.unlisted.get_mut(class) {
                    *unlisted = false;
                }
            }
        }
    }

    fn price(&self, host: HostIdx) -> Price {
        price_of(&self.rules, self.room, self.strategy, host)
    }

    /// How good the hosts of a class are by the rules: the less the better.
    fn standing(&self, class: ClassIdx) -> Vec<u64> {
        self.classes
            .as_ref()
            .map_or_else(Vec::new, |c| c.standing(class, &self.rules))
    }
}
