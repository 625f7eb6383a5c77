//! Bundles of resources: plain amounts, and amounts that carry a mark: reserved for a role, a volume on a disk, shared,
//! revocable (rules R91, R121 to R128). Their form on the wire is in `resource`. Kinds and disks that are not listed
//! here are not simulated.

use crate::amount::Amount;
use echelon_proto::mesos::v1::{Attribute, value};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Resources of one agent, or a part of them.
///
/// A shared volume is one thing however many hold it: adding it again changes nothing, and subtracting it leaves it
/// there (rule R127). Only `Bundle::convert` makes or ends one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bundle {
    /// Without a mark.
    pub(crate) plain: Amount,
    /// With one; no amount is empty.
    pub(crate) marked: BTreeMap<Mark, Amount>,
}

/// What makes a resource more than an amount.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Mark {
    /// For whom it is reserved; the last is the most specific (rule R128).
    pub reservations: Vec<Reservation>,
    /// The volume that a disk is.
    pub volume: Option<Disk>,
    /// Several tasks may hold it at once.
    pub shared: bool,
    /// It may be taken back at any time.
    pub revocable: bool,
}

/// One level of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reservation {
    pub role: String,
    pub principal: Option<String>,
    pub labels: Vec<(String, Option<String>)>,
    /// Made by an operation, not by the agent's flags.
    pub dynamic: bool,
}

/// A persistent volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Disk {
    pub id: String,
    pub principal: Option<String>,
    pub container_path: String,
    pub read_only: bool,
}

static PLAIN: Mark = Mark::plain();

impl Mark {
    /// None.
    pub(crate) const fn plain() -> Self {
        Self {
            reservations: Vec::new(),
            volume: None,
            shared: false,
            revocable: false,
        }
    }

    pub(crate) fn is_plain(&self) -> bool {
        *self == PLAIN
    }

    /// The role that it is reserved for.
    pub(crate) fn reserved_for(&self) -> Option<&str> {
        self.reservations.last().map(|last| last.role.as_str())
    }
}

impl Bundle {
    /// Whole CPUs and MiB, without ports and GPUs.
    #[must_use]
    pub const fn of(cpus: u64, mem: u64, disk: u64) -> Self {
        let (cpus, mem, disk) = (cpus * 1000, mem * 1000, disk * 1000);
        let plain = Amount {
            cpus,
            mem,
            disk,
            gpus: 0,
            ports: Vec::new(),
        };
        Self {
            plain,
            marked: BTreeMap::new(),
        }
    }

    /// Adds a range of ports, both ends included.
    #[must_use]
    pub fn with_ports(mut self, first: u64, last: u64) -> Self {
        self.plain.add_ports(&[(first, last)]);
        self
    }

    /// The same with these ports in place of its plain ones.
    #[must_use]
    pub fn with_only_ports(mut self, first: u64, last: u64) -> Self {
        self.plain.ports.clear();
        self.with_ports(first, last)
    }

    /// The lowest of its plain ports.
    #[must_use]
    pub fn first_port(&self) -> Option<u64> {
        self.plain.ports.iter().map(|(first, _)| *first).min()
    }

    /// Adds whole GPUs.
    #[must_use]
    pub const fn with_gpus(mut self, gpus: u64) -> Self {
        self.plain.gpus = gpus * 1000;
        self
    }

    /// Reserves plain resources for a role, as an agent's flags do (`cpus(role):1`).
    #[must_use]
    pub fn with_reserved(mut self, role: &str, part: &Self) -> Self {
        let mark = Mark {
            reservations: vec![Reservation {
                role: role.to_owned(),
                principal: None,
                labels: Vec::new(),
                dynamic: false,
            }],
            ..Mark::plain()
        };
        self.add_part(&mark, &part.plain);
        self
    }

    /// All parts with their marks: plain ones first.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Mark, &Amount)> {
        let plain = (!self.plain.is_empty()).then_some((&PLAIN, &self.plain));
        plain.into_iter().chain(&self.marked)
    }

    /// Persistent volumes among it: their ids, and where tasks see them.
    pub(crate) fn volumes(&self) -> Vec<(String, String)> {
        let disks = self.marked.keys().filter_map(|mark| mark.volume.as_ref());
        disks
            .map(|disk| (disk.id.clone(), disk.container_path.clone()))
            .collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plain.is_empty() && self.marked.is_empty()
    }

    /// Whether an offer of it would be of use: 0.01 CPUs or 32 MiB (rule R69).
    pub(crate) fn is_allocatable(&self) -> bool {
        let sum = |of: fn(&Amount) -> u64| {
            self.parts()
                .map(|(_, amount)| of(amount))
                .fold(0, u64::saturating_add)
        };
        sum(|amount| amount.cpus) >= 10 || sum(|amount| amount.mem) >= 32_000
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (mark, amount) in other.parts() {
            self.add_part(mark, amount);
        }
    }

    pub(crate) fn add_part(&mut self, mark: &Mark, amount: &Amount) {
        if mark.is_plain() {
            self.plain.add(amount);
        } else if !amount.is_empty() {
            match self.marked.entry(mark.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(amount.clone())),
                Entry::Occupied(_) if mark.shared => {}
                Entry::Occupied(mut entry) => entry.get_mut().add(amount),
            }
        }
    }

    /// Takes `other` away as far as it is there.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (mark, amount) in other.parts().filter(|(mark, _)| !mark.shared) {
            self.subtract_part(mark, amount);
        }
    }

    fn subtract_part(&mut self, mark: &Mark, amount: &Amount) {
        if mark.is_plain() {
            self.plain.subtract(amount);
        } else if let Some(own) = self.marked.get_mut(mark) {
            own.subtract(amount);
            if own.is_empty() {
                self.marked.remove(mark);
            }
        }
    }

    /// Turns a part into another, shared volumes included.
    pub(crate) fn convert(&mut self, consumed: &Self, converted: &Self) {
        for (mark, amount) in consumed.parts() {
            self.subtract_part(mark, amount);
        }
        self.add(converted);
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        other.parts().all(|(mark, need)| {
            let own = match mark {
                plain if plain.is_plain() => Some(&self.plain),
                mark => self.marked.get(mark),
            };
            // Nobody can hold a part of a volume.
            own.is_some_and(|own| own == need || mark.volume.is_none() && own.contains(need))
        })
    }

    /// The parts whose mark is wanted.
    pub(crate) fn only(&self, wanted: impl Fn(&Mark) -> bool) -> Self {
        let mut kept = Self::default();
        for (mark, amount) in self.parts().filter(|(mark, _)| wanted(mark)) {
            kept.add_part(mark, amount);
        }
        kept
    }

    /// What counts against others: without ports, and without what several may hold at once.
    pub(crate) fn exclusive_scalars(&self) -> Self {
        let mut kept = self.only(|mark| !mark.shared);
        kept.plain.ports.clear();
        kept
    }

    /// The sum of all parts, whatever their marks.
    pub(crate) fn sum(&self) -> Amount {
        let mut sum = Amount::default();
        for (_, amount) in self.parts() {
            sum.add(amount);
        }
        sum
    }
}

/// An attribute with a text value, as `--attributes=rack:r1` makes it.
#[must_use]
pub fn text_attribute(name: &str, value: &str) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: value::Type::Text.into(),
        text: Some(value::Text {
            value: value.to_owned(),
        }),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amount::to_thousandths;

    fn disk(mib: u64) -> Amount {
        Amount {
            disk: mib * 1000,
            ..Amount::default()
        }
    }

    fn volume(shared: bool) -> Mark {
        Mark {
            volume: Some(Disk {
                id: "v".to_owned(),
                principal: None,
                container_path: "data".to_owned(),
                read_only: false,
            }),
            shared,
            ..Mark::plain()
        }
    }

    fn with(mark: Mark, amount: Amount) -> Bundle {
        Bundle {
            plain: Amount::default(),
            marked: BTreeMap::from([(mark, amount)]),
        }
    }

    #[test]
    fn what_is_taken_comes_back() {
        let all = Bundle::of(4, 1024, 100).with_ports(31000, 31010).with_gpus(2);
        let mut part = Bundle::default().with_ports(31002, 31003);
        (part.plain.cpus, part.plain.mem) = (100, 32_000);
        let mut free = all.clone();
        free.subtract(&part);
        assert_eq!(free.plain.ports, [(31000, 31001), (31004, 31010)]);
        assert!(all.contains(&part) && all.contains(&free) && !free.contains(&part) && !free.contains(&all));
        free.add(&part);
        assert_eq!(free, all);
    }

    #[test]
    fn marks_keep_amounts_apart() {
        let revocable = Mark {
            revocable: true,
            ..Mark::plain()
        };
        let mut all = Bundle::of(1, 0, 100);
        all.add_part(&revocable, &Bundle::of(2, 0, 0).plain);
        assert!(!all.contains(&Bundle::of(2, 0, 0)));
        assert!(all.contains(&with(revocable.clone(), Bundle::of(2, 0, 0).plain)));
        all.subtract(&with(revocable, Bundle::of(2, 0, 0).plain));
        assert_eq!(all, Bundle::of(1, 0, 100));
    }

    #[test]
    fn a_volume_is_held_as_a_whole() {
        let all = with(volume(false), disk(64));
        assert!(all.contains(&with(volume(false), disk(64))));
        assert!(!all.contains(&with(volume(false), disk(32))));
    }

    #[test]
    fn a_shared_volume_stays_until_it_is_converted() {
        let shared = with(volume(true), disk(64));
        let mut free = Bundle::default();
        free.convert(&Bundle::default(), &shared);
        free.subtract(&shared);
        free.add(&shared);
        assert_eq!(free, shared);
        free.convert(&shared, &Bundle::of(0, 0, 64));
        assert_eq!(free, Bundle::of(0, 0, 64));
    }

    #[test]
    fn a_tenth_of_a_cpu_ten_times_is_a_cpu() {
        let mut sum = Bundle::default();
        let mut tenth = Bundle::default();
        tenth.plain.cpus = to_thousandths(0.1);
        for _ in 0..10 {
            sum.add(&tenth);
        }
        assert_eq!(sum, Bundle::of(1, 0, 0));
    }
}
