//! What a gateway says beside its answers: that kills are switched off, which leaders are away, and what of
//! a list cannot be read.

use crate::Client;
use echelon_proto::convert::control::{KILLS_OFF, UNREAD_ROWS};
use echelon_proto::convert::role_state::STALE;
use std::fmt;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

/// What an answer says beside itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aside {
    /// Kills are switched off.
    KillsOff,
    /// These stored rows cannot be understood and are left out of a list.
    UnreadRows(String),
    /// These leaders do not answer, each with since when: what depends on them is shown as it was then.
    Stale(String),
}

/// Done with each answer that says something beside itself.
#[derive(Clone)]
pub struct Notice(Arc<dyn Fn(Aside) + Send + Sync>);

impl Notice {
    /// Does this.
    pub fn new(done: impl Fn(Aside) + Send + Sync + 'static) -> Self {
        Self(Arc::new(done))
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notice")
    }
}

impl Client {
    /// Hears what an answer says beside itself, and hands it on.
    ///
    /// # Errors
    /// The answer.
    pub fn heard<T>(&self, answer: Result<Response<T>, Status>) -> Result<Response<T>, Status> {
        let metadata = match &answer {
            Ok(response) => response.metadata(),
            Err(status) => status.metadata(),
        };
        if let Some(Notice(done)) = &self.notice {
            asides(metadata).into_iter().for_each(done.as_ref());
        }
        answer
    }
}

fn asides(metadata: &MetadataMap) -> Vec<Aside> {
    let (name, value) = KILLS_OFF;
    let off = metadata.get(name).is_some_and(|said| said == value);
    let text = |name: &str| {
        metadata
            .get(name)
            .and_then(|said| said.to_str().ok())
            .map(str::to_owned)
    };
    let unread = text(UNREAD_ROWS).map(Aside::UnreadRows);
    let stale = text(STALE).map(Aside::Stale);
    let off = off.then_some(Aside::KillsOff);
    off.into_iter().chain(unread).chain(stale).collect()
}
