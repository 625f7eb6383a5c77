//! Which runs are on a host, or are unreachable, over all jobs: looked up for people, a part at a time.

use crate::Shard;
use crate::driver::Mode;
use echelon_core_hosts::Most;
use echelon_core_model::instance::Run;
use echelon_core_model::{HostId, InstanceId, InstanceRange, RunState, TaskId};
use std::collections::BTreeSet;

/// Tasks and groups that one question looks at: some milliseconds.
const LOOKS: usize = 20_000;

/// Which runs are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// Those on this host that have not ended.
    Host(HostId),
    /// Those that are unreachable, on any host.
    Unreachable,
}

/// Some runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunPage {
    /// Each with its instance, in order of job, group and instance.
    pub runs: Vec<(InstanceId, Run)>,
    /// Where to go on; `None`: these are the last.
    pub next: Option<TaskId>,
}

impl Shard {
    /// Runs from this one on, so many at most. `None`: this process does not know, since it does not lead, or
    /// reads what is stored.
    #[must_use]
    pub fn runs(&self, asked: &Whereabouts, from: Option<&TaskId>, most: usize) -> Option<RunPage> {
        if self.mode() == Mode::Follower || self.is_recovering() {
            return None;
        }
        Some(match asked {
            Whereabouts::Host(host) => self.runs_on(host, from, most),
            Whereabouts::Unreachable => self.unreachable_runs(from, most),
        })
    }

    fn runs_on(&self, host: &HostId, from: Option<&TaskId>, most: usize) -> RunPage {
        let most = Most {
            tasks: most,
            looks: LOOKS,
        };
        let page = self.hosts.tasks_from(&BTreeSet::from([host.clone()]), from, most);
        let found = page.tasks.into_iter().filter_map(|task| {
            let run = self.picture.run(self.picture.run_at(&task)?)?;
            Some((task.instance, run.clone()))
        });
        RunPage {
            runs: found.collect(),
            next: page.next,
        }
    }

    /// The latest runs of instances that are unreachable. Groups that have none are passed over by their
    /// counts.
    fn unreachable_runs(&self, from: Option<&TaskId>, most: usize) -> RunPage {
        let first = from.map(|task| (task.instance.job, task.instance.group.clone()));
        let mut page = RunPage::default();
        let mut looks = LOOKS;
        for group in self.picture.groups_from(first.as_ref()) {
            let is_first = first
                .as_ref()
                .is_some_and(|(job, name)| (group.job(), group.name()) == (*job, name));
            let begin = from.filter(|_| is_first).map_or(0, |task| task.instance.number.0);
            let has_some = group
                .tallies
                .values()
                .any(|tally| tally.counts.get(RunState::Unreachable) > 0);
            let range = InstanceRange {
                first: begin,
                last: u32::MAX,
            };
            for (number, record) in group.records_in(range) {
                let Some(run) = &record.run else { continue };
                if looks == 0 || page.runs.len() >= most {
                    page.next = Some(run.task_id(group.instance(number)));
                    return page;
                }
                looks -= 1;
                if !has_some {
                    break;
                }
                if run.state == RunState::Unreachable {
                    page.runs.push((group.instance(number), run.clone()));
                }
            }
        }
        page
    }
}
