//! Hosts of which an operator has said that they never return: what was silent there has ended, whatever
//! Mesos could still say. So an older run that will never be heard of again leaves its record, and its
//! job may go to the archive.

use crate::Shard;
use crate::picture::RunAt;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::instance::Run;
use echelon_core_model::{ReasonCode, RunState};

impl Shard {
    /// Ends what was silent on these hosts when they were named. The order is repeated, and looked at once
    /// by each leader.
    pub(crate) fn obey_forgotten(&mut self, forgotten: &ForgottenHosts) {
        if forgotten.version <= self.forgotten {
            return;
        }
        self.forgotten = forgotten.version;
        let is_meant = |run: &Run| {
            let silent = run.is_silent() || run.state == RunState::Lost;
            silent && forgotten.means(run.host.as_str(), &run.hostname, run.observed_at)
        };
        let mut ended: Vec<RunAt> = Vec::new();
        for (number, group) in self.picture.groups.iter().filter(|(_, g)| g.served) {
            for (n, record) in group.records() {
                // A latest run that is lost has been settled already.
                let latest = record.run.iter().filter(|r| r.is_silent());
                let runs = latest.chain(&record.older).filter(|r| is_meant(r));
                ended.extend(runs.map(|r| ((*number, n), r.generation, r.number)));
            }
        }
        for run in ended {
            self.end_by_evidence(run, ReasonCode::GoneByOperator);
        }
    }
}
