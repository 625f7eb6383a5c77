//! Reads from storage, what is done with rows, and what follows when storage refuses something.

pub(crate) mod filing;
pub(crate) mod flows;
pub(crate) mod operations;
pub(crate) mod reads;
pub(crate) mod refusals;
pub(crate) mod unread;
