//! Reads the ends of the logs of runs that have ended, for the driver to keep, piece by piece: agents give 64 KiB at a time, whatever they are
//! asked for.

use crate::job_manager::Input;
use crate::log::Logs;
use echelon_core_model::log::{NoTail, Tail, Tails};
use echelon_core_model::{MemberId, SidecarName};
use echelon_core_shard::AskedTails;
use echelon_io_mesos::files::{MAX_PIECE, pod_file, sandbox_file};
use echelon_io_mesos::{FilesError, Piece};
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
        let stdout = path(asked, sidecar.as_ref(), "stdout");
        let stderr = path(asked, sidecar.as_ref(), "stderr");
        out.push(Tails {
            stdout: tail(logs, (&agent, &stdout), asked.bytes).await,
            stderr: tail(logs, (&agent, &stderr), asked.bytes).await,
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
    match last(bytes, |offset, length| logs.piece(place, offset, length)).await {
        Ok((data, size)) => Tail::Read {
            bytes: data.into(),
            size,
        },
        Err(error) => Tail::Missing(missing(&error)),
    }
}

/// The last bytes of a file, of which `read` gives pieces, with its size, which is taken from the first answer.
async fn last<Read>(bytes: u64, read: impl Fn(u64, u64) -> Read) -> Result<(Vec<u8>, u64), FilesError>
where
    Read: Future<Output = Result<Piece, FilesError>>,
{
    let first = read(0, bytes.min(MAX_PIECE)).await?;
    let size = first.size;
    let from = size.saturating_sub(bytes);
    let skipped = usize::try_from(from).unwrap_or(usize::MAX);
    let mut data = first.data.get(skipped..).unwrap_or_default().to_vec();
    loop {
        let at = from.saturating_add(length(&data));
        if at >= size {
            return Ok((data, size));
        }
        let piece = read(at, (size - at).min(MAX_PIECE)).await?;
        if piece.data.is_empty() {
            // Somebody has cut it meanwhile: that much is there.
            return Ok((data, at));
        }
        data.extend(piece.data);
    }
}

fn length(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file from an agent that gives so many bytes at a time.
    async fn read(file: &[u8], wanted: u64, at_a_time: u64) -> (Vec<u8>, u64) {
        let asked = |offset: u64, length: u64| {
            let there = file.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let most = usize::try_from(length.min(at_a_time)).unwrap();
            std::future::ready(Ok(Piece {
                data: there[..most.min(there.len())].to_vec(),
                size: u64::try_from(file.len()).unwrap(),
            }))
        };
        last(wanted, asked).await.unwrap()
    }

    #[tokio::test]
    async fn an_end_that_is_longer_than_what_agents_give_at_a_time_is_the_end() {
        let file: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let size = u64::try_from(file.len()).unwrap();
        for wanted in [1, 1_000, 65_536, 65_537, 192 * 1024, size, size + 1] {
            let (data, told) = read(&file, wanted, 64 * 1024).await;
            let from = usize::try_from(size.saturating_sub(wanted)).unwrap();
            assert!(data == file[from..], "the last {wanted}");
            assert_eq!(told, size);
        }
        assert_eq!(read(b"short", 9, 2).await, (b"short".to_vec(), 5));
        assert_eq!(read(b"short", 3, 2).await, (b"ort".to_vec(), 5));
        assert_eq!(read(b"", 3, 2).await, (Vec::new(), 0));
    }

    #[tokio::test]
    async fn a_file_that_was_cut_meanwhile_ends_where_it_ends() {
        let cut = |offset: u64, _| {
            let data = if offset == 0 { b"ab".to_vec() } else { Vec::new() };
            std::future::ready(Ok(Piece { data, size: 9 }))
        };
        assert_eq!(last(9, cut).await.unwrap(), (b"ab".to_vec(), 2));
    }
}
