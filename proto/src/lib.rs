//! The wire: generated messages of every package below `proto/proto`, their descriptors, and the framing of Mesos'
//! event stream. One module a package: `mesos.v1.scheduler` is [`mesos::v1::scheduler`].
//!
//! Nothing here decides or does I/O. Services are generated with the feature `grpc` only.
#![forbid(unsafe_code)]

#[cfg(feature = "grpc")]
pub mod codec;
pub mod convert;
pub mod recordio;
#[cfg(feature = "grpc")]
pub mod role;

#[expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
mod packages {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}
pub use packages::*;

/// All packages with their imports as an encoded `google.protobuf.FileDescriptorSet`, for server reflection and for
/// reading messages whose type is known only at run time.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
