//! One user's job in an otherwise quiet world, told in all detail: what `tests/tests/walk.rs` keeps as a golden text.

use crate::client::{Asked, User};
use crate::options::Options;
use crate::world::{BEGIN, Item, World};
use echelon_core_model::Span;
use echelon_core_model::spec::JobSpec;

/// Leaders are up by then.
const SUBMIT: Span = Span::seconds(10);
/// A short job has ended by then.
const END: Span = Span::seconds(30);

impl World {
    /// Plays one job from submit to its end and gives every line of the trace from the submit on.
    #[must_use]
    pub fn walk(seed: u64, options: Options, job: JobSpec) -> Vec<String> {
        let mut world = Self::new(seed, options);
        world.run_until(BEGIN.plus(SUBMIT));
        world.trace.forget();
        let n = world.users.0.len();
        world.users.0.push(User::new(job, [Asked::Create]));
        world.queue.plan(world.now, Item::User(n));
        world.run_until(BEGIN.plus(END));
        world.trace.lines().map(str::to_owned).collect()
    }
}
