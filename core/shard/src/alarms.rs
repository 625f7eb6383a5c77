//! What an operator should look at now, each with the command that helps: a part of what gateways show. Alarms of `event.rs` are
//! for the log, once each; these are open as long as what they tell of lasts.

use crate::Shard;
use crate::group::Group;
use echelon_core_model::Timestamp;
use echelon_core_model::role_state::{MOST_ALARMS, RoleAlarm};
use echelon_core_model::store::{ShardKey, TroubleKind};

fn of_storage(kind: TroubleKind, cluster: &str) -> Option<RoleAlarm> {
    let what = match kind {
        TroubleKind::Full => "storage is full",
        TroubleKind::Overloaded => "storage has too much to do",
        TroubleKind::NoAnswer | TroubleKind::CutOff | TroubleKind::Schema => return None,
    };
    Some(RoleAlarm {
        summary: format!(
            "{what}: the shard of {cluster} keeps its leadership and waits, and nothing new begins there"
        ),
        command: "echelon storage status".to_owned(),
    })
}

impl Shard {
    /// What is open, at most [`MOST_ALARMS`]; more are counted by the last one.
    #[must_use]
    pub fn alarms(&self, now: Timestamp) -> Vec<RoleAlarm> {
        let lease = self.config.timing.lease;
        let trouble = self
            .storage_trouble
            .as_ref()
            .filter(|(at, _)| now < at.plus(lease));
        let storage = trouble.and_then(|(_, trouble)| of_storage(trouble.kind, &self.config.name));
        let starts = self.forbidden_for().map(|silence| RoleAlarm {
            summary: format!(
                "nothing new begins on {}: the resource manager forbade it in silence {silence}, and allows it again when it reads this shard's heartbeat",
                self.config.name
            ),
            command: "echelon cluster list".to_owned(),
        });
        let rows = self.own_rows_unread().map(|key| self.of_own_row(key));
        let groups = self.picture.groups.values().filter_map(of_group);
        let mut all: Vec<RoleAlarm> = storage
            .into_iter()
            .chain(starts)
            .chain(rows)
            .chain(groups)
            .collect();
        if all.len() > MOST_ALARMS {
            let n = all.len();
            all.truncate(MOST_ALARMS.saturating_sub(1));
            all.push(RoleAlarm {
                summary: format!("there are more: {n} in all on cluster {}", self.config.name),
                command: "echelon job list".to_owned(),
            });
        }
        all
    }

    fn of_own_row(&self, key: &ShardKey) -> RoleAlarm {
        let cluster = &self.config.name;
        let (summary, command) = match key {
            ShardKey::Host(name) => (
                format!(
                    "what is wanted of host {name} of {cluster} cannot be read: nothing is placed there until it is moved to a host pool"
                ),
                format!("echelon host-pool move --cluster {cluster} --to default {name}"),
            ),
            ShardKey::Agent(id) => (
                format!(
                    "whether Mesos drains agent {id} of {cluster} cannot be read: it is not offered again until it is drained and undrained"
                ),
                format!("echelon host get {cluster}/{id}"),
            ),
            ShardKey::Volume(id) => (
                format!("what is wanted of volume {id} of {cluster} cannot be read: it is kept"),
                format!("echelon volume list --cluster {cluster}"),
            ),
            ShardKey::Own => (
                format!("a row of the shard of {cluster} cannot be read"),
                "echelon doctor".to_owned(),
            ),
        };
        RoleAlarm { summary, command }
    }
}

fn of_group(group: &Group) -> Option<RoleAlarm> {
    let (job, name) = (group.job(), group.name());
    if let Some(aside) = &group.set_aside {
        return Some(RoleAlarm {
            summary: format!(
                "group {name} of job {job} is set aside, what runs of it is kept: {}",
                aside.row()
            ),
            command: format!("echelon job stop {job}"),
        });
    }
    group.refused.as_ref().map(|refused| RoleAlarm {
        summary: format!(
            "group {name} of job {job} is set aside, nothing of it is started or replaced: {}",
            refused.reason
        ),
        command: format!("echelon job stop {job}"),
    })
}
