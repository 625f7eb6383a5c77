//! Quantities as a fixed-order vector of integers: milli-CPU, MiB, MiB, milli-GPU. Sums are exact and every run of an
//! algorithm gives the same answer. Ports are not quantities; see `PortSet`.

use std::fmt;

/// A resource kind. The order is the order of `Resources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Processor time, in thousandths of a core.
    Cpus,
    /// Memory, in MiB.
    Memory,
    /// Disk, in MiB.
    Disk,
    /// GPUs, in thousandths.
    Gpus,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Self; 4] = [Self::Cpus, Self::Memory, Self::Disk, Self::Gpus];

    /// The word used in job files, API, metrics and reasons.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpus => "cpus",
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Gpus => "gpus",
        }
    }

    /// The name of this kind's quantity in the API, with its unit.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Cpus => "cpus_milli",
            Self::Memory => "memory_mib",
            Self::Disk => "disk_mib",
            Self::Gpus => "gpus_milli",
        }
    }

    /// A quantity of this kind as people write it: `1.5`, `64MiB`.
    #[must_use]
    pub fn show(self, quantity: u64) -> String {
        match self {
            Self::Cpus | Self::Gpus if quantity.is_multiple_of(1000) => format!("{}", quantity / 1000),
            Self::Cpus | Self::Gpus => format!("{}.{:03}", quantity / 1000, quantity % 1000)
                .trim_end_matches('0')
                .to_owned(),
            Self::Memory | Self::Disk => format!("{quantity}MiB"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One quantity of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Resources {
    /// Milli-CPU.
    pub cpus: u64,
    /// MiB of memory.
    pub memory: u64,
    /// MiB of disk.
    pub disk: u64,
    /// Milli-GPU.
    pub gpus: u64,
}

impl Resources {
    /// Nothing of anything.
    pub const ZERO: Self = Self {
        cpus: 0,
        memory: 0,
        disk: 0,
        gpus: 0,
    };
    /// No bound on anything.
    pub const MAX: Self = Self {
        cpus: u64::MAX,
        memory: u64::MAX,
        disk: u64::MAX,
        gpus: u64::MAX,
    };

    /// As much of each kind.
    #[must_use]
    pub const fn of_each(quantity: u64) -> Self {
        Self {
            cpus: quantity,
            memory: quantity,
            disk: quantity,
            gpus: quantity,
        }
    }

    /// The quantity of one kind.
    #[must_use]
    pub const fn get(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Cpus => self.cpus,
            Kind::Memory => self.memory,
            Kind::Disk => self.disk,
            Kind::Gpus => self.gpus,
        }
    }

    /// The same with one kind replaced.
    #[must_use]
    pub const fn with(mut self, kind: Kind, quantity: u64) -> Self {
        match kind {
            Kind::Cpus => self.cpus = quantity,
            Kind::Memory => self.memory = quantity,
            Kind::Disk => self.disk = quantity,
            Kind::Gpus => self.gpus = quantity,
        }
        self
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpus: f(self.cpus, other.cpus),
            memory: f(self.memory, other.memory),
            disk: f(self.disk, other.disk),
            gpus: f(self.gpus, other.gpus),
        }
    }

    /// The sum; saturates. What is added and subtracted for long is a `ResourceSum`, which does not.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// What is left; zero where `other` is larger.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// `n` times each; saturates.
    #[must_use]
    pub fn times(self, n: u64) -> Self {
        self.zip(self, |a, _| a.saturating_mul(n))
    }

    /// The smaller of each kind.
    #[must_use]
    pub fn min_each(self, other: Self) -> Self {
        self.zip(other, u64::min)
    }

    /// The larger of each kind.
    #[must_use]
    pub fn max_each(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Of a host or cluster that lends `lent`: these amounts of the kinds that revocable work takes from what is lent, and those of
    /// `other` of every other kind. Processor time is always taken from what is lent, other kinds where any is lent: one task
    /// must not mix both in one kind (Mesos rule R91).
    #[must_use]
    pub fn where_lent(self, lent: Self, other: Self) -> Self {
        Kind::ALL.into_iter().fold(other, |out, kind| {
            if kind == Kind::Cpus || lent.get(kind) > 0 {
                out.with(kind, self.get(kind))
            } else {
                out
            }
        })
    }

    /// These amounts of the kinds of which `asked` has any, and those of `other` of every other kind.
    #[must_use]
    pub fn where_asked(self, asked: Self, other: Self) -> Self {
        Kind::ALL.into_iter().fold(other, |out, kind| {
            if asked.get(kind) > 0 {
                out.with(kind, self.get(kind))
            } else {
                out
            }
        })
    }

    /// 1 of each kind of which there is any.
    #[must_use]
    pub fn kinds(self) -> Self {
        self.min_each(Self {
            cpus: 1,
            memory: 1,
            disk: 1,
            gpus: 1,
        })
    }

    /// What a revocable instance of this shape takes of the `lent` room; the rest it takes of ordinary room.
    #[must_use]
    pub fn lent_part(self, lent: Self) -> Self {
        self.where_lent(lent, Self::ZERO)
    }

    /// These amounts of the kinds of which `other` has any: what a part of a pod takes of lent room, of which its run takes `other`.
    #[must_use]
    pub fn in_kinds_of(self, other: Self) -> Self {
        self.zip(other, |own, other| if other > 0 { own } else { 0 })
    }

    /// Whether it fits into `room` in every kind.
    #[must_use]
    pub fn fits(self, room: Self) -> bool {
        self.first_lack(room).is_none()
    }

    /// The first kind of which `room` has too little.
    #[must_use]
    pub fn first_lack(self, room: Self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| self.get(*k) > room.get(*k))
    }

    /// How many whole shapes of `self` fit into `room`; `u64::MAX` for the empty shape.
    #[must_use]
    pub fn count_in(self, room: Self) -> u64 {
        Kind::ALL
            .into_iter()
            .filter(|k| self.get(*k) > 0)
            .map(|k| room.get(k) / self.get(k))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Whether all are zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for kind in Kind::ALL.into_iter().filter(|k| self.get(*k) > 0) {
            write!(
                f,
                "{}{kind} {}",
                if first { "" } else { ", " },
                kind.show(self.get(kind))
            )?;
            first = false;
        }
        if first { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        let r = Resources {
            cpus: 100,
            memory: 32,
            disk: 0,
            gpus: 2000,
        };
        assert_eq!(r.to_string(), "cpus 0.1, memory 32MiB, gpus 2");
        assert_eq!(Resources::ZERO.to_string(), "nothing");
    }

    #[test]
    fn revocable_work_takes_each_kind_from_one_side() {
        let wanted = Resources {
            cpus: 2000,
            memory: 64,
            disk: 10,
            gpus: 0,
        };
        let of = |cpus, memory| Resources {
            cpus,
            memory,
            ..Resources::ZERO
        };
        for lent in [of(0, 0), of(1, 0), of(4000, 0)] {
            assert_eq!(
                wanted.lent_part(lent),
                of(2000, 0),
                "never ordinary processor time"
            );
        }
        assert_eq!(wanted.lent_part(of(4000, 1)), of(2000, 64), "never both");
        assert_eq!(wanted.in_kinds_of(of(1, 0)), of(wanted.cpus, 0));
        let (slack, ordinary) = (of(7, 8), of(1, 2));
        assert_eq!(slack.where_lent(of(0, 0), ordinary), of(7, 2));
        assert_eq!(slack.where_lent(of(0, 9), ordinary), of(7, 8));
    }

    #[test]
    fn shapes_are_counted_by_their_scarcest_kind() {
        let shape = Resources {
            cpus: 500,
            memory: 100,
            ..Resources::ZERO
        };
        let room = Resources {
            cpus: 4000,
            memory: 350,
            disk: 9,
            gpus: 0,
        };
        assert_eq!(shape.count_in(room), 3);
        assert_eq!(Resources { gpus: 1, ..shape }.first_lack(room), Some(Kind::Gpus));
        assert_eq!(Resources::ZERO.count_in(Resources::ZERO), u64::MAX);
    }
}
