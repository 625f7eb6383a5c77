//! What a request may contain. Every rule names the field and what would be right, and all problems are told at once. The
//! methods call this before they store anything.

mod cluster_choice;
mod clusters;
mod container;
mod daemon;
mod gang;
mod group;
mod overrides;
mod pod;
pub mod pool;
mod probes;
mod references;
mod rules;
mod runtime;
mod schedule;
mod siting;
mod spec;
pub mod text;

pub use clusters::in_clusters;
pub use group::instances;
pub use references::references;
pub use spec::{Purpose, in_pools, spec};

use crate::create::find_awaited;
use crate::error::{ApiError, Violation};
use crate::port::Facts;
use crate::{ask, bounds};
use echelon_core_model::job_defaults::NamedFields;
use echelon_core_model::limits::VIOLATIONS;
use echelon_core_model::spec::JobSpec;

/// Notes problems under a path: as many as an answer names, and how many more there are.
#[derive(Debug, Clone, Default)]
pub struct Violations {
    /// The first ones.
    pub kept: Vec<Violation>,
    /// How many follow.
    pub more: usize,
}

impl Violations {
    /// Notes one unless the rule holds.
    pub fn check(&mut self, holds: bool, field: impl Into<String>, problem: impl Into<String>) {
        if !holds {
            self.add(field, problem);
        }
    }

    /// Notes one.
    pub fn add(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        if self.is_full() {
            self.more += 1;
        } else {
            self.kept.push(Violation::new(field, problem));
        }
    }

    /// Whether further ones are only counted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kept.len() >= VIOLATIONS
    }

    /// Those of a list, which is cut.
    #[must_use]
    pub fn of(mut list: Vec<Violation>) -> Self {
        let more = list.len().saturating_sub(VIOLATIONS);
        list.truncate(VIOLATIONS);
        Self { kept: list, more }
    }

    /// Nothing, if nothing was noted.
    ///
    /// # Errors
    /// All that was noted.
    pub fn done(self) -> Result<(), ApiError> {
        if self.kept.is_empty() {
            Ok(())
        } else {
            Err(ApiError::fields_and_more(self.kept, self.more))
        }
    }
}

/// Longest request id.
const REQUEST_ID: usize = 128;

/// A request id: 1 to 128 visible characters of ASCII.
pub fn request_id(id: &str, out: &mut Violations) {
    let good = (1..=REQUEST_ID).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    out.check(
        good,
        "request_id",
        "must be 1 to 128 visible ASCII characters without spaces; a random UUID is a good one",
    );
}

/// Checks a spec that is to be planned as one that is to be created, at the path `spec`. Gives it with the
/// defaults of its pool in place of what `named` leaves out.
///
/// # Errors
/// All that is wrong with it, or storage.
pub async fn planned<F: Facts>(
    facts: &F,
    mut wanted: JobSpec,
    named: NamedFields,
    found: Vec<Violation>,
    bytes: usize,
) -> Result<JobSpec, ApiError> {
    let mut out = Violations::of(found);
    let pools = ask::pools(facts).await?;
    named.complete(&mut wanted, &pools);
    spec(&wanted, bytes, Purpose::Create, "spec", &mut out);
    references(&wanted, None, "spec", &mut out);
    in_pools(&wanted.pool, &pools, "spec", &mut out);
    bounds::check(&wanted, None, &pools, "spec", &mut out);
    in_clusters(facts, &wanted, "spec", &mut out).await?;
    find_awaited(facts, &mut wanted, "spec", &mut out).await?;
    out.done()?;
    Ok(wanted)
}

#[cfg(test)]
mod tests;
