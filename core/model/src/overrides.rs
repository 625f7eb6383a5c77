//! What some instances of a group run in place of what the group says. They keep its shape: what would place, count or look after them
//! in another way needs a group of its own.

use crate::id::InstanceNumber;
use crate::range::RangeSet;
use crate::runtime::{Runtime, Uri};
use crate::spec::GroupSpec;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most overrides of a group: the one of an instance is looked for at its launch.
pub const MAX_OVERRIDES: usize = 256;

/// What some instances of a group run: of their main task, what is given in place of the group's. Nothing given is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Override {
    /// Which instances; no two overrides of a group have one in common.
    pub instances: RangeSet,
    /// In place of the group's.
    pub command: String,
    /// In place of the group's.
    pub args: Option<Vec<String>>,
    /// In place of the group's.
    pub entrypoint: Option<Vec<String>>,
    /// Beside the group's variables, and in place of those with the same names.
    pub env: BTreeMap<String, String>,
    /// In place of the group's.
    pub working_dir: String,
    /// In place of the group's.
    pub uris: Vec<Uri>,
}

impl Override {
    /// What the instances run, in a group that runs this.
    #[must_use]
    pub fn over(&self, group: &Runtime) -> Runtime {
        let Self {
            instances: _,
            command,
            args,
            entrypoint,
            env,
            working_dir,
            uris,
        } = self;
        let text = |own: &String, groups: &String| if own.is_empty() { groups } else { own }.clone();
        let mut out = Runtime {
            command: text(command, &group.command),
            args: args.clone().or_else(|| group.args.clone()),
            entrypoint: entrypoint.clone().or_else(|| group.entrypoint.clone()),
            working_dir: text(working_dir, &group.working_dir),
            uris: if uris.is_empty() { &group.uris } else { uris }.clone(),
            ..group.clone()
        };
        out.env.extend(env.clone());
        out
    }
}

impl GroupSpec {
    /// What the main task of an instance is made of.
    #[must_use]
    pub fn runtime_of(&self, instance: InstanceNumber) -> Cow<'_, Runtime> {
        let own = self.overrides.iter().find(|o| o.instances.contains(instance));
        own.map_or(Cow::Borrowed(&self.runtime), |o| {
            Cow::Owned(o.over(&self.runtime))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::GroupName;
    use crate::range::InstanceRange;
    use crate::spec::JobKind;

    fn instances(first: u32, last: u32) -> RangeSet {
        InstanceRange::new(first, last).into_iter().collect()
    }

    fn env(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = all.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        all.collect()
    }

    #[test]
    fn an_instance_runs_what_its_override_says_and_the_groups_else() {
        let group = GroupSpec {
            runtime: Runtime {
                args: Some(vec!["a".to_owned()]),
                env: env(&[("A", "1"), ("B", "1")]),
                ..Runtime::shell("run")
            },
            overrides: vec![
                Override {
                    instances: instances(0, 0),
                    command: "lead".to_owned(),
                    ..Override::default()
                },
                Override {
                    instances: instances(2, 3),
                    args: Some(Vec::new()),
                    env: env(&[("B", "2")]),
                    ..Override::default()
                },
            ],
            ..GroupSpec::new(GroupName::new("main"), JobKind::Batch)
        };
        let of = |n: u32| group.runtime_of(InstanceNumber(n)).into_owned();
        assert_eq!(of(0).command, "lead");
        assert_eq!(of(0).args, group.runtime.args);
        assert_eq!(of(1), group.runtime);
        assert_eq!((of(3).command.as_str(), of(3).args), ("run", Some(Vec::new())));
        assert_eq!(of(3).env, env(&[("A", "1"), ("B", "2")]));
        assert_eq!(of(4), group.runtime);
    }
}
