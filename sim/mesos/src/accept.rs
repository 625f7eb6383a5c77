//! ACCEPT: the offers are judged as a whole, then the operations in order, then the rest is declined (rules R64, R67,
//! R68, R71). LAUNCH is here, LAUNCH_GROUP in `group`, operations on resources are in `operation`.

use crate::bundle::Bundle;
use crate::cluster::Cluster;
use crate::event;
use crate::executor_info::check_custom;
use crate::framework::Task;
use crate::id::{AgentId, ExecutorId, FrameworkId, TaskId};
use crate::offer::Offer;
use crate::refuse::refusal;
use crate::shared_executor::Place;
use crate::validate::{self, Taken};
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::offer::{Operation, operation};
use echelon_proto::mesos::v1::scheduler::call;
use echelon_proto::mesos::v1::task_status::{Reason, Source};
use echelon_proto::mesos::v1::{TaskInfo, TaskState, TaskStatus};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The resources of the accepted offers that no operation has used yet.
pub(crate) struct Remainder {
    pub agent: AgentId,
    pub role: Arc<str>,
    pub resources: Bundle,
}

/// The executor that a task shares with others, and its place there once the agent has it.
pub(crate) type Home = (ExecutorId, Option<Arc<Place>>);

impl Cluster {
    pub(crate) fn accept(&mut self, framework: &FrameworkId, accept: &call::Accept, now: Timestamp) {
        let problem = self.offers_problem(framework, accept);
        let mut offers: Vec<Offer> = Vec::new();
        for id in &accept.offer_ids {
            // Another framework's offer is lost as well; there is no judging whose it is.
            let number = self.offer_number(&id.value);
            offers.extend(number.and_then(|number| self.end_offer(number)));
        }
        if let Some(why) = problem {
            // Valid offers in a bad list are lost as well, without a filter (rule R67).
            self.refuse_operations(framework, &accept.operations, &why, now);
            self.want_allocation(now);
            return;
        }
        let Some(mut rest) = gather(offers) else { return };
        for operation in &accept.operations {
            self.operate(framework, operation, &mut rest, now);
        }
        let refusal = refusal(accept.filters.as_ref());
        self.refuse(
            framework,
            (&rest.role, &rest.agent),
            rest.resources,
            (refusal, now),
        );
        self.want_allocation(now);
    }

    /// What is wrong with the offers of an ACCEPT, in Mesos' words.
    fn offers_problem(&self, framework: &FrameworkId, accept: &call::Accept) -> Option<String> {
        if accept.offer_ids.is_empty() {
            return Some("No offers specified".to_owned());
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = accept.offer_ids.iter().find(|id| !seen.insert(&id.value)) {
            return Some(format!("Duplicate offer {} in offer list", twice.value));
        }
        let mut first: Option<&Offer> = None;
        for id in &accept.offer_ids {
            let id = &id.value;
            let Some(offer) = self
                .offer_number(id)
                .and_then(|number| self.master.offers.get(&number))
            else {
                return Some(format!("Offer {id} is no longer valid"));
            };
            if offer.framework != *framework {
                let owner = &offer.framework;
                return Some(format!(
                    "Offer {id} has invalid framework {owner} while framework {framework} is expected"
                ));
            }
            let first = *first.get_or_insert(offer);
            if offer.agent != first.agent {
                return Some(format!(
                    "Aggregated offers must belong to one single agent. Offer {id} uses agent {} and agent {}",
                    offer.agent, first.agent
                ));
            }
            if offer.role != first.role {
                return Some(format!(
                    "Aggregated offers must be allocated to the same role. Offer {id} uses role '{} but another is \
                     using role '{}",
                    offer.role, first.role
                ));
            }
        }
        None
    }

    fn refuse_operations(
        &mut self,
        framework: &FrameworkId,
        operations: &[Operation],
        why: &str,
        now: Timestamp,
    ) {
        let state = match self.master.frameworks.get(framework) {
            Some(known) => known.or_lost(TaskState::TaskDropped),
            None => return,
        };
        for operation in operations {
            for task in tasks_of(operation) {
                let message = format!("Task launched with invalid offers: {why}");
                let status = master_status(task, state, Reason::InvalidOffers, message, now);
                self.send(framework, event::update(status));
            }
            if operation.launch.is_none() && operation.launch_group.is_none() {
                self.refuse_operation(
                    framework,
                    operation,
                    &format!("Operation attempted with invalid offers: {why}"),
                );
            }
        }
    }

    fn operate(
        &mut self,
        framework: &FrameworkId,
        operation: &Operation,
        rest: &mut Remainder,
        now: Timestamp,
    ) {
        match operation.r#type() {
            operation::Type::Launch => {}
            operation::Type::LaunchGroup => return self.launch_group(framework, operation, rest, now),
            _ => return self.transform(framework, operation, rest, now),
        }
        for task in tasks_of(operation) {
            let verdict = if operation.id.is_some() {
                Err("The `id` field cannot be set on LAUNCH operations".to_owned())
            } else {
                self.judge(framework, task, rest)
            };
            match verdict {
                Ok(resources) => {
                    let home = task.executor.as_ref().map(|info| {
                        let place = self.seat(framework, info, rest, false);
                        (ExecutorId::from(&info.executor_id), place)
                    });
                    self.place(framework, task, (resources, home), (rest, now));
                }
                Err(why) => {
                    let reason = Reason::TaskInvalid;
                    let status = master_status(task, TaskState::TaskError, reason, why, now);
                    self.send(framework, event::update(status));
                }
            }
        }
    }

    fn judge(&self, framework: &FrameworkId, task: &TaskInfo, rest: &Remainder) -> Result<Bundle, String> {
        let resources = validate::task(task, self.taken(framework, task), rest)?;
        let mut total = resources.clone();
        if let Some(info) = &task.executor {
            check_custom(info, framework)?;
            total.add(&self.executor_needs(framework, info, rest)?);
        }
        validate::fits(task, &total, rest)?;
        Ok(resources)
    }

    /// The task that has this id already, as far as the master knows one.
    pub(crate) fn taken(&self, framework: &FrameworkId, task: &TaskInfo) -> Option<Taken> {
        let id = TaskId::new(&task.task_id.value);
        let known = self.master.frameworks.get(framework)?;
        if known.tasks.contains_key(&id) {
            return Some(Taken::Tracked);
        }
        known.unreachable.contains_key(&id).then_some(Taken::Unreachable)
    }

    /// Tracks a good task and sends it to its agent (rule R108).
    pub(crate) fn place(
        &mut self,
        framework: &FrameworkId,
        info: &TaskInfo,
        (resources, home): (Bundle, Option<Home>),
        (rest, now): (&mut Remainder, Timestamp),
    ) {
        rest.resources.subtract(&resources);
        let id = TaskId::new(&info.task_id.value);
        let task = Task {
            name: Arc::from(info.name.as_str()),
            agent: rest.agent.clone(),
            role: rest.role.clone(),
            resources,
            state: TaskState::TaskStaging,
            forwarded: TaskState::TaskStaging,
            uuid: None,
            executor: home.as_ref().map(|(executor, _)| executor.clone()),
            container: None,
            freed: false,
        };
        self.track(framework, id, task);
        let place = home.and_then(|(_, place)| place);
        self.launch(framework, info, (rest, place), now);
    }

    /// Adds a task to what the master knows, with its resources taken from the agent.
    pub(crate) fn track(&mut self, framework: &FrameworkId, id: TaskId, task: Task) {
        if let Some(member) = self.master.members.get_mut(&task.agent) {
            member.tasks.insert((framework.clone(), id.clone()));
            if !task.freed {
                member.free.subtract(&task.resources);
            }
        }
        if let Some(known) = self.master.frameworks.get_mut(framework) {
            if !task.freed {
                known.charge(&task.role, &task.resources);
            }
            known.unreachable.remove(&id);
            known.tasks.insert(id, task);
        }
    }
}

fn gather(offers: Vec<Offer>) -> Option<Remainder> {
    let first = offers.first()?;
    let (agent, role) = (first.agent.clone(), first.role.clone());
    let mut resources = Bundle::default();
    for offer in &offers {
        resources.add(&offer.resources);
    }
    Some(Remainder {
        agent,
        role,
        resources,
    })
}

fn tasks_of(operation: &Operation) -> &[TaskInfo] {
    let launch = operation
        .launch
        .as_ref()
        .map(|launch| launch.task_infos.as_slice());
    let group = operation
        .launch_group
        .as_ref()
        .map(|group| group.task_group.tasks.as_slice());
    launch.or(group).unwrap_or_default()
}

/// An update that the master makes itself: without uuid, sent once (rule R93).
pub(crate) fn master_status(
    task: &TaskInfo,
    state: TaskState,
    reason: Reason,
    message: String,
    now: Timestamp,
) -> TaskStatus {
    TaskStatus {
        task_id: task.task_id.clone(),
        state: state.into(),
        agent_id: Some(task.agent_id.clone()),
        source: Some(Source::Master.into()),
        reason: Some(reason.into()),
        message: Some(message),
        timestamp: Some(event::seconds(now)),
        ..Default::default()
    }
}
