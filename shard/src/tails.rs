//! Reads the ends of the logs of runs that have ended, for the driver to keep: each output in one question, or in two where it is
//! longer than what is kept.

use crate::job_manager::Input;
use crate::log::Logs;
use echelon_core_model::log::{NoTail, Tail, Tails};
use echelon_core_model::{MemberId, SidecarName};
use echelon_core_shard::AskedTails;
use echelon_io_mesos::FilesError;
use echelon_io_mesos::files::{MAX_PIECE, pod_file, sandbox_file};
use echelon_io_process::Shutdown;
use tokio::sync::mpsc;

/// Reads what is asked for and hands it to the loop.
pub(crate) fn read(asked: AskedTails, logs: Logs, inbox: mpsc::Sender<Input>, shutdown: &Shutdown) {
    shutdown.spawn(async move {
        let tails = tails(&asked, &logs).await;
        // The loop is gone only when the process ends.
        drop(inbox.send(Input::Tails(asked.run, tails)).await);
    });
}

async fn tails(asked: &AskedTails, logs: &Logs) -> Vec<Tails> {
    let members = std::iter::once(None).chain(asked.sidecars.iter().cloned().map(Some));
    let Ok(agent) = logs.agent(&asked.host).await else {
        return members
            .map(|sidecar| Tails::missing(sidecar, NoTail::AgentUnknown))
            .collect();
    };
    let mut out = Vec::new();
    for sidecar in members {
        out.push(Tails {
            stdout: tail(
                logs,
                (&agent, &path(asked, sidecar.as_ref(), "stdout")),
                asked.bytes,
            )
            .await,
            stderr: tail(
                logs,
                (&agent, &path(asked, sidecar.as_ref(), "stderr")),
                asked.bytes,
            )
            .await,
            sidecar,
        });
    }
    out
}

fn path(asked: &AskedTails, sidecar: Option<&SidecarName>, file: &str) -> String {
    let run = asked.run.to_string();
    if asked.sidecars.is_empty() {
        return sandbox_file(&asked.framework, &run, file);
    }
    let member = MemberId {
        run: asked.run.clone(),
        sidecar: sidecar.cloned(),
    };
    pod_file(&asked.framework, &run, &member.to_string(), file)
}

/// The last bytes of a file.
async fn tail(logs: &Logs, place: (&str, &str), bytes: u64) -> Tail {
    let length = bytes.min(MAX_PIECE);
    let first = match logs.piece(place, 0, length).await {
        Ok(piece) => piece,
        Err(error) => return Tail::Missing(missing(&error)),
    };
    let last = if first.size > length {
        match logs.piece(place, first.size - length, length).await {
            Ok(piece) => piece,
            Err(error) => return Tail::Missing(missing(&error)),
        }
    } else {
        first
    };
    Tail::Read {
        size: last.size,
        bytes: last.data.into(),
    }
}

fn missing(error: &FilesError) -> NoTail {
    match error {
        FilesError::NotFound { .. } => NoTail::NoFile,
        FilesError::Agent { .. } => NoTail::AgentSilent,
        FilesError::Refused { .. } | FilesError::Unreadable { .. } => {
            tracing::warn!(%error, "the logs of a run that has ended cannot be kept");
            NoTail::AgentRefused
        }
    }
}
