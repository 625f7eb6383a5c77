//! The built `echelon` binary as a process of its own: a role or a command, started, killed and started again by a test.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::http;
use crate::server::{Launch, Server, without_our_variables};
use crate::work::WorkFolder;

/// Names another binary than the one beside the test, e.g. a release build.
pub const BINARY: &str = "ECHELON_BINARY";

/// How long a role may take until it is ready: a debug build on a machine that compiles beside it.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Path of the `echelon` binary that was built into the same target folder as the running test or program.
///
/// # Errors
/// It is not there; the error says how to build it.
pub fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os(BINARY) {
        Some(path) => PathBuf::from(path),
        None => {
            let own = std::env::current_exe()?;
            // target/PROFILE/deps/TEST, or target/PROFILE/PROGRAM
            let folder = own.parent().context("the test runs outside a target folder")?;
            let profile = if folder.ends_with("deps") {
                folder.parent().unwrap_or(folder)
            } else {
                folder
            };
            profile.join("echelon")
        }
    };
    path.canonicalize().with_context(|| {
        format!(
            "no {}: build it with `cargo build --package echelon`",
            path.display()
        )
    })
}

/// The binary as a plain command, for tests of the command line, with no `ECHELON_*` variable of the developer's.
///
/// # Errors
/// As [`binary`].
pub fn command() -> Result<Command> {
    let mut command = Command::new(binary()?);
    without_our_variables(&mut command);
    Ok(command)
}

/// What to start: `Role::new("shard-a").args(["shard", ...]).ready_at(address).start(&work)`.
#[derive(Debug, Clone)]
pub struct Role {
    name: String,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    ready_at: Option<SocketAddr>,
}

impl Role {
    /// `name` is that of its folder and log in the work folder.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            ready_at: None,
        }
    }

    /// Adds arguments of the command line.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Where it serves `/readyz`; without this a start does not wait for it.
    #[must_use]
    pub fn ready_at(mut self, address: impl Into<SocketAddr>) -> Self {
        self.ready_at = Some(address.into());
        self
    }

    /// Starts it in its own folder below `work` and waits until it is ready.
    ///
    /// # Errors
    /// No binary, or it is not ready in time; the error carries the end of its log.
    pub fn start(self, work: &WorkFolder) -> Result<Process> {
        self.start_program(binary()?, work)
    }

    fn start_program(self, program: PathBuf, work: &WorkFolder) -> Result<Process> {
        let folder = work.folder(&self.name)?;
        let launch = Launch {
            name: self.name,
            program,
            args: self.args,
            env: self.env,
            folder,
        };
        let mut process = Process {
            server: Server::start(launch)?,
            ready_at: self.ready_at,
        };
        process.wait_until_ready()?;
        Ok(process)
    }
}

/// A running role; [`Server`] has its kill, pause, log and the like. Dropping it kills it.
pub struct Process {
    server: Server,
    ready_at: Option<SocketAddr>,
}

impl Process {
    /// The process itself.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// kill -9.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.server.kill()
    }

    /// Starts a killed one again with the same arguments and waits until it is ready.
    ///
    /// # Errors
    /// It runs, or is not ready in time.
    pub fn start_again(&mut self) -> Result<()> {
        self.server.start_again()?;
        self.wait_until_ready()
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// It ended or is not ready within a minute.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let Some(address) = self.ready_at else {
            return Ok(());
        };
        self.server.wait_until("readiness", READY_WITHIN, || {
            Ok(http::get(address, "/readyz")
                .ok()
                .filter(|(status, _)| *status == 200)
                .map(|_| ()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Serves `/readyz`: 503 twice, then 200.
    fn third_time_ready() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for (asked, stream) in listener.incoming().enumerate() {
                let (mut stream, mut request) = (stream.unwrap(), [0; 512]);
                let length = stream.read(&mut request).unwrap();
                assert!(request[..length].starts_with(b"GET /readyz "));
                let status = if asked < 2 { "503 Not Ready" } else { "200 OK" };
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
            }
        });
        address
    }

    fn start(work: &WorkFolder, script: &str, ready_at: SocketAddr) -> Result<Process> {
        let role = Role::new("shard-a")
            .args(["-c", script])
            .env("GREETING", "hello")
            .ready_at(ready_at);
        role.start_program("sh".into(), work)
    }

    #[test]
    fn a_start_waits_for_readiness() {
        let work = WorkFolder::new("role").unwrap();
        let mut process = start(&work, "exec sleep 1000", third_time_ready()).unwrap();
        process.kill().unwrap();
        process.start_again().unwrap();
    }

    #[test]
    fn one_that_never_gets_ready_shows_its_log() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let work = WorkFolder::new("role").unwrap();
        let error = start(&work, "echo $GREETING; exit 3", nobody).err().unwrap();
        let text = format!("{error:#}");
        assert!(
            text.contains("shard-a ended before its readiness") && text.contains("\nhello"),
            "{text}"
        );
    }
}
