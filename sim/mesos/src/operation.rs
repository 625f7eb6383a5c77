//! Operations on resources: RESERVE, UNRESERVE, CREATE, DESTROY, GROW_VOLUME and SHRINK_VOLUME turn a part of what is
//! offered into another (rules R68, R121 to R128, S22). Those on disks of resource providers are not simulated.

use crate::accept::Remainder;
use crate::bundle::{Bundle, Mark};
use crate::cluster::Cluster;
use crate::conversion::{Conversion, check_reservation, flat, grow, mapped, popped, read, shrink, unreserve};
use crate::id::{AgentId, FrameworkId};
use crate::output::Output;
use crate::store::StoreKey;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::framework_info::capability;
use echelon_proto::mesos::v1::offer::{Operation, operation};

impl Cluster {
    /// Does an operation, or refuses it; a refused one does not stop those after it (rule R124).
    pub(crate) fn transform(
        &mut self,
        framework: &FrameworkId,
        operation: &Operation,
        rest: &mut Remainder,
        now: Timestamp,
    ) {
        let Conversion { consumed, converted } = match self.conversion(framework, operation, rest) {
            Ok(conversion) => conversion,
            Err(why) => return self.refuse_operation(framework, operation, &why),
        };
        // What others are offered of a shared volume goes with it (rule R63).
        for number in self.offers_sharing(&rest.agent, &consumed) {
            self.rescind(number);
        }
        // A resized volume cannot be used in the same ACCEPT (rule R126).
        let resizes = operation.grow_volume.is_some() || operation.shrink_volume.is_some();
        let usable = if resizes { &Bundle::default() } else { &converted };
        rest.resources.convert(&consumed, usable);
        if let Some(member) = self.master.members.get_mut(&rest.agent) {
            member.free.convert(&consumed, &converted);
        }
        if let Some(agent) = self.agents.get_mut(&rest.agent) {
            agent.spec.resources.convert(&consumed, &converted);
        }
        if operation.destroy.is_some() {
            let gone = consumed.volumes().into_iter();
            self.out
                .extend(gone.map(|(volume, _)| Output::Destroy { volume }));
        }
        self.dirty.insert(StoreKey::Agent(rest.agent.clone()));
        if let Some(id) = &operation.id {
            self.confirm(framework, id, &rest.agent, now);
        }
    }

    fn conversion(
        &self,
        framework: &FrameworkId,
        operation: &Operation,
        rest: &Remainder,
    ) -> Result<Conversion, String> {
        let at = |why: String| format!("{why}; on agent {}", self.agent_text(&rest.agent));
        let conversion = match operation.r#type() {
            operation::Type::Reserve => self.reserve(framework, part(&operation.reserve)?, &rest.role)?,
            operation::Type::Unreserve => unreserve(part(&operation.unreserve)?)?,
            operation::Type::Create => self
                .create(framework, part(&operation.create)?, &rest.agent)
                .map_err(at)?,
            operation::Type::Destroy => self.destroy(part(&operation.destroy)?, &rest.agent).map_err(at)?,
            operation::Type::GrowVolume => grow(part(&operation.grow_volume)?)?,
            operation::Type::ShrinkVolume => shrink(part(&operation.shrink_volume)?)?,
            operation::Type::CreateDisk | operation::Type::DestroyDisk => {
                return Err("Disks of resource providers are not simulated: no agent has any".to_owned());
            }
            _ => return Err("Unsupported operation".to_owned()),
        };
        if rest.resources.contains(&conversion.consumed) {
            return Ok(conversion);
        }
        let (have, need) = (
            rest.resources.text(&rest.role),
            conversion.consumed.text(&rest.role),
        );
        Err(format!("{have} does not contain {need}"))
    }

    fn reserve(
        &self,
        framework: &FrameworkId,
        reserve: &operation::Reserve,
        role: &str,
    ) -> Result<Conversion, String> {
        if !reserve.source.is_empty() {
            return Err(
                "A scheduler cannot reserve what is reserved otherwise ('reserve.source')".to_owned(),
            );
        }
        let converted = read(&reserve.resources)?;
        let principal = self.principal(framework);
        for mark in converted.parts().map(|(mark, _)| mark) {
            check_reservation(mark, role, principal)?;
        }
        let consumed = mapped(&converted, popped);
        Ok(Conversion { consumed, converted })
    }

    fn principal(&self, framework: &FrameworkId) -> Option<&str> {
        self.master.frameworks.get(framework)?.info.principal.as_deref()
    }

    fn create(
        &self,
        framework: &FrameworkId,
        create: &operation::Create,
        agent: &AgentId,
    ) -> Result<Conversion, String> {
        let converted = read(&create.volumes)?;
        let shares = capability::Type::SharedResources;
        let may_share = self
            .master
            .frameworks
            .get(framework)
            .is_some_and(|known| known.can(shares));
        for mark in converted.parts().map(|(mark, _)| mark) {
            let Some(volume) = &mark.volume else {
                return Err("Create volumes of what is no volume".to_owned());
            };
            if mark.reservations.is_empty() {
                let words = "Persistent volumes cannot be created from unreserved resources";
                return Err(format!("Invalid resources: Invalid DiskInfo: {words}"));
            }
            if volume.read_only {
                return Err(
                    "Invalid resources: Invalid DiskInfo: Expecting 'mode' to be read-write".to_owned(),
                );
            }
            if mark.shared && !may_share {
                return Err(
                    "Create operation has a shared volume, but the framework is not SHARED_RESOURCES capable"
                        .to_owned(),
                );
            }
            if self.has_volume(agent, mark, &volume.id) {
                return Err(format!(
                    "Invalid resources: Persistence ID '{}' is used already",
                    volume.id
                ));
            }
        }
        let consumed = mapped(&converted, flat);
        Ok(Conversion { consumed, converted })
    }

    fn destroy(&self, destroy: &operation::Destroy, agent: &AgentId) -> Result<Conversion, String> {
        let consumed = read(&destroy.volumes)?;
        if consumed.parts().any(|(mark, _)| mark.volume.is_none()) {
            return Err("Destroy of what is no volume".to_owned());
        }
        let there = self
            .agents
            .get(agent)
            .is_some_and(|agent| agent.spec.resources.contains(&consumed));
        if !there {
            return Err("Persistent volumes not found".to_owned());
        }
        if self.is_used(agent, &consumed) {
            return Err("Persistent volumes in use".to_owned());
        }
        let converted = mapped(&consumed, flat);
        Ok(Conversion { consumed, converted })
    }

    /// A volume's id is unique for its role and agent.
    fn has_volume(&self, agent: &AgentId, like: &Mark, id: &str) -> bool {
        let Some(agent) = self.agents.get(agent) else {
            return false;
        };
        let same = |mark: &Mark| {
            mark.reserved_for() == like.reserved_for()
                && mark.volume.as_ref().is_some_and(|volume| volume.id == id)
        };
        agent.spec.resources.marked.keys().any(same)
    }

    /// Whether a task holds any of these volumes.
    fn is_used(&self, agent: &AgentId, volumes: &Bundle) -> bool {
        let Some(member) = self.master.members.get(agent) else {
            return false;
        };
        let mut tasks = member
            .tasks
            .iter()
            .filter_map(|(framework, task)| self.master.frameworks.get(framework)?.tasks.get(task));
        tasks.any(|task| !task.freed && meet(&task.resources, volumes))
    }

    /// The open offers of an agent with any of these shared volumes.
    fn offers_sharing(&self, agent: &AgentId, consumed: &Bundle) -> Vec<u64> {
        let shared = consumed.only(|mark| mark.shared);
        let Some(member) = self.master.members.get(agent) else {
            return Vec::new();
        };
        let holds = |number: &&u64| {
            let offer = self.master.offers.get(number);
            offer.is_some_and(|offer| meet(&offer.resources, &shared))
        };
        member.offers.iter().filter(holds).copied().collect()
    }

    /// As Mesos prints an agent: `…-S0 at slave(1)@127.0.0.1:5051 (localhost)`.
    fn agent_text(&self, id: &AgentId) -> String {
        let Some(agent) = self.agents.get(id) else {
            return id.to_string();
        };
        let spec = &agent.spec;
        format!("{id} at slave(1)@{}:{} ({})", spec.ip, spec.port, spec.hostname)
    }
}

/// The part that belongs to an operation's type.
fn part<T>(part: &Option<T>) -> Result<&T, String> {
    part.as_ref()
        .ok_or_else(|| "The operation lacks the part of its type".to_owned())
}

/// Whether two bundles have a volume in common.
fn meet(a: &Bundle, b: &Bundle) -> bool {
    let volumes = |bundle: &'_ Bundle, mark: &Mark| mark.volume.is_some() && bundle.marked.contains_key(mark);
    a.marked.keys().any(|mark| volumes(b, mark))
}
