//! LAUNCH_GROUP: tasks that share a host and an executor, all or none (rules R71, R82 to R84, H1, S21).

use crate::accept::{Remainder, master_status};
use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::event;
use crate::executor_info::{check_default, check_minimum};
use crate::id::{ExecutorId, FrameworkId};
use crate::validate;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::TaskState;
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::task_status::Reason;
use std::collections::BTreeSet;

impl Cluster {
    pub(crate) fn launch_group(
        &mut self,
        framework: &FrameworkId,
        operation: &Operation,
        rest: &mut Remainder,
        now: Timestamp,
    ) {
        let Some(part) = &operation.launch_group else {
            return;
        };
        let tasks = &part.task_group.tasks;
        let verdict = if operation.id.is_some() {
            Err("The `id` field cannot be set on LAUNCH_GROUP operations".to_owned())
        } else {
            self.judge_group(framework, part, rest)
        };
        let resources = match verdict {
            Ok(resources) => resources,
            Err(why) => {
                let reason = Reason::TaskGroupInvalid;
                for task in tasks {
                    let status = master_status(task, TaskState::TaskError, reason, why.clone(), now);
                    self.send(framework, event::update(status));
                }
                return;
            }
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = tasks.iter().find(|task| !seen.insert(&task.task_id.value)) {
            return self.crash(format!(
                "LAUNCH_GROUP of framework {framework} holds the task id '{}' twice: give each task of a group an id of \
                 its own (rule H1)",
                twice.task_id.value
            ));
        }
        // An empty group is taken and shows nothing (rule H8).
        if tasks.is_empty() {
            return;
        }
        let executor = ExecutorId::from(&part.executor.executor_id);
        let place = self.seat(framework, &part.executor, rest, true);
        for (task, resources) in tasks.iter().zip(resources) {
            let home = Some((executor.clone(), place.clone()));
            self.place(framework, task, (resources, home), (rest, now));
        }
    }

    /// What each task of a good group takes, or what is wrong with the group.
    fn judge_group(
        &self,
        framework: &FrameworkId,
        part: &operation::LaunchGroup,
        rest: &Remainder,
    ) -> Result<Vec<Bundle>, String> {
        let mut each = Vec::new();
        let mut total = Bundle::default();
        for task in &part.task_group.tasks {
            let resources = validate::task_of_group(task, self.taken(framework, task), rest)?;
            total.add(&resources);
            each.push(resources);
        }
        check_default(&part.executor, framework)?;
        let needs = self.executor_needs(framework, &part.executor, rest)?;
        check_minimum(&part.executor)?;
        total.add(&needs);
        if rest.resources.contains(&total) {
            return Ok(each);
        }
        Err(format!(
            "Total resources {} required by task group and its executor are more than available {}",
            total.text(&rest.role),
            rest.resources.text(&rest.role)
        ))
    }
}
