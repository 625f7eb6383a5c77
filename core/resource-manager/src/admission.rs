//! Who may begin more, and where: capacity that is left, queues in their order, routing, and binding.

pub(crate) mod binding;
pub(crate) mod candidates;
pub(crate) mod capacity;
pub(crate) mod gang_holds;
pub(crate) mod grants;
pub(crate) mod rounds;
pub(crate) mod router;
pub(crate) mod second_round;
pub(crate) mod starvation;
