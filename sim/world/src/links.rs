//! Streams between resource managers and shard leaders. A stream keeps order; what is lost is lost with all that
//! follows, because the stream breaks. A silent stream loses everything and tells nobody.

use crate::process::Who;
use crate::sites::Passage;
use crate::world::{Item, World};
use echelon_core_model::directive::{Directive, Report};
use echelon_core_model::store::Role;
use echelon_core_model::{Span, Timestamp};
use echelon_core_resource_manager as rm;
use echelon_core_shard as shard;
use std::collections::{BTreeMap, BTreeSet};

/// A stream.
#[derive(Debug, Clone)]
pub struct Link {
    /// Its manager and that one's life.
    pub manager: (usize, u64),
    /// Its cluster, shard process and that one's life.
    pub shard: (usize, usize, u64),
    /// What is sent before this is lost without a word.
    pub silent_until: Timestamp,
    /// When its ends break it, since it crosses a partition.
    pub(crate) breaks_at: Option<LinkEnds>,
    /// Nothing arrives before what was sent before it.
    down: Timestamp,
    up: Timestamp,
}

/// A moment at each end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkEnds {
    pub(crate) manager: Timestamp,
    pub(crate) shard: Timestamp,
}

impl Link {
    /// The process at its upper end.
    pub(crate) const fn manager_end(&self) -> Who {
        Who::Manager(self.manager.0)
    }

    /// The process at its lower end.
    pub(crate) const fn shard_end(&self) -> Who {
        let (cluster, index, _) = self.shard;
        Who::Shard { cluster, index }
    }

    /// The way of directives.
    fn down_passage(&self) -> Passage {
        Passage {
            from: self.manager_end(),
            to: self.shard_end(),
            breaks_at: self.breaks_at.map(|ends| ends.shard),
        }
    }

    /// The way of reports.
    fn up_passage(&self) -> Passage {
        Passage {
            from: self.shard_end(),
            to: self.manager_end(),
            breaks_at: self.breaks_at.map(|ends| ends.manager),
        }
    }
}

/// All open streams, and which clusters each manager wants one to.
#[derive(Debug, Default)]
pub struct Links {
    /// Open streams by number.
    pub open: BTreeMap<u64, Link>,
    /// What managers watch.
    pub watches: BTreeMap<(usize, u64), BTreeSet<usize>>,
    made: u64,
}

impl World {
    /// Opens streams that are wanted and missing, closes those whose shard leads no more.
    pub(crate) fn tend_links(&mut self) {
        let stale: Vec<u64> = self
            .links
            .open
            .iter()
            .filter(|(_, l)| !self.link_is_current(l))
            .map(|(id, _)| *id)
            .collect();
        stale.into_iter().for_each(|id| self.close_link(id));
        let wanted: Vec<((usize, u64), usize)> = self
            .links
            .watches
            .iter()
            .flat_map(|(m, cs)| cs.iter().map(|c| (*m, *c)))
            .collect();
        for (manager, cluster) in wanted {
            self.open_link(manager, cluster);
        }
    }

    fn link_is_current(&self, link: &Link) -> bool {
        let (cluster, index, life) = link.shard;
        let (m, m_life) = link.manager;
        let found = self.election(&self.shard_role(cluster)).and_then(|e| e.found());
        found == Some((Who::Shard { cluster, index }, life))
            && self
                .managers
                .get(m)
                .is_some_and(|p| p.life == m_life && p.driver.is_some())
    }

    fn open_link(&mut self, manager: (usize, u64), cluster: usize) {
        let have = self
            .links
            .open
            .values()
            .any(|l| l.manager == manager && l.shard.0 == cluster);
        let found = self.election(&self.shard_role(cluster)).and_then(|e| e.found());
        let Some((shard @ Who::Shard { index, .. }, life)) = found.filter(|_| !have) else {
            return;
        };
        if !self.can_open(Who::Manager(manager.0), shard) {
            return;
        }
        self.links.made += 1;
        let id = self.links.made;
        let begin = self.now.plus(Span::millis(2));
        let link = Link {
            manager,
            shard: (cluster, index, life),
            silent_until: Timestamp(0),
            breaks_at: None,
            down: begin,
            up: begin,
        };
        self.links.open.insert(id, link);
        let name = self.cluster_id(cluster);
        self.tell_manager(
            manager,
            begin,
            rm::Event::ShardOpened {
                cluster: name,
                link: rm::LinkId(id),
            },
        );
        self.tell_shard(
            (cluster, index, life),
            begin,
            shard::Event::LinkOpened(shard::LinkId(id)),
        );
    }

    /// A manager leads no more: its streams end with its leadership, as those of the real process do.
    pub(crate) fn leave_links(&mut self, manager: (usize, u64)) {
        self.links.watches.remove(&manager);
        let open = self.links.open.iter();
        let own: Vec<u64> = open
            .filter(|(_, l)| l.manager == manager)
            .map(|(id, _)| *id)
            .collect();
        own.into_iter().for_each(|id| self.close_link(id));
    }

    /// A manager watches a cluster no more.
    pub(crate) fn close_link_to(&mut self, manager: (usize, u64), cluster: usize) {
        let open = self.links.open.iter();
        let own = open.filter(|(_, l)| l.manager == manager && l.shard.0 == cluster);
        let own: Vec<u64> = own.map(|(id, _)| *id).collect();
        own.into_iter().for_each(|id| self.close_link(id));
    }

    /// Breaks a stream; both ends learn of it.
    pub(crate) fn close_link(&mut self, id: u64) {
        let Some(link) = self.links.open.remove(&id) else {
            return;
        };
        let soon = self
            .now
            .plus(self.dice.delays.span(Span::millis(1), Span::millis(50)));
        let up = self.close_noticed(link.up_passage(), soon);
        let down = self.close_noticed(link.down_passage(), soon);
        self.tell_manager(
            link.manager,
            up.max(link.up),
            rm::Event::ShardClosed { link: rm::LinkId(id) },
        );
        self.tell_shard(
            link.shard,
            down.max(link.down),
            shard::Event::LinkClosed(shard::LinkId(id)),
        );
    }

    /// A directive goes down.
    pub(crate) fn send_directive(&mut self, id: u64, directive: Directive) {
        let delay = self.dice.delays.span(Span::millis(1), Span::millis(10));
        let Some(link) = self.links.open.get_mut(&id) else {
            return;
        };
        if self.now < link.silent_until {
            return;
        }
        let (cluster, sent) = (link.shard.0, self.now.plus(delay));
        let passage = link.down_passage();
        let late = self.link_delay(cluster);
        let Some(earliest) = self.crossing(passage, sent.plus(late)) else {
            return;
        };
        let Some(link) = self.links.open.get_mut(&id) else {
            return;
        };
        link.down = link.down.max(earliest);
        let (to, at) = (link.shard, link.down);
        self.detail(|| format!("link {id} down: {directive:?}"));
        self.tell_shard(to, at, shard::Event::Directive(shard::LinkId(id), directive));
    }

    /// A report goes up.
    pub(crate) fn send_report(&mut self, id: u64, report: Report) {
        let delay = self.dice.delays.span(Span::millis(1), Span::millis(10));
        let Some(link) = self.links.open.get_mut(&id) else {
            return;
        };
        if self.now < link.silent_until {
            return;
        }
        let (cluster, sent) = (link.shard.0, self.now.plus(delay));
        let passage = link.up_passage();
        let late = self.link_delay(cluster);
        let Some(earliest) = self.crossing(passage, sent.plus(late)) else {
            return;
        };
        let Some(link) = self.links.open.get_mut(&id) else {
            return;
        };
        link.up = link.up.max(earliest);
        let (to, at) = (link.manager, link.up);
        self.detail(|| format!("link {id} up: {report:?}"));
        self.tell_manager(to, at, rm::Event::Report(rm::LinkId(id), report));
    }

    pub(crate) fn tell_manager(&mut self, (index, life): (usize, u64), at: Timestamp, event: rm::Event) {
        self.queue.plan(
            at,
            Item::Manager {
                index,
                life,
                event: Box::new(event),
            },
        );
    }

    pub(crate) fn tell_shard(
        &mut self,
        (cluster, index, life): (usize, usize, u64),
        at: Timestamp,
        event: shard::Event,
    ) {
        self.queue.plan(
            at,
            Item::Shard {
                cluster,
                index,
                life,
                event: Box::new(event),
            },
        );
    }

    pub(crate) fn shard_role(&self, cluster: usize) -> Role {
        Role::Shard(self.cluster_id(cluster))
    }
}
