//! Which leaders answer, as this gateway sees them: it asks the leader of every role each second, so that
//! each answer can say what it depends on and is away.

use crate::context::Gateway;
use crate::links::Links;
use axum::response::Response;
use echelon_core_gateway::ask;
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::role_state::{RoleStanding, RoleState};
use echelon_core_model::{ClusterId, Timestamp};
use echelon_io_membership::{Role, Sighting};
use echelon_io_process::{Condition, Readiness};
use echelon_proto::convert::role_state::STALE;
use futures::StreamExt;
use http::{HeaderName, HeaderValue};
use maud::{Markup, html};
use prometheus::IntGaugeVec;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often every leader is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How long one may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// A leader that has not answered for this long is away.
const PATIENCE: Duration = Duration::from_secs(3);
/// Leaders that are asked at once.
const ASKED_AT_ONCE: usize = 64;
/// Candidates that are asked whether they are frozen.
const CANDIDATES: usize = 8;
/// How often the list of clusters is read.
const LIST_EVERY: Duration = Duration::from_secs(5);
/// Leaders that one answer names; the others are counted.
const NAMED: usize = 8;

/// That no leader of a role answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absence {
    /// When one answered last; else when this gateway began to ask.
    pub(crate) since: Timestamp,
    /// Why, for people.
    pub(crate) reason: String,
    /// Why the process that was elected is frozen, if it is.
    pub(crate) frozen: Option<String>,
}

/// What there is in place of an answer of a leader.
struct NoAnswer {
    reason: String,
    frozen: Option<String>,
}

impl From<String> for NoAnswer {
    fn from(reason: String) -> Self {
        Self { reason, frozen: None }
    }
}

/// A role with a leader, or that should have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LedRole {
    pub(crate) role: Role,
    /// `resource-manager`, or `shard` and the name of its cluster.
    pub(crate) name: String,
    /// The name of a shard's cluster.
    pub(crate) cluster: String,
    /// Where its leader was seen last.
    pub(crate) address: Option<String>,
    pub(crate) absence: Option<Absence>,
}

/// All roles as they were last seen.
pub(crate) struct Leaders {
    roles: watch::Sender<Arc<[LedRole]>>,
    absent: IntGaugeVec,
}

impl Leaders {
    pub(crate) fn new(absent: IntGaugeVec) -> Self {
        Self {
            roles: watch::Sender::new(Arc::from([])),
            absent,
        }
    }

    /// Takes in how they stand.
    fn know(&self, roles: Vec<LedRole>) {
        for led in &roles {
            let absent = i64::from(led.absence.is_some());
            self.absent.with_label_values(&[&led.name]).set(absent);
        }
        self.roles.send_if_modified(|known| {
            let changed = **known != roles[..];
            if changed {
                *known = roles.into();
            }
            changed
        });
    }

    /// The cluster of a shard has left.
    fn forget(&self, name: &str) {
        // One that was never told is not there.
        let _ = self.absent.remove_label_values(&[name]);
    }

    /// All roles as they were last seen.
    pub(crate) fn roles(&self) -> Arc<[LedRole]> {
        self.roles.borrow().clone()
    }

    /// Follows which roles there are, and how they are seen.
    pub(crate) fn follow(&self) -> watch::Receiver<Arc<[LedRole]>> {
        self.roles.subscribe()
    }

    /// Since when no resource manager answers. What it writes is as old: counts of jobs, and how clusters
    /// are heard.
    pub(crate) fn manager_absent_since(&self) -> Option<Timestamp> {
        let roles = self.roles.borrow();
        let manager = roles.iter().find(|led| led.role == Role::ResourceManager)?;
        manager.absence.as_ref().map(|absence| absence.since)
    }

    /// Why the shard of a cluster is frozen that was elected and could not take its leadership. What it wrote last says
    /// nothing of it.
    pub(crate) fn frozen(&self, cluster: &ClusterId) -> Option<String> {
        let roles = self.roles.borrow();
        let led = roles
            .iter()
            .find(|led| matches!(&led.role, Role::Shard(of) if of == cluster))?;
        led.absence.as_ref()?.frozen.clone()
    }

    /// What every answer says while leaders are away: `resource-manager since 2026-01-31T10:00:00Z; shard
    /// east since ...`.
    fn stale(&self) -> Option<String> {
        let roles = self.roles.borrow();
        let absent: Vec<(&str, &Absence)> = roles
            .iter()
            .filter_map(|led| Some((led.name.as_str(), led.absence.as_ref()?)))
            .collect();
        if absent.is_empty() {
            return None;
        }
        let named = absent.iter().take(NAMED);
        let mut text = named
            .map(|(name, absence)| {
                let why = absence.frozen.as_ref();
                let why = why.map_or("", |_| " (frozen: run `echelon storage resume`)");
                format!("{name} since {}{why}", date(absence.since))
            })
            .collect::<Vec<_>>()
            .join("; ");
        if let Some(more) = absent.len().checked_sub(NAMED).filter(|more| *more > 0) {
            let _ = write!(text, "; and {more} more");
        }
        Some(text)
    }

    /// Says on an answer which leaders are away.
    pub(crate) fn mark(&self, answer: &mut Response) {
        let value = self.stale().and_then(|text| HeaderValue::try_from(text).ok());
        if let Some(value) = value {
            answer.headers_mut().insert(HeaderName::from_static(STALE), value);
        }
    }

    /// The same on a page.
    pub(crate) fn banner(&self) -> Markup {
        let stale = self.stale();
        html! {
            @if let Some(stale) = stale {
                p.bad role="alert" {
                    "No leader answers: " (stale) ". What depends on it is shown as it was then; "
                    code { "echelon status" }
                    " says more."
                }
            }
        }
    }
}

/// A time in UTC, to the second.
pub(crate) fn date(at: Timestamp) -> String {
    let whole = i64::try_from(at.0 / 1000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(whole).map_or_else(|_| "?".to_owned(), |t| t.to_string())
}

/// One role while it is followed.
struct Followed {
    name: String,
    cluster: String,
    sightings: watch::Receiver<Sighting>,
    notice: Condition,
    /// When its leader answered last; else when it was first asked.
    heard: Instant,
    heard_at: Timestamp,
    absence: Option<Absence>,
}

/// Asks all leaders, until the end.
pub(crate) async fn keep(gateway: Gateway, readiness: Readiness) {
    let clusters = watch::Sender::new(BTreeMap::new());
    let mut follower = Follower {
        gateway: gateway.clone(),
        readiness,
        clusters: clusters.subscribe(),
        followed: BTreeMap::new(),
    };
    tokio::select! {
        () = list(&gateway, &clusters) => {}
        () = follower.follow() => {}
        () = gateway.stop.cancelled() => {}
    }
}

/// Reads the clusters' names again and again; while storage does not answer, those that are known stay.
async fn list(gateway: &Gateway, clusters: &watch::Sender<BTreeMap<ClusterId, String>>) {
    loop {
        match tokio::time::timeout(LIST_EVERY, ask::clusters(&gateway.facts)).await {
            Ok(Ok(all)) => {
                let present = all
                    .into_iter()
                    .filter(|cluster| cluster.desired_state != DesiredState::Removed);
                clusters.send_replace(present.map(|cluster| (cluster.id, cluster.name)).collect());
            }
            Ok(Err(error)) => tracing::debug!(%error, "the clusters cannot be listed at the moment"),
            Err(_) => tracing::debug!("storage does not list the clusters at the moment"),
        }
        tokio::time::sleep(LIST_EVERY).await;
    }
}

struct Follower {
    gateway: Gateway,
    readiness: Readiness,
    clusters: watch::Receiver<BTreeMap<ClusterId, String>>,
    followed: BTreeMap<Role, Followed>,
}

impl Follower {
    async fn follow(&mut self) {
        let mut asks = tokio::time::interval(ASK_EVERY);
        asks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            asks.tick().await;
            self.list();
            let asked = self.followed.iter().map(|(role, followed)| {
                let (role, links) = (role.clone(), self.gateway.links.clone());
                let sighting = followed.sightings.borrow().clone();
                async move {
                    let answer = leads(&links, &role, &sighting).await;
                    (role, answer)
                }
            });
            let asked: Vec<_> = asked.collect();
            let answers: Vec<_> = futures::stream::iter(asked)
                .buffer_unordered(ASKED_AT_ONCE)
                .collect()
                .await;
            let now = self.gateway.now();
            for (role, answer) in answers {
                if let Some(followed) = self.followed.get_mut(&role) {
                    followed.judge(answer, now);
                }
            }
            let led = self.followed.iter().map(|(role, followed)| LedRole {
                role: role.clone(),
                name: followed.name.clone(),
                cluster: followed.cluster.clone(),
                address: followed
                    .sightings
                    .borrow()
                    .record()
                    .map(|leader| leader.address.clone()),
                absence: followed.absence.clone(),
            });
            self.gateway.leaders.know(led.collect());
        }
    }

    /// Follows the roles that there are now, and no others.
    fn list(&mut self) {
        let clusters = self.clusters.borrow_and_update().clone();
        let shards = clusters.into_iter();
        let shards = shards.map(|(id, name)| (Role::Shard(id), name));
        let manager = (Role::ResourceManager, String::new());
        let wanted: BTreeMap<Role, String> = shards.chain([manager]).collect();
        let leaders = &self.gateway.leaders;
        self.followed.retain(|role, followed| {
            let stays = wanted.contains_key(role);
            if !stays {
                // Its cluster has left: nothing is missing.
                followed.notice.ready();
                leaders.forget(&followed.name);
            }
            stays
        });
        for (role, cluster) in wanted {
            if self.followed.contains_key(&role) {
                continue;
            }
            let name = match &role {
                Role::Shard(_) => format!("shard {cluster}"),
                Role::ResourceManager | Role::Gateway => role.to_string(),
            };
            let notice = format!("leader of {name}");
            let notice = self.readiness.notice(&notice, "it was not asked yet");
            let sightings = self.gateway.links.follow(&role);
            let heard_at = self.gateway.now();
            let followed = Followed {
                name,
                cluster,
                sightings,
                notice,
                heard: Instant::now(),
                heard_at,
                absence: None,
            };
            self.followed.insert(role, followed);
        }
    }
}

impl Followed {
    fn judge(&mut self, answer: Result<(), NoAnswer>, now: Timestamp) {
        match answer {
            Ok(()) => {
                (self.heard, self.heard_at) = (Instant::now(), now);
                self.absence = None;
                self.notice.ready();
            }
            Err(no) if self.heard.elapsed() >= PATIENCE => {
                self.notice.not_ready(&no.reason);
                self.absence = Some(Absence {
                    since: self.heard_at,
                    reason: no.reason,
                    frozen: no.frozen,
                });
            }
            Err(_) => {}
        }
    }
}

/// Whether the leader that membership knows leads and decides, by its own word.
async fn leads(links: &Links, role: &Role, sighting: &Sighting) -> Result<(), NoAnswer> {
    let leader = match sighting {
        Sighting::Held(leader) => leader,
        Sighting::Vacant => {
            let asked = tokio::time::timeout(ANSWER_WITHIN, frozen_candidate(links, role)).await;
            return Err(asked
                .ok()
                .flatten()
                .unwrap_or_else(|| "no process leads".to_owned().into()));
        }
        Sighting::Unknown => return Err("the membership servers have not answered yet".to_owned().into()),
    };
    let at = &leader.address;
    let asked = tokio::time::timeout(ANSWER_WITHIN, links.role_state(at)).await;
    match asked {
        // It answers and decides nothing.
        Ok(Ok(state)) if state.standing == RoleStanding::Frozen => frozen_at(at, &state).map_or(Ok(()), Err),
        Ok(Ok(state)) => standing(&state).map_err(|why| format!("the process at {at} {why}").into()),
        Ok(Err(why)) => Err(format!("the process at {at} does not answer: {why}").into()),
        Err(_) => Err(format!("the process at {at} does not answer").into()),
    }
}

/// What a process says that is frozen.
fn frozen_at(at: &str, state: &RoleState) -> Option<NoAnswer> {
    (state.standing == RoleStanding::Frozen).then(|| NoAnswer {
        reason: format!(
            "the process at {at} is frozen, run `echelon storage resume`: {}",
            state.frozen
        ),
        frozen: Some(state.frozen.clone()),
    })
}

/// One that was elected and is frozen before it has taken the leadership: it has published nothing, so only the candidates
/// themselves can say it.
async fn frozen_candidate(links: &Links, role: &Role) -> Option<NoAnswer> {
    let all = links.membership().candidates(role).await.ok()?;
    let asked = all.into_iter().take(CANDIDATES).map(|candidate| async move {
        let at = candidate.member.address;
        let state = links.role_state(&at).await.ok()?;
        frozen_at(&at, &state)
    });
    futures::future::join_all(asked)
        .await
        .into_iter()
        .flatten()
        .next()
}

/// Whether it leads, or what it does instead.
pub(crate) fn standing(state: &RoleState) -> Result<(), &'static str> {
    match state.standing {
        RoleStanding::Leader | RoleStanding::Frozen => Ok(()),
        RoleStanding::Standby | RoleStanding::Serving => Err("does not lead any more"),
        RoleStanding::Recovering => Err("was elected and still reads what is stored"),
        RoleStanding::Suspended => Err("cannot tell whether it still leads, and does nothing"),
    }
}
