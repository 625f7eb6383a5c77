//! The clusters' sizes and labels and the jobs of such a world. All that is wanted fits into half of what
//! there is, so that work finds room elsewhere while a cluster is lost, mostly.

use super::operators::MOST_HOSTS;
use crate::client::{Asked, User};
use crate::dice::Die;
use crate::mesos;
use crate::restarts::Restarted;
use crate::shares::CORES;
use crate::world::{BEGIN, Item, World};
use echelon_core_gateway::change::Wish;
use echelon_core_model::Span;
use echelon_core_model::cluster_choice::{ClusterChoice, CostRule, Preference, Spread};
use echelon_core_model::gang::{Gang, OnMemberFailure};
use echelon_core_model::spec::{JobSpec, OnSilence};
use echelon_core_testkit::build::JobBuilder;
use std::collections::BTreeMap;

/// Most jobs of a world.
const MOST_JOBS: usize = 6;
/// When they come.
const FIRST: Span = Span::seconds(20);
const LAST: Span = Span::seconds(60);

/// Draws what a job says about clusters.
fn draw_choice(die: &mut Die, clusters: usize) -> ClusterChoice {
    let mut choice = ClusterChoice::default();
    if die.chance(600) {
        choice.spread = Spread::Even;
    } else if die.chance(200) {
        let weights = [("region=eu", 2), ("region=us", 1)];
        let weights = weights.map(|(selector, weight)| (selector.to_owned(), weight));
        choice.spread = Spread::Weights(BTreeMap::from(weights));
    }
    if die.chance(250) {
        let first = format!("c{}", die.index(clusters));
        choice.prefer = Preference::Ordered(vec![first, "region=us".to_owned()]);
    }
    if die.chance(200) {
        choice.min_clusters = 2;
    }
    if die.chance(200) {
        choice.max_share = 60;
    }
    if die.chance(150) && clusters > 2 {
        choice.fail_over_only = vec![format!("c{}", die.index(clusters))];
    }
    if die.chance(150) {
        choice.near = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
    }
    if die.chance(150) {
        choice.cost = CostRule::PreferCheap;
    }
    choice
}

/// What becomes of a job's instances at a lost cluster.
fn draw_loss(die: &mut Die) -> OnSilence {
    if die.chance(300) {
        OnSilence::Wait
    } else {
        OnSilence::Replace(die.span(Span::minutes(2), Span::minutes(4)))
    }
}

/// What a job's user will ask for.
fn draw_asks(die: &mut Die, instances: u32) -> Vec<Asked> {
    let mut asks = vec![Asked::Create];
    if die.chance(300) {
        asks.push(Asked::Restart(Restarted::ALL));
    }
    if die.chance(250) {
        let fewer = die.below(u64::from(instances));
        asks.push(Asked::Scale(1 + u32::try_from(fewer).unwrap_or(0)));
    }
    if die.chance(100) {
        asks.push(Asked::Goal(Wish::Stop));
    }
    asks
}

/// The n-th job with so many instances at most, and what its user asks for.
fn draw_job(die: &mut Die, n: usize, most: u32, clusters: usize) -> (JobSpec, Vec<Asked>) {
    let name = format!("job{n}");
    let instances = 1 + u32::try_from(die.below(u64::from(most.clamp(1, 6)))).unwrap_or(0);
    let runtime = die.span(Span::seconds(30), Span::minutes(5)).0.to_string();
    let mut asks = vec![Asked::Create];
    let job = match die.below(12) {
        // The first ones are of different kinds, so that no world is of batch jobs alone.
        0..=5 => {
            asks = draw_asks(die, instances);
            let unavailable = 1 + u32::try_from(die.below(2)).unwrap_or(0);
            JobBuilder::service(&name, instances)
                .clusters(draw_choice(die, clusters))
                .max_unavailable(unavailable)
        }
        6..=8 => JobBuilder::batch(&name, instances)
            .clusters(draw_choice(die, clusters))
            .env("SIM_RUNTIME_MS", &runtime),
        // The free half of some cluster has room for two.
        9 => {
            let gang = Gang {
                on_failure: OnMemberFailure::default(),
                ..Gang::new(Span::minutes(2))
            };
            JobBuilder::batch(&name, 2)
                .gang_of(gang)
                .env("SIM_RUNTIME_MS", &runtime)
        }
        10 => {
            // Whatever else is drawn: a volume stays where it is.
            let on = OnSilence::Wait;
            let spec = JobBuilder::stateful(&name, instances.min(2), 64);
            return (spec.on_cluster_loss(on).build(), asks);
        }
        _ => {
            let cluster = format!("c{}", die.index(clusters));
            JobBuilder::service(&name, instances.min(2)).only(&[&cluster])
        }
    };
    let loss = draw_loss(die);
    (job.on_cluster_loss(loss).build(), asks)
}

impl World {
    /// Gives clusters their sizes and labels, and plans jobs and what goes wrong.
    pub(super) fn found_federation(&mut self) {
        let removed = self.draw_removed();
        let all = self.options.clusters;
        let staying = removed.map_or(all, |cluster| cluster.min(all));
        let mut hosts = 0;
        for cluster in 0..all {
            let more = self.dice.federation.index(MOST_HOSTS);
            self.grow_cluster(cluster, more);
            if cluster < staying {
                hosts += 1 + more;
            }
            self.label_cluster(cluster);
            self.begin_course();
            self.begin_probes(cluster);
        }
        let hosts = u64::try_from(hosts).unwrap_or(u64::MAX);
        let mut left = u32::try_from(hosts * CORES / 2).unwrap_or(u32::MAX);
        for n in 0..MOST_JOBS {
            if left < 2 {
                break;
            }
            let (spec, asks) = draw_job(&mut self.dice.federation, n, left, staying);
            left = left.saturating_sub(u32::try_from(spec.instances()).unwrap_or(u32::MAX));
            let at = BEGIN.plus(self.dice.federation.span(FIRST, LAST));
            let user = self.users.0.len();
            self.users.0.push(User::new(spec, asks));
            self.queue.plan(at, Item::User(user));
        }
        self.plan_outages(removed);
    }

    /// Adds hosts to a cluster.
    fn grow_cluster(&mut self, cluster: usize, more: usize) {
        let id = self.cluster_id(cluster);
        let first = self.options.hosts;
        if let Some(c) = self.clusters.get_mut(cluster) {
            for n in first..first + more {
                c.mesos.add_agent(mesos::agent(&id, n), BEGIN);
            }
        }
        self.flush_mesos(cluster);
    }
}
