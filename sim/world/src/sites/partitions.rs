//! Where processes are, and which partitions divide them now.

use crate::clocks::Clock;
use echelon_core_model::Timestamp;

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Site {
    /// Where the servers of storage and membership are.
    Centre,
    /// Where a cluster is.
    Cluster(usize),
}

/// Which way nothing gets through a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoppedWay {
    /// Neither way.
    Both,
    /// From the first site to the second.
    Out,
    /// From the second site to the first.
    Back,
}

/// The other side of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FarSide {
    One(Site),
    AllOthers,
}

/// What a partition does to streams and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionKind {
    /// Streams break and sessions expire.
    Breaks,
    /// What is sent over streams comes at the end, and sessions go on.
    Delays,
}

/// Two sites between which nothing gets through for a while, at least one way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    pub(super) near: Site,
    pub(super) far: FarSide,
    pub(super) stopped: StoppedWay,
    pub(super) kind: PartitionKind,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
    /// When streams are opened again.
    pub(super) opens_at: Timestamp,
}

impl Partition {
    /// Whether it stops what is sent from one site to another.
    fn stops(&self, from: Site, to: Site) -> bool {
        let is_far = |site: Site| match self.far {
            FarSide::One(far) => far == site,
            FarSide::AllOthers => site != self.near,
        };
        let is_out = self.near == from && is_far(to) && self.stopped != StoppedWay::Back;
        let is_back = self.near == to && is_far(from) && self.stopped != StoppedWay::Out;
        from != to && (is_out || is_back)
    }

    /// Whether it stops what is sent between two sites, at least one way.
    pub(super) fn divides(&self, one: Site, other: Site) -> bool {
        self.stops(one, other) || self.stops(other, one)
    }
}

/// A gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gateway {
    pub(crate) site: Site,
    pub(crate) clock: Clock,
}

/// A time in which a cluster's site is cut off from all others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SiteCut {
    pub(crate) cluster: usize,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

/// Where processes are, and the partitions that have begun.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    /// Of the processes of the resource manager, in order. Those beyond are at the central site.
    pub(super) managers: Vec<Site>,
    /// The gateways of users, in order. Those beyond are at the central site, with the true time.
    gateways: Vec<Gateway>,
    pub(super) partitions: Vec<Partition>,
}

impl Sites {
    /// Places one more process of the resource manager.
    pub(crate) fn place_manager(&mut self, site: Site) {
        self.managers.push(site);
    }

    /// Places the gateway of one more user.
    pub(crate) fn place_gateway(&mut self, gateway: Gateway) {
        self.gateways.push(gateway);
    }

    /// The gateway of a user.
    pub(crate) fn gateway(&self, user: usize) -> Gateway {
        let central = Gateway {
            site: Site::Centre,
            clock: Clock::TRUE,
        };
        self.gateways.get(user).copied().unwrap_or(central)
    }

    /// The times in which clusters' sites were cut off from all others.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = SiteCut> {
        let all = self.partitions.iter();
        let cuts = all.filter(|p| p.far == FarSide::AllOthers);
        cuts.filter_map(|p| match p.near {
            Site::Cluster(cluster) => Some(SiteCut {
                cluster,
                from: p.from,
                until: p.until,
            }),
            Site::Centre => None,
        })
    }

    fn present(&self, now: Timestamp) -> impl Iterator<Item = &Partition> {
        let all = self.partitions.iter();
        all.filter(move |p| p.from <= now && now < p.until)
    }

    /// Until when nothing gets from one site to another; `None`: it gets through.
    pub(super) fn stopped_until(&self, from: Site, to: Site, now: Timestamp) -> Option<Timestamp> {
        let stopping = self.present(now).filter(|p| p.stops(from, to));
        stopping.map(|p| p.until).max()
    }

    /// The same, as far as streams break by it.
    pub(super) fn broken_until(&self, from: Site, to: Site, now: Timestamp) -> Option<Timestamp> {
        let breaking = self.present(now).filter(|p| p.kind == PartitionKind::Breaks);
        let stopping = breaking.filter(|p| p.stops(from, to));
        stopping.map(|p| p.until).max()
    }

    /// Until when a process at a site has no session; `None`: it has one.
    pub(super) fn expired_until(&self, site: Site, now: Timestamp) -> Option<Timestamp> {
        let breaking = self.present(now).filter(|p| p.kind == PartitionKind::Breaks);
        let dividing = breaking.filter(|p| p.divides(site, Site::Centre));
        dividing.map(|p| p.until).max()
    }

    /// Whether a stream between two sites can be opened.
    pub(super) fn can_open(&self, one: Site, other: Site, now: Timestamp) -> bool {
        let mut breaking = self.partitions.iter().filter(|p| p.kind == PartitionKind::Breaks);
        !breaking.any(|p| p.divides(one, other) && p.from <= now && now < p.opens_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(far: FarSide, stopped: StoppedWay) -> Partition {
        Partition {
            near: Site::Cluster(0),
            far,
            stopped,
            kind: PartitionKind::Breaks,
            from: Timestamp(10),
            until: Timestamp(20),
            opens_at: Timestamp(25),
        }
    }

    #[test]
    fn a_partition_stops_what_is_sent_its_way_between_its_sites() {
        let (a, b, c) = (Site::Cluster(0), Site::Cluster(1), Site::Centre);
        let one = FarSide::One(b);
        // From, to, and whether it is stopped.
        let table = [
            (one, StoppedWay::Both, [(a, b, true), (b, a, true), (a, c, false)]),
            (one, StoppedWay::Out, [(a, b, true), (b, a, false), (b, c, false)]),
            (
                one,
                StoppedWay::Back,
                [(a, b, false), (b, a, true), (c, a, false)],
            ),
            (
                FarSide::AllOthers,
                StoppedWay::Both,
                [(a, c, true), (b, a, true), (b, c, false)],
            ),
            (
                FarSide::AllOthers,
                StoppedWay::Out,
                [(a, c, true), (b, a, false), (a, a, false)],
            ),
        ];
        for (far, stopped, ways) in table {
            for (from, to, is_stopped) in ways {
                let found = partition(far, stopped).stops(from, to);
                assert_eq!(found, is_stopped, "{far:?} {stopped:?} {from:?} {to:?}");
            }
        }
    }

    #[test]
    fn streams_are_opened_some_time_after_a_partition() {
        let mut sites = Sites::default();
        let one = partition(FarSide::One(Site::Centre), StoppedWay::Back);
        sites.partitions.push(one);
        let (a, c) = (Site::Cluster(0), Site::Centre);
        let can_open = [9, 10, 24, 25].map(|now| sites.can_open(a, c, Timestamp(now)));
        assert_eq!(can_open, [true, false, false, true]);
        assert_eq!(sites.stopped_until(a, c, Timestamp(15)), None);
        let until = [9, 10, 19, 20].map(|now| sites.stopped_until(c, a, Timestamp(now)));
        let over = Some(Timestamp(20));
        assert_eq!(until, [None, over, over, None]);
        assert_eq!(sites.expired_until(a, Timestamp(15)), over);
    }
}
