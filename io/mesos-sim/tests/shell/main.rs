//! The simulated Mesos from outside: real sockets, real processes, real files. One binary, since each costs a link.
#![cfg(test)]

mod client;
mod operators;
mod probes;
mod processes;
mod recordings;
mod restart;
mod streams;

use echelon_io_mesos_sim::supervise;

/// Not a test of its own: the supervisor program of the other tests. They start this binary with this test's name and,
/// as the last argument, the folder of a run.
#[test]
fn supervisor_program() {
    let args: Vec<String> = std::env::args().collect();
    let is_run = args
        .last()
        .is_some_and(|folder| std::path::Path::new(folder).join(".supervisor/order").exists());
    if is_run {
        let code = supervise(&args);
        std::process::exit(i32::from(code != std::process::ExitCode::SUCCESS));
    }
}
