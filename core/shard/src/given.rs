//! What tasks of a run are made of: what their group says, with all that they are told in their environment, which is put in where their
//! own variables refer to it.

use echelon_core_model::environment;
use echelon_core_model::gang::Peers;
use echelon_core_model::instance::Run;
use echelon_core_model::pod::Sidecar;
use echelon_core_model::runtime::Runtime;
use echelon_core_model::spec::{GroupSpec, JobSpec};
use echelon_core_model::{MemberId, SidecarName, TaskId};
use std::collections::BTreeMap;

/// A run with all that its tasks are told from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    /// The name of its cluster.
    pub(crate) cluster: &'a str,
    pub(crate) job: &'a JobSpec,
    pub(crate) group: &'a GroupSpec,
    pub(crate) run: &'a Run,
    pub(crate) task: &'a TaskId,
    /// Where the other members of its gang are.
    pub(crate) peers: Option<&'a Peers>,
    /// What the driver of its job is told beside.
    pub(crate) driver: Option<&'a BTreeMap<String, String>>,
}

impl Given<'_> {
    /// What runs beside the main task, as the run's record names it.
    pub(crate) fn sidecars(self) -> Vec<Sidecar> {
        let named = |s: &&Sidecar| {
            let mut members = self.run.members.iter();
            members.any(|m| m.sidecar.as_ref() == Some(&s.name))
        };
        let whole = |s: &Sidecar| Sidecar {
            runtime: self.runtime(&s.runtime, Some(&s.name)),
            ..s.clone()
        };
        self.group.sidecars.iter().filter(named).map(whole).collect()
    }

    /// What one task is made of, with all that it finds in its environment.
    pub(crate) fn runtime(self, of: &Runtime, sidecar: Option<&SidecarName>) -> Runtime {
        let mut runtime = of.clone();
        environment::complete(&mut runtime.env, self.variables(sidecar));
        runtime
    }

    /// What a task is told: `environment::names`, and what is told of gangs and to drivers.
    fn variables(self, sidecar: Option<&SidecarName>) -> BTreeMap<String, String> {
        let (instance, run) = (&self.task.instance, self.run);
        let member = MemberId {
            run: self.task.clone(),
            sidecar: sidecar.cloned(),
        };
        let own = [
            ("ECHELON_JOB", self.job.name.clone()),
            ("ECHELON_JOB_ID", instance.job.to_string()),
            ("ECHELON_GROUP", instance.group.to_string()),
            ("ECHELON_INSTANCE", instance.number.to_string()),
            ("ECHELON_INSTANCES", self.group.instances.to_string()),
            ("ECHELON_GENERATION", self.task.generation.to_string()),
            ("ECHELON_RUN", self.task.run.to_string()),
            ("ECHELON_CLUSTER", self.cluster.to_owned()),
            ("ECHELON_HOST", run.hostname.to_string()),
            ("ECHELON_TASK_ID", member.to_string()),
        ];
        let named = sidecar.map(|name| (environment::SIDECAR, name.to_string()));
        let own = own.into_iter().chain(named);
        let mut out = self.group.runtime.port_variables(&run.ports);
        out.extend(own.map(|(name, value)| (name.to_owned(), value)));
        let peers = self.peers.map(|p| p.variables(&instance.group, instance.number));
        out.extend(peers.into_iter().flatten());
        let driver = self.driver.into_iter().flatten();
        out.extend(driver.map(|(name, value)| (name.clone(), value.clone())));
        out
    }
}
