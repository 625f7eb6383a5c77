//! A backup that is put back: Cassandra's files as they were, beside tasks that went on.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use echelon_tests::{http, process};
use echelon_tests_judge::Event;
use serde_json::{Value, json};

use super::{CLUSTERS, Federation};
use crate::client::list_of;
use crate::expect::expect;
use crate::play::{SERVICES, running};
use crate::stored::{Stored, id_of, job_id};
use crate::world::World;

/// How much comes after the backup.
const CHANGES_FOR: Duration = Duration::from_secs(20);

/// What a user sees is to be done.
const WAY_OUT: &str = "echelon storage resume";

impl Federation {
    /// The roles that freeze, each with its processes' metrics.
    fn frozen_roles(&self) -> Vec<(String, Vec<SocketAddr>)> {
        let mut roles = vec!["manager".to_owned()];
        roles.extend(CLUSTERS.map(|cluster| format!("shard-{cluster}")));
        let of = |role: &String| {
            let all = self
                .metrics
                .iter()
                .filter(|(name, _)| name.starts_with(role.as_str()));
            all.map(|(_, address)| *address).collect()
        };
        roles.into_iter().map(|role| (role.clone(), of(&role))).collect()
    }

    /// Takes a copy of storage, lets things change, and puts it back.
    pub(super) fn put_backup_back(&mut self) -> Result<()> {
        let copy = self.work.folder("backup")?;
        fs::remove_dir_all(&copy)?;
        fs::create_dir(&copy)?;
        self.recorder.tell(Event::BackupTaken)?;
        self.cassandra.back_up(&copy)?;
        // the runs that follow are newer than what the backup has
        let (status, body) = http::post(self.gateway()?, "/v1/jobs/service-0:restart", &json!({}))?;
        ensure!(
            status == 200,
            "the restart of service-0 was answered {status}: {body}"
        );
        thread::sleep(CHANGES_FOR);
        let roles: Vec<String> = self.metrics.keys().cloned().collect();
        for role in &roles {
            self.server(role)?.kill()?;
        }
        self.ran = self.services_run()?;
        self.cassandra.put_back(&copy)?;
        self.recorder.tell(Event::BackupBack)?;
        self.cassandra.start_all_again()?;
        for role in &roles {
            self.server(role)?.start_again()?;
        }
        self.check_frozen()
    }

    fn gateway(&self) -> Result<SocketAddr> {
        self.gateways().first().copied().context("there is no gateway")
    }

    /// Ids of the running tasks of the services that run from the beginning to the end.
    fn services_run(&self) -> Result<BTreeSet<String>> {
        let stored = Stored::new(self.cassandra.addresses());
        let mut jobs = BTreeSet::new();
        for number in 0..SERVICES {
            jobs.insert(job_id(id_of(&stored.head(&format!("service-{number}"))?)));
        }
        let mut all = BTreeSet::new();
        for (cluster, address) in self.masters()? {
            let (status, body) = http::post(address, "/api/v1", &json!({"type": "GET_TASKS"}))?;
            ensure!(status == 200, "the master of {cluster} answered {status}: {body}");
            let answer: Value = serde_json::from_str(&body)?;
            all.extend(answer.get("get_tasks").map(running).unwrap_or_default());
        }
        let is_ours = |task: &String| task.split_once('.').is_some_and(|(job, _)| jobs.contains(job));
        Ok(all.into_iter().filter(is_ours).collect())
    }

    /// Every role says that it is frozen, on its metrics and to users.
    fn check_frozen(&self) -> Result<()> {
        let gateway = self.gateway()?;
        for (role, processes) in self.frozen_roles() {
            expect(
                &self.recorder,
                &format!("{role} is frozen by its metrics"),
                || {
                    let values: Vec<String> =
                        processes.iter().map(|at| metric(*at, "echelon_frozen")).collect();
                    Ok((values.iter().any(|value| value == "1"), values.join(" ")))
                },
            )?;
        }
        expect(
            &self.recorder,
            "the status names all roles and the way out",
            || {
                let (status, body) = http::get(gateway, "/v1/status")?;
                let answer: Value = serde_json::from_str(&body)?;
                let alarms = list_of(&answer, "alarms");
                let named = alarms
                    .iter()
                    .filter(|alarm| alarm.to_string().contains(WAY_OUT))
                    .count();
                Ok((
                    status == 200 && named >= 3,
                    format!("{status}, {named} alarms name it"),
                ))
            },
        )
    }

    /// Runs the command, and looks whether everything goes on with the same tasks.
    pub(super) fn resume_storage(&mut self) -> Result<()> {
        let membership = format!("zookeeper://{}/soak", self.zookeeper.contact_points());
        let resumed = process::command()?
            .args(["storage", "resume", "--yes", "--storage", &self.storage()])
            .args(["--membership", &membership])
            .output()?;
        ensure!(
            resumed.status.success(),
            "{}",
            String::from_utf8_lossy(&resumed.stderr)
        );
        self.recorder.tell(Event::Resumed)?;
        for (role, processes) in self.frozen_roles() {
            expect(&self.recorder, &format!("{role} leads again"), || {
                let frozen = processes.iter().any(|at| metric(*at, "echelon_frozen") == "1");
                let leads = processes.iter().any(|at| metric(*at, "echelon_leading") == "1");
                Ok((leads && !frozen, format!("frozen {frozen}, leads {leads}")))
            })?;
        }
        let (before, mut wrong) = (self.ran.clone(), None);
        // what would be stopped or doubled by a mistake is that within seconds
        for _ in 0..10 {
            let now = self.services_run()?;
            if now != before {
                wrong = Some(format!("{before:?} became {now:?}"));
            }
            thread::sleep(Duration::from_secs(1));
        }
        expect(&self.recorder, "the services run on with the same tasks", || {
            Ok((wrong.is_none(), wrong.clone().unwrap_or_default()))
        })
    }
}

/// A metric of a process; empty while it does not answer.
fn metric(at: SocketAddr, name: &str) -> String {
    let body = http::get(at, "/metrics")
        .map(|(_, body)| body)
        .unwrap_or_default();
    let mut lines = body.lines().filter(|line| line.starts_with(name));
    let value = lines.next().and_then(|line| line.rsplit_once(' '));
    value.map(|(_, value)| value.to_owned()).unwrap_or_default()
}
