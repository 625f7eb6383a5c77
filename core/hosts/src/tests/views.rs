//! Views that are renewed where hosts have changed are those that are made of all hosts, and no others are
//! made.

use super::{at, demand, disconnected, launch, need, offer, subscribed, task, update, with_offers};
use crate::{Agent, Event, Hosts, InverseOffer, ListedSharing, OfferId, TaskState};
use echelon_core_model::cluster::{HostView, Maintenance};
use echelon_core_model::drain::HostDrain;
use echelon_core_model::host_pool::HostMove;
use echelon_core_model::sharing::{AgentState, Others};
use echelon_core_model::{HostId, HostPoolName, PortSet, Resources, Timestamp};
use echelon_core_testkit::build::shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Views as their keeper has them.
#[derive(Debug, Default)]
pub struct Kept(BTreeMap<HostId, HostView>);

impl Kept {
    /// Renews what has changed, tells of how many hosts that is, and compares with all that there is.
    pub fn renew(&mut self, hosts: &mut Hosts, now: Timestamp) -> usize {
        let changes = hosts.take_view_changes(now);
        let count = changes.views.len() + changes.gone.len();
        changes.gone.iter().for_each(|id| {
            self.0.remove(id);
        });
        let changed = changes.views.into_iter().map(|view| (view.id.clone(), view));
        self.0.extend(changed);
        let mut all = hosts.views(now);
        hosts.add_ports(&mut all);
        let kept: Vec<HostView> = self.0.values().cloned().collect();
        assert_eq!(kept, all);
        assert_eq!(hosts.recount_agents(), hosts.agent_counts());
        count
    }
}

/// So many idle hosts that offer what they have, and their views.
fn idle(n: usize) -> (Hosts, Kept) {
    let offers = (0..n).map(|n| offer(&format!("o{n}"), &format!("h{n}"), shape(4, 400)));
    let mut hosts = with_offers(offers.collect());
    let mut kept = Kept::default();
    assert_eq!(kept.renew(&mut hosts, at(0)), n);
    (hosts, kept)
}

fn h(n: usize) -> HostId {
    HostId::new(format!("h{n}"))
}

fn name(n: usize) -> String {
    format!("h{n}.example")
}

#[test]
fn a_launch_and_an_end_renew_one_host_however_many_there_are() {
    for n in [10, 1_000] {
        let (mut hosts, mut kept) = idle(n);
        assert_eq!(kept.renew(&mut hosts, at(1)), 0, "nothing has happened");
        hosts.speak_for(&h(3));
        assert_eq!(kept.renew(&mut hosts, at(1)), 1);
        hosts.let_go(&h(3));
        assert_eq!(kept.renew(&mut hosts, at(1)), 1);
        hosts.speak_for(&h(3));
        let _ = hosts.accept(&h(3), vec![launch(1, shape(1, 10))], at(1)).unwrap();
        hosts.let_go(&h(3));
        assert_eq!(kept.renew(&mut hosts, at(1)), 1);
        hosts.on_event(&update(1, "h3", TaskState::Running), at(2));
        hosts.on_event(&update(1, "h3", TaskState::Finished), at(3));
        assert_eq!(kept.renew(&mut hosts, at(3)), 1);
        hosts.on_event(&Event::Offers(vec![offer("again", "h3", shape(4, 400))]), at(4));
        assert_eq!(kept.renew(&mut hosts, at(4)), 1);
        hosts.on_event(&Event::Rescind(OfferId(Arc::from("again"))), at(5));
        assert_eq!(kept.renew(&mut hosts, at(5)), 1);
    }
}

#[test]
fn a_host_that_is_lost_or_new_is_told_and_no_other() {
    let (mut hosts, mut kept) = idle(10);
    let lost = Event::Failure {
        host: Some(h(2)),
        executor: None,
    };
    hosts.on_event(&lost, at(1));
    assert_eq!(kept.renew(&mut hosts, at(1)), 1);
    hosts.on_event(&Event::Offers(vec![offer("n", "new", shape(1, 10))]), at(2));
    assert_eq!(kept.renew(&mut hosts, at(2)), 1);
    hosts.adopt(&task(7), &h(2), &need(1, 1), at(3));
    assert_eq!(kept.renew(&mut hosts, at(3)), 1, "it is still lost");
    // A host that is silent for long is forgotten.
    hosts.release(&task(7), at(4));
    hosts.on_event(&disconnected(), at(5));
    assert_eq!(kept.renew(&mut hosts, at(5)), 11, "no offer is good any more");
    hosts.on_event(&subscribed(), at(6));
    for second in 0..40 {
        let now = at(7 + second * 60);
        let _ = hosts.next_calls(demand(false), now);
        kept.renew(&mut hosts, now);
    }
    assert!(hosts.views(at(4_000)).is_empty());
}

#[test]
fn what_operators_want_of_hosts_is_seen() {
    let (mut hosts, mut kept) = idle(10);
    let drain = HostDrain {
        agent: false,
        batch_until: at(100),
    };
    hosts.set_drains([(name(1), drain)].into());
    kept.renew(&mut hosts, at(1));
    hosts.set_drains(BTreeMap::new());
    kept.renew(&mut hosts, at(2));
    let batch = HostPoolName::new("batch");
    hosts.set_host_pools([(name(2), batch.clone())].into());
    kept.renew(&mut hosts, at(3));
    hosts.set_unknown([name(3)].into());
    kept.renew(&mut hosts, at(4));
    let wish = HostMove {
        to: batch,
        batch_until: at(100),
    };
    hosts.set_moves([(name(3), wish)].into());
    kept.renew(&mut hosts, at(5));
    let changes = hosts.begin_changes();
    kept.renew(&mut hosts, at(6));
    assert_eq!(changes.len(), 1);
    hosts.end_changes(changes);
    kept.renew(&mut hosts, at(7));
}

#[test]
fn time_brings_planned_maintenance_and_ends_it() {
    let (mut hosts, mut kept) = idle(10);
    let from = at(100_000);
    let maintenance = Maintenance {
        from,
        until: Some(at(200_000)),
    };
    let asked = InverseOffer {
        id: OfferId(Arc::from("i")),
        host: h(4),
        maintenance,
    };
    hosts.on_event(&Event::InverseOffers(vec![asked]), at(1));
    assert_eq!(kept.renew(&mut hosts, at(1)), 1);
    let drains = |hosts: &Hosts, now| hosts.draining(now).contains_key(&h(4));
    assert!(!drains(&hosts, at(2)) && drains(&hosts, from));
    assert_eq!(kept.renew(&mut hosts, from), 1);
    assert_eq!(kept.renew(&mut hosts, at(200_001)), 1);
    assert!(!drains(&hosts, at(200_001)));
}

#[test]
fn what_the_master_lists_of_a_host_is_seen() {
    let (mut hosts, mut kept) = idle(3);
    let agent = |n: usize, cores: u64| Agent {
        host: h(n),
        hostname: Arc::from(name(n)),
        address: format!("{}:5051", name(n)),
        attributes: BTreeMap::from([("zone".to_owned(), "a".to_owned())]),
        total: shape(cores, 400),
        disk: None,
        reserved: Resources::ZERO,
        lent: shape(1, 1),
        ports: PortSet::from_iter([8080]),
        others: Others {
            used: Resources::ZERO,
            offered: shape(n as u64, 0),
        },
        of_role: Resources::ZERO,
        offered_of_role: Resources::ZERO,
        state: AgentState::Active,
    };
    for (second, cores) in [(1, 5), (200, 3), (400, 3)] {
        let _ = hosts.list_agents(true, at(second)).unwrap();
        let agents = (0..3).map(|n| agent(n, cores)).collect();
        let list = Event::Agents {
            agents,
            awaited: Vec::new(),
            sharing: ListedSharing::default(),
            planned: None,
        };
        hosts.on_event(&list, at(second + 1));
        kept.renew(&mut hosts, at(second + 1));
    }
    hosts.on_event(&Event::Unlisted { why: String::new() }, at(600));
    kept.renew(&mut hosts, at(600));
}
