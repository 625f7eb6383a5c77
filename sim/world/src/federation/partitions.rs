//! Partitions between two sites, and where resource managers and gateways are: drawn before anything begins,
//! after everything else that goes wrong.

use super::outages::Busy;
use crate::client::{Asked, User};
use crate::clocks::Clock;
use crate::faults::Fault;
use crate::process::Who;
use crate::sites::{Gateway, Site, StoppedWay};
use crate::world::{Item, World};
use echelon_core_model::{Span, Timestamp};
use echelon_core_testkit::build::JobBuilder;

/// Fewest partitions that are tried, and how many more.
const FEWEST: u64 = 1;
const MORE: u64 = 3;
/// A job that comes so soon after the beginning of a partition is assigned without regard to it.
const COMES_WITHIN: Span = Span::seconds(9);

impl World {
    /// Draws where resource managers and gateways are. There are gateways at two sites.
    pub(super) fn draw_sites(&mut self) {
        for _ in 0..self.options.managers {
            let site = self.draw_site();
            self.sites.place_manager(site);
        }
        let gateways = [self.draw_gateway(), self.draw_gateway()];
        for user in 0..self.users.0.len() {
            if let Some(gateway) = gateways.get(user % gateways.len()) {
                self.sites.place_gateway(*gateway);
            }
        }
    }

    fn draw_gateway(&mut self) -> Gateway {
        let site = self.draw_site();
        let clock = Clock::drawn(&mut self.dice.clocks);
        Gateway { site, clock }
    }

    fn draw_site(&mut self) -> Site {
        match self.dice.federation.index(self.options.clusters + 1) {
            0 => Site::Centre,
            n => Site::Cluster(n - 1),
        }
    }

    fn draw_stopped(&mut self) -> StoppedWay {
        match self.dice.federation.below(4) {
            0 => StoppedWay::Out,
            1 => StoppedWay::Back,
            _ => StoppedWay::Both,
        }
    }

    /// Plans partitions between two sites. A cluster at which something else is planned then is left alone.
    pub(super) fn plan_partitions(&mut self, busy: &mut Busy) {
        for _ in 0..FEWEST + self.dice.federation.below(MORE) {
            self.plan_partition(busy);
        }
    }

    fn plan_partition(&mut self, busy: &mut Busy) {
        let at = self.outage_at(Span::seconds(20));
        let span = self.outage_span(at);
        let stopped = self.draw_stopped();
        let kind = self.dice.federation.below(10);
        // The site of the leader is known only when the partition begins.
        let fault = match kind {
            0..=4 => {
                let far = self.free_site(busy, at, span);
                far.map(|far| Fault::PartLeader { far, stopped, span })
            }
            5..=6 => Some(Fault::PartLeader {
                far: Site::Centre,
                stopped,
                span,
            }),
            7..=8 => self.free_site(busy, at, span).map(|near| Fault::PartSites {
                near,
                far: Site::Centre,
                stopped,
                span,
            }),
            // Of whoever leads or stands by.
            _ => {
                let index = self.dice.federation.index(self.options.managers);
                let near = self.site_of(Who::Manager(index));
                self.free_site(busy, at, span).map(|far| Fault::PartSites {
                    near,
                    far,
                    stopped,
                    span,
                })
            }
        };
        if let Some(fault) = fault {
            self.queue.plan(at, Item::Fault(fault));
            self.federation.last_change = self.federation.last_change.max(at.plus(span));
            self.plan_late_job(at);
        }
    }

    /// Plans a job that comes as a partition begins: some of it is assigned to a cluster that does not hear
    /// of it.
    fn plan_late_job(&mut self, partition: Timestamp) {
        let user = self.users.0.len();
        let instances = 1 + u32::try_from(self.dice.federation.below(2)).unwrap_or(0);
        let spec = JobBuilder::service(&format!("late{user}"), instances).spread();
        let later = self.dice.federation.span(Span::ZERO, COMES_WITHIN);
        self.users.0.push(User::new(spec.build(), [Asked::Create]));
        self.queue.plan(partition.plus(later), Item::User(user));
    }

    /// The site of a cluster at which nothing else is planned then.
    fn free_site(&mut self, busy: &mut Busy, at: Timestamp, span: Span) -> Option<Site> {
        self.free_cluster(busy, at, span).map(Site::Cluster)
    }
}
