//! A soak: real servers and processes of the built binary under faults and load, and a history of what happened for the
//! judge to read. It knows no product crate: the binary is started, and asked over its API, as a user does.

pub mod client;
pub mod clock;
pub mod cql;
pub mod disk;
pub mod expect;
pub mod fault;
pub mod federation;
pub mod hostility;
pub mod load;
pub mod marked;
pub mod play;
pub mod recorder;
pub mod report;
pub mod sampler;
pub mod standalone;
pub mod stored;
pub mod watchers;
pub mod wire;
pub mod world;
