//! Operations on resources: RESERVE, UNRESERVE, CREATE, DESTROY, GROW_VOLUME and SHRINK_VOLUME turn a part of what is
//! offered into another (rules R68, R121 to R128, S22). Those on disks of resource providers are not simulated.

use crate::accept::Remainder;
use crate::amount::{Amount, to_thousandths};
use crate::bundle::{Bundle, Mark};
use crate::cluster::Cluster;
use crate::id::{AgentId, FrameworkId};
use crate::quota::is_within;
use crate::store::StoreKey;
use echelon_core_model::time::Timestamp;
use echelon_proto::mesos::v1::Resource;
use echelon_proto::mesos::v1::framework_info::capability;
use echelon_proto::mesos::v1::offer::{Operation, operation};

/// What an operation takes and gives.
struct Conversion {
    consumed: Bundle,
    converted: Bundle,
}

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

fn read(resources: &[Resource]) -> Result<Bundle, String> {
    let invalid = |why| format!("Invalid resources: {why}");
    let bundle = Bundle::read(resources).map_err(invalid)?;
    if bundle.parts().any(|(mark, _)| mark.revocable) {
        return Err("Revocable resources can neither be reserved nor be volumes".to_owned());
    }
    Ok(bundle)
}

fn check_reservation(mark: &Mark, role: &str, principal: Option<&str>) -> Result<(), String> {
    let Some((last, above)) = mark.reservations.split_last().filter(|(last, _)| last.dynamic) else {
        return Err(
            "A reserve operation was attempted of resources that are not dynamically reserved".to_owned(),
        );
    };
    if mark.volume.is_some() {
        return Err(
            "A persistent volume cannot be reserved: reserve the disk, then create the volume".to_owned(),
        );
    }
    if last.role != role || role == "*" {
        return Err(format!(
            "A reserve operation was attempted for role '{}' with an offer of role '{role}'",
            last.role
        ));
    }
    if above
        .last()
        .is_some_and(|above| above.role == last.role || !is_within(&last.role, &above.role))
    {
        return Err(format!(
            "A reservation cannot be refined to role '{}', which is not below it",
            last.role
        ));
    }
    if principal.is_some() && last.principal.as_deref() != principal {
        return Err(format!(
            "A reserve operation was attempted by principal '{}', but there is a reserved resource in the request \
             with principal '{}'",
            principal.unwrap_or_default(),
            last.principal.as_deref().unwrap_or_default()
        ));
    }
    Ok(())
}

fn unreserve(unreserve: &operation::Unreserve) -> Result<Conversion, String> {
    let consumed = read(&unreserve.resources)?;
    for mark in consumed.parts().map(|(mark, _)| mark) {
        if !mark.reservations.last().is_some_and(|last| last.dynamic) {
            return Err(
                "An unreserve operation was attempted of resources that are not dynamically reserved"
                    .to_owned(),
            );
        }
        if let Some(volume) = &mark.volume {
            return Err(format!(
                "A dynamically reserved persistent volume '{}' cannot be unreserved directly. Please destroy the \
                 persistent volume first then unreserve the resource",
                volume.id
            ));
        }
    }
    let converted = mapped(&consumed, popped);
    Ok(Conversion { consumed, converted })
}

fn grow(grow: &operation::GrowVolume) -> Result<Conversion, String> {
    let (volume, size) = volume_of(&grow.volume)?;
    let addition = read(std::slice::from_ref(&grow.addition))?;
    if addition.parts().any(|(mark, _)| *mark != flat(&volume)) {
        return Err("The addition of a grow operation must be like its volume".to_owned());
    }
    let mut converted = Bundle::default();
    let disk = size.saturating_add(addition.sum().disk);
    converted.add_part(&volume, &of_disk(disk));
    let mut consumed = addition;
    consumed.add_part(&volume, &of_disk(size));
    Ok(Conversion { consumed, converted })
}

fn shrink(shrink: &operation::ShrinkVolume) -> Result<Conversion, String> {
    let (volume, size) = volume_of(&shrink.volume)?;
    let less = to_thousandths(shrink.subtract.value);
    if less == 0 || less >= size {
        return Err(
            "Invalid 'subtract': it must be positive and less than the size of the volume".to_owned(),
        );
    }
    let (mut consumed, mut converted) = (Bundle::default(), Bundle::default());
    consumed.add_part(&volume, &of_disk(size));
    converted.add_part(&volume, &of_disk(size.saturating_sub(less)));
    converted.add_part(&flat(&volume), &of_disk(less));
    Ok(Conversion { consumed, converted })
}

/// The one volume that is to be resized, and its size.
fn volume_of(resource: &Resource) -> Result<(Mark, u64), String> {
    let bundle = read(std::slice::from_ref(resource))?;
    let volume = bundle.marked.into_iter().find(|(mark, _)| mark.volume.is_some());
    match volume {
        Some((mark, _)) if mark.shared => {
            Err("Growing or shrinking a shared volume is not supported".to_owned())
        }
        Some((mark, amount)) => Ok((mark, amount.disk)),
        None => Err("Only a persistent volume can be resized".to_owned()),
    }
}

fn of_disk(disk: u64) -> Amount {
    Amount {
        disk,
        ..Amount::default()
    }
}

/// The same amounts with other marks.
fn mapped(bundle: &Bundle, change: fn(&Mark) -> Mark) -> Bundle {
    let mut changed = Bundle::default();
    for (mark, amount) in bundle.parts() {
        changed.add_part(&change(mark), amount);
    }
    changed
}

/// Without the most specific reservation.
fn popped(mark: &Mark) -> Mark {
    let mut mark = mark.clone();
    mark.reservations.pop();
    mark
}

/// Without a volume.
fn flat(mark: &Mark) -> Mark {
    Mark {
        volume: None,
        shared: false,
        ..mark.clone()
    }
}

/// Whether two bundles have a volume in common.
fn meet(a: &Bundle, b: &Bundle) -> bool {
    let volumes = |bundle: &'_ Bundle, mark: &Mark| mark.volume.is_some() && bundle.marked.contains_key(mark);
    a.marked.keys().any(|mark| volumes(b, mark))
}
