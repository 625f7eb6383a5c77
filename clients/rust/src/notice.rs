//! What a gateway says beside its answers: that kills are switched off.

use crate::Client;
use echelon_proto::convert::control::KILLS_OFF;
use std::fmt;
use std::sync::Arc;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

/// Done with each answer that says that kills are switched off.
#[derive(Clone)]
pub struct Notice(Arc<dyn Fn() + Send + Sync>);

impl Notice {
    /// Does this.
    pub fn new(done: impl Fn() + Send + Sync + 'static) -> Self {
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
        let said = match &answer {
            Ok(response) => is_off(response.metadata()),
            Err(status) => is_off(status.metadata()),
        };
        if let Some(Notice(done)) = self.notice.as_ref().filter(|_| said) {
            done();
        }
        answer
    }
}

fn is_off(metadata: &MetadataMap) -> bool {
    let (name, value) = KILLS_OFF;
    metadata.get(name).is_some_and(|said| said == value)
}
