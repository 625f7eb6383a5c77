//! Jobs that are made of templates, and what follows when they end.

use crate::facts::job::JobView;
use crate::lifecycle::head_change::Bid;
use crate::lifecycle::rules::Ruling;
use crate::lifecycle::schedules::{Made, Step, decided, state_of, step};
use crate::manager::ResourceManager;
use echelon_core_model::job::{Desired, Head, JobState, Verdict};
use echelon_core_model::spec::JobSpec;
use echelon_core_model::timetable::Timetable;
use echelon_core_model::{JobId, Reason, ReasonCode, Timestamp};

impl ResourceManager {
    /// What follows from schedules for a job: of a template, what it is to make; of a job made of one,
    /// whether it is to be stopped or deleted for later ones. `None`: nothing.
    pub(crate) fn of_schedules(&self, id: JobId, job: &JobView, now: Timestamp) -> Option<Ruling> {
        if let Some(spec) = job.spec.as_deref().filter(|s| s.is_template()) {
            let judged = job.is_live() && job.desired() == Desired::Running && job.next_head.is_none();
            return judged.then(|| self.of_template(id, job, spec, now));
        }
        let template = job.head.as_ref()?.rare.origin.as_ref()?.template;
        if !job.is_live() {
            return self.is_surplus(template, id, job).then(|| Ruling {
                bid: Some(Bid::Delete),
                ..Ruling::default()
            });
        }
        let judged = job.desired() == Desired::Running && job.next_head.is_none();
        (judged && self.is_replaced(template, id)).then(|| {
            Ruling::stop(Verdict {
                state: JobState::Stopped,
                reason: Reason::new(ReasonCode::ScheduleReplaced),
            })
        })
    }

    fn of_template(&self, id: JobId, job: &JobView, spec: &JobSpec, now: Timestamp) -> Ruling {
        let schedule = spec.rules.schedule.as_ref();
        let Some((schedule, Ok(table))) = schedule.map(|s| (s, Timetable::of(s))) else {
            return Ruling::default();
        };
        let known = state_of(id, job);
        let mut state = known.clone();
        if let Some(opening) = &mut state.opening {
            match self.is_made(opening.job(id)) {
                Made::No => return Ruling::default(),
                Made::Barred => {
                    opening.attempt = opening.attempt.saturating_add(1);
                    return decided(state);
                }
                Made::Yes => state.opening = None,
            }
        }
        let due = if state.paused {
            Step::Rest
        } else {
            step(schedule, &table, &state, &self.live_children(id), now)
        };
        match due {
            Step::Decide(state) => return decided(state),
            _ if state != known => return decided(state),
            Step::Wait => return Ruling::default(),
            Step::Rest => {}
        }
        let next = table.next(state.handled.max(now));
        Ruling {
            look_at: next.filter(|_| !state.paused),
            ..Ruling::default()
        }
    }

    fn is_made(&self, child: JobId) -> Made {
        let head = self.picture.facts.jobs.get(&child).and_then(|j| j.head.as_ref());
        let void = head.map(|h| h.void);
        match void.or_else(|| self.tombstones.get(&child).map(|t| t.void)) {
            None if self.picture.facts.jobs.contains_key(&child) => Made::Yes,
            None if self.picture.facts.ended.contains_key(&child) => Made::Yes,
            None => Made::No,
            Some(true) => Made::Barred,
            Some(false) => Made::Yes,
        }
    }

    /// Whether the job that was decided last, by a template's head, is still to be made.
    pub(crate) fn is_to_be_made(&self, child: JobId) -> bool {
        matches!(self.is_made(child), Made::No)
    }

    /// Jobs of a template that have not ended, oldest first.
    fn live_children(&self, template: JobId) -> Vec<JobId> {
        let children = self.children.get(&template).into_iter().flatten();
        let live = |id: &&JobId| {
            let job = self.picture.facts.jobs.get(id);
            job.is_some_and(|j| j.progress.as_ref().is_none_or(|p| !p.state().is_ended()))
        };
        children.filter(live).copied().collect()
    }

    /// Whether a later job takes this one's place.
    fn is_replaced(&self, template: JobId, id: JobId) -> bool {
        let later = self.children.get(&template).into_iter().flatten();
        later.filter(|other| **other != id).any(|other| {
            let head = self.picture.facts.jobs.get(other).and_then(|j| j.head.as_ref());
            let origin = head.filter(|h| !h.void).and_then(|h| h.rare.origin.as_ref());
            origin.is_some_and(|o| o.replaces.contains(&id))
        })
    }

    /// Whether as many later jobs of its template have ended as the template keeps.
    /// Of a template that is gone all stay.
    fn is_surplus(&self, template: JobId, id: JobId, job: &JobView) -> bool {
        let wanted = job.desired() != Desired::Deleted;
        let of = self
            .picture
            .facts
            .jobs
            .get(&template)
            .and_then(|t| t.spec.as_ref());
        let Some(schedule) = of.and_then(|s| s.rules.schedule.as_ref()).filter(|_| wanted) else {
            return false;
        };
        let ended = |other: &&JobId| {
            let other = self.picture.facts.jobs.get(other);
            other.is_some_and(|j| !j.is_live() && j.desired() != Desired::Deleted)
        };
        let children = self.children.get(&template).into_iter().flatten();
        let later = children.filter(|other| **other > id).filter(ended).count();
        later >= usize::try_from(schedule.keep_last).unwrap_or(usize::MAX)
    }

    /// Notes the template of a job from a head that was read.
    pub(crate) fn note_origin(&mut self, head: &Head) {
        if let Some(origin) = head.origin.as_deref().filter(|_| !head.void) {
            self.children.entry(origin.template).or_default().insert(head.job);
            self.dirty.extend(&origin.replaces);
            self.dirty.insert(origin.template);
        }
    }

    /// A job has ended: its template may make another one, and an older one may be too many.
    pub(crate) fn child_ended(&mut self, id: JobId) {
        let head = self.picture.facts.jobs.get(&id).and_then(|j| j.head.as_ref());
        if let Some(template) = head.and_then(|h| h.rare.origin.as_ref()).map(|o| o.template) {
            self.dirty.insert(template);
            self.dirty
                .extend(self.children.get(&template).into_iter().flatten());
        }
    }

    /// Only a job's tombstone is left.
    pub(crate) fn forget_child(&mut self, id: JobId, job: &JobView) {
        let origin = job.head.as_ref().and_then(|h| h.rare.origin.as_ref());
        if let Some(template) = origin.map(|o| o.template)
            && let Some(children) = self.children.get_mut(&template)
        {
            children.remove(&id);
            if children.is_empty() {
                self.children.remove(&template);
            }
        }
    }
}
