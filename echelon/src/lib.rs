//! The program behind `echelon`: joins the command line with the roles, and runs a whole federation in one process. It
//! decides nothing about jobs; each role does what its own crate says.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod bench;
pub mod demo;
pub mod doctor;
pub mod examples;
pub mod heard;
pub mod process;
pub mod resume;
pub mod roles;
pub mod standalone;
pub mod storage;
