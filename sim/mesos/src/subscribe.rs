//! SUBSCRIBE and what follows from it: a new framework, one that comes back, one that takes over from its older self;
//! the stream's end; and the removal of a framework (rules R22 to R38).

use crate::cluster::Cluster;
use crate::event;
use crate::framework::Framework;
use crate::framework_info;
use crate::id::{FrameworkId, StreamId};
use crate::output::{Output, StreamEnd};
use crate::random::uuid_text;
use crate::request::Response;
use crate::store::StoreKey;
use crate::timers::Timer;
use echelon_core_model::time::{Span, Timestamp};
use echelon_proto::mesos::v1::scheduler::{Call, call};
use std::sync::Arc;

impl Cluster {
    pub(crate) fn subscribe(&mut self, call: &Call, principal: Option<&str>, now: Timestamp) -> Response {
        let Some(subscribe) = &call.subscribe else {
            return Response::bad("Expecting 'subscribe' to be present");
        };
        let mut subscribe = subscribe.clone();
        if let Some(principal) = principal {
            subscribe.framework_info.principal = Some(principal.to_owned());
        }
        let subscribe = &subscribe;
        let stream = StreamId::new(&uuid_text(&self.random.uuid()));
        let id = call.framework_id.as_ref().map(FrameworkId::from);
        if let Err(why) = self.check_subscription(id.as_ref(), subscribe) {
            // Refused, but the HTTP answer is a stream with one ERROR (rule R25).
            self.out.push(Output::Event {
                stream: stream.clone(),
                event: Box::new(event::error(why)),
            });
            self.out.push(Output::Close {
                stream: stream.clone(),
                end: StreamEnd::Finished,
            });
            return Response::subscribed(&stream);
        }
        let id = id.unwrap_or_else(|| self.next_framework_id());
        let took_over = self.take_over(&id, now);
        self.open(&id, subscribe, stream.clone(), now);
        self.resume_updates(&id, now);
        if took_over {
            self.want_allocation(now);
        } else {
            self.allocate(now);
        }
        Response::subscribed(&stream)
    }

    /// The client closed its connection, or it broke.
    pub fn close_stream(&mut self, stream: &StreamId, now: Timestamp) {
        let Some(id) = self.master.streams.remove(stream) else {
            return;
        };
        self.take_back_offers(&id);
        let Some(framework) = self.master.frameworks.get_mut(&id) else {
            return;
        };
        framework.stream = None;
        framework.filters.clear();
        let at = now.plus(timeout(framework.info.failover_timeout()));
        framework.remove_at = Some(at);
        self.timers.set(at, Timer::FailoverTimeout(id));
        self.want_allocation(now);
    }

    pub(crate) fn failover_timed_out(&mut self, id: &FrameworkId, now: Timestamp) {
        let due = self
            .master
            .frameworks
            .get(id)
            .and_then(|framework| framework.remove_at);
        if due.is_some_and(|at| at <= now) {
            self.remove_framework(id, now);
        }
    }

    pub(crate) fn heartbeat(&mut self, stream: StreamId, now: Timestamp) {
        if self.master.streams.contains_key(&stream) {
            self.deliver(stream.clone(), event::heartbeat());
            self.timers
                .set(now.plus(self.config.heartbeat), Timer::Heartbeat(stream));
        }
    }

    /// Removes a framework and kills its tasks; nothing is told about them (rule R37). False when it is not known.
    pub fn teardown(&mut self, id: &FrameworkId, now: Timestamp) -> bool {
        if !self.master.frameworks.contains_key(id) {
            return false;
        }
        self.remove_framework(id, now);
        true
    }

    fn remove_framework(&mut self, id: &FrameworkId, now: Timestamp) {
        self.take_back_offers(id);
        let members: Vec<_> = self.master.members.keys().cloned().collect();
        for agent in members {
            self.untrack_executors(&agent, Some(id));
        }
        let Some(framework) = self.master.frameworks.remove(id) else {
            return;
        };
        self.master.removed.insert(id.clone());
        for (task_id, task) in &framework.tasks {
            if let Some(member) = self.master.members.get_mut(&task.agent) {
                member.tasks.remove(&(id.clone(), task_id.clone()));
                if !task.freed {
                    member.free.add(&task.resources);
                }
            }
        }
        if let Some(stream) = framework.stream {
            self.close(stream, StreamEnd::Finished);
        }
        let agents: Vec<_> = self
            .agents
            .keys()
            .filter(|agent| self.talks_to(agent))
            .cloned()
            .collect();
        for agent in agents {
            self.drop_framework(&agent, id);
        }
        self.want_allocation(now);
    }

    pub(crate) fn update_framework(
        &mut self,
        id: &FrameworkId,
        update: &call::UpdateFramework,
        now: Timestamp,
    ) -> Response {
        let Some(framework) = self.master.frameworks.get_mut(id) else {
            return Response::text(409, "Framework cannot be found");
        };
        let info = &update.framework_info;
        if let Err(why) = framework_info::check_update(&framework.info, info) {
            return Response::bad(why);
        }
        if let Err(why) = framework_info::check(info, &update.suppressed_roles) {
            return Response::bad(format!("'UpdateFramework' call is not valid: {why}"));
        }
        let before = framework.roles();
        framework.info = Arc::new(info.clone());
        self.set_suppressed(id, &update.suppressed_roles);
        let kept = info.roles.clone();
        let gone: Vec<String> = before.into_iter().filter(|role| !kept.contains(role)).collect();
        self.rescind_roles(id, &gone);
        self.tell_agents_of(id);
        self.allocate(now);
        Response::text(200, "")
    }

    fn check_subscription(
        &self,
        id: Option<&FrameworkId>,
        subscribe: &call::Subscribe,
    ) -> Result<(), String> {
        framework_info::check(&subscribe.framework_info, &subscribe.suppressed_roles)?;
        let Some(id) = id else { return Ok(()) };
        if self.master.removed.contains(id) {
            return Err("Framework has been removed".to_owned());
        }
        match self.master.frameworks.get(id) {
            Some(known) if known.info.principal != subscribe.framework_info.principal => {
                Err("Changing framework's principal is not allowed.".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn next_framework_id(&mut self) -> FrameworkId {
        let id = FrameworkId::new(format!("{}-{:04}", self.master.id, self.master.n_frameworks));
        self.master.n_frameworks += 1;
        id
    }

    /// Ends the older stream of the same framework, if one is open (rule R28).
    fn take_over(&mut self, id: &FrameworkId, now: Timestamp) -> bool {
        let old = self
            .master
            .frameworks
            .get(id)
            .and_then(|framework| framework.stream.clone());
        let Some(old) = old else { return false };
        self.send(id, event::error("Framework failed over"));
        self.close(old, StreamEnd::Finished);
        self.take_back_offers(id);
        self.want_allocation(now);
        true
    }

    fn open(&mut self, id: &FrameworkId, subscribe: &call::Subscribe, stream: StreamId, now: Timestamp) {
        let mut info = subscribe.framework_info.clone();
        info.id = Some(id.proto());
        let framework = self
            .master
            .frameworks
            .entry(id.clone())
            .or_insert_with(|| Framework::new(id.clone(), info.clone()));
        // User and checkpoint stay as they were first (rule R33).
        info.user.clone_from(&framework.info.user);
        info.checkpoint = framework.info.checkpoint;
        framework.info = Arc::new(info);
        framework.stream = Some(stream.clone());
        framework.remove_at = None;
        self.master.streams.insert(stream.clone(), id.clone());
        self.set_suppressed(id, &subscribe.suppressed_roles);
        self.tell_agents_of(id);
        let subscribed = event::subscribed(id, &self.master.id, &self.config);
        self.send(id, subscribed);
        self.heartbeat(stream, now);
    }

    /// The full new set of suppressed roles; roles that leave it lose their filters (rules R33, R58).
    fn set_suppressed(&mut self, id: &FrameworkId, roles: &[String]) {
        let Some(framework) = self.master.frameworks.get_mut(id) else {
            return;
        };
        let left: Vec<String> = framework
            .suppressed
            .iter()
            .filter(|role| !roles.contains(role))
            .cloned()
            .collect();
        framework.clear_filters(&left);
        framework.suppressed = roles.iter().cloned().collect();
    }

    /// Agents keep what they need to tell a later master.
    fn tell_agents_of(&mut self, id: &FrameworkId) {
        let Some(framework) = self.master.frameworks.get(id) else {
            return;
        };
        let info = framework.info.clone();
        let reachable: Vec<_> = self
            .agents
            .keys()
            .filter(|agent| self.talks_to(agent))
            .cloned()
            .collect();
        for id_of_agent in reachable {
            let known = self
                .agents
                .get_mut(&id_of_agent)
                .and_then(|agent| agent.frameworks.get_mut(id));
            if let Some(known) = known {
                known.clone_from(&info);
                self.dirty.insert(StoreKey::Agent(id_of_agent));
            }
        }
    }
}

/// A number of seconds as a span; negative or no number is none, what is too large is for ever.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "such casts saturate, NaN is 0"
)]
pub(crate) fn timeout(seconds: f64) -> Span {
    Span((seconds * 1000.0) as u64)
}
