//! Hosts that an instance avoids after failures there. Placement knows only what is offered, and takes an avoided
//! host where nothing else is. The offers of the other hosts may have been declined a short while ago: such a
//! choice does not stand while the cluster's host list shows another host with room, for a bounded time, and
//! offers are asked for again meanwhile.

use crate::Shard;
use crate::group::Group;
use echelon_core_jobs::awaits_another_host;
use echelon_core_model::cluster::HostView;
use echelon_core_model::ports::choose;
use echelon_core_model::{HostId, InstanceId, InstanceNumber, Resources, Span};
use echelon_core_placement::{Answer, Choice, Hosts, Wanted, rules_let};
use std::collections::{BTreeMap, BTreeSet};

/// The next look at what is offered then.
const LOOK_AGAIN: Span = Span::seconds(1);

impl Shard {
    /// The choices of an answer that do not stand, since their instance avoids the host and another one that is not
    /// offered at the moment has room. Offers are asked for again for their groups.
    pub(crate) fn choices_held_back(&mut self, answer: &Answer) -> BTreeSet<InstanceId> {
        let mut roomy: BTreeMap<u32, BTreeSet<HostId>> = BTreeMap::new();
        let mut held: BTreeSet<InstanceId> = BTreeSet::new();
        for choice in &answer.choices {
            let Some((number, avoided)) = self.avoided_choice(choice) else {
                continue;
            };
            let hosts = roomy
                .entry(number)
                .or_insert_with(|| self.hosts_with_room(number, choice.instance.number));
            if hosts.iter().any(|host| !avoided.contains(host)) {
                held.insert(choice.instance.clone());
            }
        }
        let numbers: BTreeSet<u32> = held
            .iter()
            .filter_map(|id| self.picture.number_of(id.job, &id.group))
            .collect();
        for number in numbers {
            self.placing.ask_for_offers(number, self.hosts.revivals());
            self.placing.hungrier(self.now, LOOK_AGAIN);
        }
        held
    }

    /// The group and the avoided hosts of a choice that takes one of these, while its instance may wait for another.
    fn avoided_choice(&self, choice: &Choice) -> Option<(u32, Vec<HostId>)> {
        let InstanceId { job, group, number } = &choice.instance;
        let at = self.picture.number_of(*job, group)?;
        let group = self.picture.groups.get(&at)?;
        // All of a gang begins together, where there is room for all of it; a volume is where it is.
        let is_free = group.spec.as_ref()?.gang.is_none() && self.bound(group, *number).is_none();
        let record = group.record(*number).filter(|_| is_free)?;
        let avoids = record.avoid.contains(&choice.host) && awaits_another_host(record, self.now);
        avoids.then(|| (at, record.avoid.to_vec()))
    }

    /// The hosts that have room for one more of a group, and whose rules let it be there, whether they are offered at the
    /// moment or not. `O(hosts)`.
    fn hosts_with_room(&self, number: u32, instance: InstanceNumber) -> BTreeSet<HostId> {
        let wanted = self
            .picture
            .groups
            .get(&number)
            .and_then(|group| self.one_of(group, instance));
        let Some(wanted) = wanted else {
            return BTreeSet::new();
        };
        let views = self.hosts.spare_views(self.now);
        let mut others = self.unread_neighbours();
        others.extend(self.neighbours(std::iter::once(&wanted)));
        let fitting = views.into_iter().filter(|view| self.has_room(&wanted, view));
        rules_let(&wanted, &others, &Hosts::new(fitting))
    }

    /// What one instance of a group wants of a host.
    fn one_of(&self, group: &Group, instance: InstanceNumber) -> Option<Wanted> {
        self.wanted(group, vec![instance]).into_iter().next()
    }

    fn has_room(&self, wanted: &Wanted, view: &HostView) -> bool {
        let lent = if wanted.revocable {
            wanted.resources.lent_part(view.slack.capacity)
        } else {
            Resources::ZERO
        };
        let firm = wanted.resources.minus(lent);
        // Ports that are not known are not counted on.
        let ports = self.hosts.ports_left(&view.id).unwrap_or_default();
        let ports_fit = choose(&wanted.ports, &ports).is_some();
        firm.fits(view.free) && lent.fits(view.slack.free) && ports_fit
    }
}
