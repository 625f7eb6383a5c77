//! The command line: nouns and verbs over the typed client. It reads job files, prints tables, and turns errors into
//! exit codes. It knows no storage and no roles.

pub mod job_file;
pub mod quantity;
