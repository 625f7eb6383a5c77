//! The calls that kill a real master (rules H1, H2): the simulated one dies as well, loudly, so that a client that would
//! bring a cluster down is caught by its tests (S25).

use crate::cluster::{Cluster, Leadership};
use crate::id::{FrameworkId, StreamId};
use crate::output::{Output, StreamEnd};
use crate::request::Response;

impl Cluster {
    /// What killed the leading master, if something did. [`Cluster::fail_over`] brings a new one.
    #[must_use]
    pub fn crashed(&self) -> Option<&str> {
        self.master.crashed.as_deref()
    }

    /// The process ends: streams break, offers are void, nobody leads.
    pub(crate) fn crash(&mut self, why: String) {
        let frameworks: Vec<FrameworkId> = self.master.frameworks.keys().cloned().collect();
        for framework in &frameworks {
            self.take_back_offers(framework);
        }
        for framework in self.master.frameworks.values_mut() {
            framework.stream = None;
        }
        let streams: Vec<StreamId> = self.master.streams.keys().cloned().collect();
        for stream in streams {
            self.close(stream, StreamEnd::Broken);
        }
        self.master.leadership = Leadership::Nobody;
        self.out.push(Output::Crash { why: why.clone() });
        self.master.crashed = Some(why);
    }

    /// The answer to the call that killed the master, and to all that follow: a real one gives none.
    pub(crate) fn last_words(&self) -> Option<Response> {
        let why = self.crashed()?;
        Some(Response::text(503, format!("The simulated master died: {why}")))
    }
}
