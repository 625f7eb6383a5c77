//! What is kept of the logs of runs that have ended.

use crate::convert::fields::{cluster, job_bytes, job_id, list, messages, required};
use crate::convert::{FieldError, FieldProblem, Wire};
use crate::echelon::storage::v1 as wire;
use echelon_core_model::log::{KeptLog, KeptRun, KeptRuns, LogGap, NoTail, Tail, Tails};
use echelon_core_model::{SidecarName, TaskId, Timestamp};

fn task(field: &str, text: &str) -> Result<TaskId, FieldError> {
    let wrong = |why| FieldError::new(field, FieldProblem::Id(why));
    text.parse().map_err(wrong)
}

fn sidecar(field: &str, text: &str) -> Result<SidecarName, FieldError> {
    SidecarName::parse(text).map_err(|why| FieldError::new(field, FieldProblem::Id(why)))
}

impl Wire for Tail {
    type Message = wire::Tail;

    fn to_wire(&self) -> Self::Message {
        match self {
            Self::Read { bytes, size } => wire::Tail {
                data: bytes.to_vec(),
                size: *size,
                missing: 0,
            },
            Self::Missing(why) => wire::Tail {
                data: Vec::new(),
                size: 0,
                missing: why.number().into(),
            },
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let wire::Tail { data, size, missing } = message;
        if missing == 0 {
            let bytes = data.into();
            return Ok(Self::Read { bytes, size });
        }
        let unknown = || FieldError::new("missing", FieldProblem::Unknown(missing.into()));
        NoTail::from_number(missing)
            .map(Self::Missing)
            .ok_or_else(unknown)
    }
}

impl Wire for KeptLog {
    type Message = wire::KeptLog;

    fn to_wire(&self) -> Self::Message {
        let Self {
            run,
            at,
            hostname,
            tails,
        } = self;
        wire::KeptLog {
            run: run.to_string(),
            sidecar: tails.sidecar.as_ref().map(SidecarName::to_string),
            at_ms: at.0,
            hostname: hostname.to_string(),
            stdout: Some(tails.stdout.to_wire()),
            stderr: Some(tails.stderr.to_wire()),
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let named = message.sidecar.map(|name| sidecar("sidecar", &name));
        Ok(Self {
            run: task("run", &message.run)?,
            at: Timestamp(message.at_ms),
            hostname: message.hostname.into(),
            tails: Tails {
                sidecar: named.transpose()?,
                stdout: required("stdout", message.stdout)?,
                stderr: required("stderr", message.stderr)?,
            },
        })
    }
}

impl Wire for KeptRun {
    type Message = wire::KeptRun;

    fn to_wire(&self) -> Self::Message {
        wire::KeptRun {
            run: self.run.to_string(),
            sidecars: self.sidecars.iter().map(SidecarName::to_string).collect(),
            failed: self.failed,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        let sidecars = message.sidecars.iter();
        Ok(Self {
            run: task("run", &message.run)?,
            sidecars: sidecars
                .map(|name| sidecar("sidecars", name))
                .collect::<Result<_, _>>()?,
            failed: message.failed,
        })
    }
}

impl Wire for KeptRuns {
    type Message = wire::KeptRuns;

    fn to_wire(&self) -> Self::Message {
        wire::KeptRuns {
            job: job_bytes(self.job),
            cluster: self.cluster.to_string(),
            runs: messages(&self.runs),
            displaced: self.displaced,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            job: job_id("job", &message.job)?,
            cluster: cluster("cluster", &message.cluster)?,
            runs: list("runs", message.runs)?,
            displaced: message.displaced,
        })
    }
}

impl Wire for LogGap {
    type Message = wire::LogGap;

    fn to_wire(&self) -> Self::Message {
        wire::LogGap {
            from_ms: self.from.0,
            to_ms: self.to.0,
            runs: self.runs,
        }
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        Ok(Self {
            from: Timestamp(message.from_ms),
            to: Timestamp(message.to_ms),
            runs: message.runs,
        })
    }
}
