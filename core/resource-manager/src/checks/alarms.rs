//! What an operator should look at now, each with the command that helps: a part of what gateways show.
//! Alarms of `effect.rs` are for the log, once each. These are open as long as their cause lasts.

use crate::facts::cluster::ClusterView;
use crate::facts::loss::HeldBack;
use crate::manager::ResourceManager;
use echelon_core_model::Timestamp;
use echelon_core_model::role_state::{MOST_ALARMS, RoleAlarm};
use echelon_core_model::store::TroubleKind;

impl ResourceManager {
    /// What is open, at most [`MOST_ALARMS`]; more are counted by the last one.
    #[must_use]
    pub fn alarms(&self, now: Timestamp) -> Vec<RoleAlarm> {
        let storage = self.storage_trouble(now).and_then(of_storage);
        let clusters = self.picture.facts.clusters.iter();
        let quarantined = clusters.filter(|(_, view)| view.quarantine.is_some_and(|until| now < until));
        let quarantined = quarantined.map(|(cluster, _)| RoleAlarm {
            summary: format!(
                "the shard of cluster {cluster} is set aside, since it said what cannot be: nothing new is granted there"
            ),
            command: format!("echelon cluster get {cluster}"),
        });
        let held_back = self.held_back().map(|of| RoleAlarm {
            summary: of.to_string(),
            command: format!(
                "echelon cluster declare-lost {}",
                of.clusters.first().map_or("NAME", String::as_str)
            ),
        });
        let unread = self.jobs_set_aside().map(|job| RoleAlarm {
            summary: format!(
                "job {job} is set aside, since a stored row of it cannot be read: what runs of it is kept"
            ),
            command: format!("echelon job get {job}"),
        });
        let jobs = self.picture.facts.jobs.iter();
        let refused = jobs.filter_map(|(id, job)| Some((id, job.rare.refused.as_ref()?)));
        let refused = refused.map(|(id, refused)| RoleAlarm {
            summary: format!(
                "job {id} is set aside, since storage refuses its assignment: {}; what was stored last holds",
                refused.why
            ),
            command: format!("echelon job stop {id}"),
        });
        let jobs: Vec<RoleAlarm> = unread.chain(refused).collect();
        let n = jobs.len();
        let clusters = held_back.into_iter().chain(quarantined);
        let mut all: Vec<RoleAlarm> = storage.into_iter().chain(clusters).chain(jobs).collect();
        if all.len() > MOST_ALARMS {
            all.truncate(MOST_ALARMS.saturating_sub(1));
            all.push(RoleAlarm {
                summary: format!("there are more: {n} jobs are set aside in all"),
                command: "echelon job list".to_owned(),
            });
        }
        all
    }
}

impl ResourceManager {
    /// What is held back now, since this leader doubts itself; none: nothing is.
    #[must_use]
    pub fn held_back(&self) -> Option<HeldBack> {
        let views = self.picture.facts.clusters.values();
        let silent: Vec<&ClusterView> = views
            .filter(|view| view.is_present() && view.health().is_silence())
            .collect();
        let held = silent
            .iter()
            .filter(|view| view.doubt.is_some() && !view.is_declared_lost());
        let held: Vec<&&ClusterView> = held.collect();
        let doubt = held.iter().find_map(|view| view.doubt)?;
        let doubted = held
            .iter()
            .filter_map(|view| view.state.as_ref())
            .map(|state| state.health.doubted);
        let names = held
            .iter()
            .filter_map(|view| view.row.as_ref())
            .map(|row| row.name.clone());
        Some(HeldBack {
            doubt,
            clusters: names.collect(),
            doubted: doubted.max().unwrap_or_default(),
            at_most: self.config.doubt_at_most,
        })
    }
}

fn of_storage(kind: TroubleKind) -> Option<RoleAlarm> {
    let what = match kind {
        TroubleKind::Full => "storage is full",
        TroubleKind::Overloaded => "storage has too much to do",
        TroubleKind::NoAnswer | TroubleKind::CutOff | TroubleKind::Schema => return None,
    };
    Some(RoleAlarm {
        summary: format!(
            "{what}: the resource manager keeps its leadership and waits, and nothing new is granted"
        ),
        command: "echelon storage status".to_owned(),
    })
}
