//! The supervisor of one task, a process of its own: it starts a session, runs the task in a process group, and writes
//! what became of it. SIGTERM asks it to end the task: SIGTERM to the group, SIGKILL after the grace.

use super::process::{Process, pid_of};
use super::sandbox::{Ended, Order, Sandbox, Started};
use super::{fetch, probe};
use rustix::process::{Signal, kill_process_group, setsid};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

/// Runs the task whose folder is the last argument. This is what the hidden subcommand `mesos-sim-supervise` does; it
/// returns when the task has ended and its end is written.
#[must_use]
pub fn supervise(args: &[String]) -> ExitCode {
    let Some(folder) = args.last() else {
        // The standard error of a supervisor is a file beside the sandbox.
        eprintln!("mesos-sim-supervise: expected the folder of a run");
        return ExitCode::from(2);
    };
    match run(&Sandbox::at(folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mesos-sim-supervise: cannot supervise the run in {folder}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(sandbox: &Sandbox) -> io::Result<()> {
    // Fails only for the leader of a group, which a supervisor is where somebody runs it by hand.
    let _ = setsid();
    let order = sandbox.order()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Listened to before the task exists: a SIGTERM before this line ends a supervisor without a task.
        let mut asked = signal(SignalKind::terminate())?;
        let fetched = tokio::select! {
            fetched = fetch::all(&order.files, sandbox) => fetched,
            _ = asked.recv() => return told(sandbox, &order, &Ended::Signal(Signal::TERM.as_raw())),
        };
        if let Err(why) = fetched {
            return told(sandbox, &order, &Ended::NotStarted(why));
        }
        let ended = match start(sandbox, &order) {
            Ok(child) => watch(sandbox, &order, child, &mut asked).await?,
            Err(error) => Ended::NotStarted(not_started(sandbox, &order, &error)),
        };
        told(sandbox, &order, &ended)
    })
}

/// Notes the end, then tells it: what is told was noted.
fn told(sandbox: &Sandbox, order: &Order, ended: &Ended) -> io::Result<()> {
    noted(order.log.as_ref().map(|log| log.ended(Some(ended))));
    sandbox.tell_ended(ended)
}

/// A log that cannot be written costs no task: the standard error of a supervisor says so.
fn noted(written: Option<io::Result<()>>) {
    if let Some(Err(error)) = written {
        eprintln!("mesos-sim-supervise: cannot write the log of runs: {error}");
    }
}

fn not_started(sandbox: &Sandbox, order: &Order, error: &io::Error) -> String {
    let program = order.program.join(" ");
    let Some(account) = &order.account else {
        return format!("cannot run `{program}`: {error}");
    };
    let (name, folder) = (&account.name, sandbox.path().display());
    format!("cannot run `{program}` as user `{name}`, which must be able to reach {folder}: {error}")
}

fn start(sandbox: &Sandbox, order: &Order) -> io::Result<Child> {
    let output = |name: &str| {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(sandbox.path().join(name))
    };
    let mut words = order.program.iter();
    let program = words
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program"))?;
    let (stdout, stderr) = (output("stdout")?, output("stderr")?);
    let mut task = Command::new(program);
    if let Some(account) = &order.account {
        account.own(sandbox.path())?;
        account.run_as(&mut task);
    }
    task.args(words)
        .env_clear()
        .envs(&order.environment)
        .current_dir(sandbox.path())
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .process_group(0)
        .spawn()
}

async fn watch(
    sandbox: &Sandbox,
    order: &Order,
    mut child: Child,
    asked: &mut SignalStream,
) -> io::Result<Ended> {
    let pid = child
        .id()
        .ok_or_else(|| io::Error::other("the task has no pid"))?;
    let known = |pid: u32| {
        Process::of(pid).unwrap_or(Process {
            pid,
            started: "ended at once".to_owned(),
        })
    };
    noted(order.log.as_ref().map(|log| log.began(pid)));
    sandbox.tell_started(&Started {
        supervisor: known(std::process::id()),
        task: known(pid),
    })?;
    probe::begin(sandbox, order);
    let status = tokio::select! {
        status = child.wait() => return status.map(ended),
        _ = asked.recv() => end(sandbox, order, &mut child, (pid, asked)).await?,
    };
    Ok(ended(status))
}

/// SIGTERM, then SIGKILL when the grace is over, at once where there is none. Both go to the whole group.
async fn end(
    sandbox: &Sandbox,
    order: &Order,
    child: &mut Child,
    (pid, asked): (u32, &mut SignalStream),
) -> io::Result<ExitStatus> {
    let group = |with: Signal| pid_of(pid).map(|pid| kill_process_group(pid, with));
    let grace = || {
        let limit = sandbox.grace_limit().unwrap_or(order.grace_ms);
        Duration::from_millis(limit.min(order.grace_ms))
    };
    if !grace().is_zero() {
        let _ = group(Signal::TERM);
        let over = tokio::time::sleep(grace());
        tokio::pin!(over);
        loop {
            tokio::select! {
                status = child.wait() => return status,
                () = &mut over => break,
                // It can only become shorter (rule R85).
                _ = asked.recv() => {
                    let earliest = over.deadline().min(tokio::time::sleep(grace()).deadline());
                    over.as_mut().reset(earliest);
                }
            }
        }
    }
    let _ = group(Signal::KILL);
    child.wait().await
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Code(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::NotStarted("the system does not tell how it ended".to_owned()),
    }
}
