//! Instances of a job, put together from what the wish says, where the assignment has them, and what the holder's shard
//! stored; until a new holder has taken a range over, the former holder's word is shown. A part that cannot be read is
//! shown as unknown, never as absent (law 3).

mod assemble;
mod blocks;
mod numbers;
mod outlook;

pub use assemble::{InstanceView, RecordSource};

use crate::error::{ApiError, ErrorReason};
use crate::lookup;
use crate::page::{self, Page, PageRequest};
use crate::port::Facts;
use crate::resource::JobRef;
use crate::view::Part;
use assemble::Scene;
use blocks::Blocks;
use echelon_core_model::job::Head;
use echelon_core_model::{GroupName, InstanceNumber, JobId, RangeSet, RunState, Timestamp};
use std::collections::BTreeSet;

/// Numbers looked at together: four blocks.
const WINDOW: u64 = 1024;
/// Windows looked at for one page, so that a filter that nothing passes still answers soon.
const WINDOWS: u32 = 16;

/// Filters of an instance list; all that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceFilter {
    /// Only this group.
    pub group: Option<GroupName>,
    /// Any of these states; all when empty.
    pub states: BTreeSet<RunState>,
    /// Only on this cluster, by name or id; empty: all.
    pub cluster: String,
    /// Only those that others can rely on at this moment.
    pub available: bool,
}

/// A page of instances with what was seen of each cluster.
#[derive(Debug, Clone)]
pub struct InstancePage {
    /// The job.
    pub job: JobId,
    /// The instances.
    pub page: Page<InstanceView>,
    /// The clusters.
    pub parts: Vec<Part>,
}

/// One instance with what was seen of its cluster.
#[derive(Debug, Clone)]
pub struct InstanceSeen {
    /// The job.
    pub job: JobId,
    /// The instance.
    pub instance: InstanceView,
    /// The clusters that were asked.
    pub parts: Vec<Part>,
}

/// A page of instances in order of group and number. With a filter it may hold fewer than asked before the last page.
///
/// # Errors
/// No such job, a wrong page token or size, or storage.
pub async fn list_instances<F: Facts>(
    facts: &F,
    job: &JobRef,
    filter: InstanceFilter,
    page: PageRequest,
    now: Timestamp,
) -> Result<InstancePage, ApiError> {
    let limit = page.limit()?;
    let head = lookup::job(facts, job).await?;
    let asked = format!("instances {} {filter:?}", head.job);
    let start = page.place(&asked, read_position)?;
    let scene = Scene::read(facts, head, now).await?;
    if let Some(group) = &filter.group
        && scene.group(group).is_none()
    {
        return Err(no_group(job, group));
    }
    let mut walk = Walk {
        scene,
        filter,
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        found: Vec::new(),
        parts: Vec::new(),
    };
    let next = walk.run(facts, start).await;
    let page = Page {
        items: walk.found,
        next: next.map(|position| page::seal(&asked, &position)),
        total: None,
        unread: Vec::new(),
    };
    Ok(InstancePage {
        job: walk.scene.head.job,
        page,
        parts: walk.parts,
    })
}

/// A page of the instances that others can rely on. Where a part of them cannot be read nothing is answered: who is not listed is taken
/// for gone.
///
/// # Errors
/// As [`list_instances`], and `StorageUnavailable` where a part could not be read.
pub async fn list_endpoints<F: Facts>(
    facts: &F,
    job: &JobRef,
    filter: InstanceFilter,
    page: PageRequest,
    now: Timestamp,
) -> Result<InstancePage, ApiError> {
    let filter = InstanceFilter {
        available: true,
        ..filter
    };
    let found = list_instances(facts, job, filter, page, now).await?;
    match found.parts.iter().find_map(|p| p.unseen.as_ref().map(|n| (p, n))) {
        None => Ok(found),
        Some((part, numbers)) => Err(ApiError::new(
            ErrorReason::StorageUnavailable,
            format!(
                "what cluster {} stored of {numbers} cannot be read at the moment, so that endpoints would be missing; keep those that you have, and try again",
                part.name
            ),
        )),
    }
}

struct Walk {
    scene: Scene,
    filter: InstanceFilter,
    limit: usize,
    found: Vec<InstanceView>,
    parts: Vec<Part>,
}

impl Walk {
    /// Walks from a position; where to go on, `None` at the end.
    async fn run<F: Facts>(&mut self, facts: &F, start: Option<Start>) -> Option<String> {
        let Start { group, number } = start.unwrap_or_default();
        let (first_group, first) = (group.as_str(), number);
        let mut windows = 0;
        for group in self.scene.groups() {
            let wanted = self.filter.group.as_ref().is_none_or(|g| *g == group);
            if !wanted || group.as_str() < first_group {
                continue;
            }
            let from = if group.as_str() == first_group { first } else { 0 };
            let mut left = numbers::from(&self.scene.numbers(&group), from);
            while !left.is_empty() {
                if windows == WINDOWS {
                    return left.numbers().next().map(|n| write_position(&group, n));
                }
                windows += 1;
                let window = left.lowest(WINDOW.min(self.room()));
                self.look(facts, &group, &window).await;
                left = left.minus(&window);
                if self.found.len() >= self.limit {
                    return self.after(&group, &left);
                }
            }
        }
        None
    }

    /// How many numbers are worth looking at: no more than are wanted when every one passes.
    fn room(&self) -> u64 {
        let all = self.filter.states.is_empty() && self.filter.cluster.is_empty() && !self.filter.available;
        let room = self.limit.saturating_sub(self.found.len());
        if all {
            u64::try_from(room).unwrap_or(WINDOW)
        } else {
            WINDOW
        }
    }

    async fn look<F: Facts>(&mut self, facts: &F, group: &GroupName, window: &RangeSet) {
        let blocks = Blocks::read(facts, &self.scene, group, window).await;
        self.note(group, &blocks);
        let before = self.found.len();
        for n in window.numbers() {
            let view = self.scene.instance(group, n, &blocks);
            let on = |c: &Part| c.name == self.filter.cluster || c.id.as_str() == self.filter.cluster;
            // An endpoint is where its run is, which may be the former holder.
            let place = if self.filter.available {
                view.shown_of()
            } else {
                view.cluster.as_ref()
            };
            let here = self.filter.cluster.is_empty() || place.is_some_and(on);
            let state =
                self.filter.states.is_empty() || view.state.is_none_or(|s| self.filter.states.contains(&s));
            let available = !self.filter.available || view.endpoint().is_some();
            if here && state && available {
                self.found.push(view);
            }
        }
        let new = self.found.get_mut(before..).unwrap_or_default();
        outlook::add_outlook(facts, &self.scene, new).await;
    }

    fn note(&mut self, group: &GroupName, blocks: &Blocks) {
        for (cluster, unseen) in blocks.clusters() {
            let at = match self.parts.iter().position(|p| p.id == *cluster) {
                Some(at) => at,
                None => {
                    self.parts.push(self.scene.part(cluster));
                    self.parts.len() - 1
                }
            };
            if let (Some(part), Some(numbers)) = (self.parts.get_mut(at), unseen) {
                let told = format!("{group} {numbers}");
                part.unseen = Some(match part.unseen.take() {
                    None => told,
                    Some(before) => format!("{before}; {told}"),
                });
            }
        }
    }

    /// Where to go on when the page is full; what was found beyond the page is found again.
    fn after(&mut self, group: &GroupName, left: &RangeSet) -> Option<String> {
        if let Some(beyond) = self.found.get(self.limit) {
            let position = write_position(&beyond.group, beyond.number);
            self.found.truncate(self.limit);
            return Some(position);
        }
        let here = left.numbers().next().map(|n| write_position(group, n));
        here.or_else(|| {
            let mut later = self.scene.groups().into_iter().filter(|g| g > group);
            let wanted = |g: &GroupName| self.filter.group.as_ref().is_none_or(|w| w == g);
            later
                .find(|g| wanted(g) && !self.scene.numbers(g).is_empty())
                .map(|g| write_position(&g, InstanceNumber(0)))
        })
    }
}

fn write_position(group: &GroupName, n: InstanceNumber) -> String {
    format!("{group} {n}")
}

/// Where a page begins.
#[derive(Default)]
struct Start {
    group: String,
    number: u32,
}

fn read_position(position: &str) -> Option<Start> {
    let (group, n) = position.split_once(' ')?;
    Some(Start {
        group: group.to_owned(),
        number: n.parse().ok()?,
    })
}

fn no_group(job: &JobRef, group: &GroupName) -> ApiError {
    ApiError::new(
        ErrorReason::InstanceNotFound,
        format!("job `{job}` has no group `{group}`; `echelon job get {job}` shows its groups"),
    )
}

/// One instance with what was seen of its cluster.
///
/// # Errors
/// No such job or instance, or storage.
pub async fn get_instance<F: Facts>(
    facts: &F,
    job: &JobRef,
    group: &GroupName,
    number: InstanceNumber,
    now: Timestamp,
) -> Result<InstanceSeen, ApiError> {
    let head = lookup::job(facts, job).await?;
    let scene = Scene::read(facts, head, now).await?;
    if scene.group(group).is_none() {
        return Err(no_group(job, group));
    }
    if !scene.numbers(group).contains(number) {
        return Err(ApiError::new(
            ErrorReason::InstanceNotFound,
            format!(
                "job `{job}` has no instance {number} in group `{group}`; `echelon job instances {job}` shows what there is"
            ),
        ));
    }
    let window: RangeSet = std::iter::once(number).collect();
    let blocks = Blocks::read(facts, &scene, group, &window).await;
    let mut instance = scene.instance(group, number, &blocks);
    outlook::add_outlook(facts, &scene, std::slice::from_mut(&mut instance)).await;
    let parts = blocks
        .clusters()
        .map(|(cluster, unseen)| Part {
            unseen: unseen.map(|n| format!("{group} {n}")),
            ..scene.part(cluster)
        })
        .collect();
    Ok(InstanceSeen {
        job: scene.head.job,
        instance,
        parts,
    })
}

/// The scene of a job whose head was read, for `explain`.
///
/// # Errors
/// Storage.
pub(crate) async fn first_windows<F: Facts>(
    facts: &F,
    head: Head,
    now: Timestamp,
) -> Result<Vec<InstanceView>, ApiError> {
    let scene = Scene::read(facts, head, now).await?;
    let mut found = Vec::new();
    for group in scene.groups() {
        let window = scene.numbers(&group).lowest(WINDOW);
        let blocks = Blocks::read(facts, &scene, &group, &window).await;
        found.extend(window.numbers().map(|n| scene.instance(&group, n, &blocks)));
    }
    outlook::add_outlook(facts, &scene, &mut found).await;
    Ok(found)
}

#[cfg(test)]
mod tests;
