//! How many instances of each class fit on the hosts of a cluster, as its shard has reported.

use crate::event::LinkId;
use echelon_core_model::class::ClassDigest;
use echelon_core_model::directive::ClassFits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a shard was asked, and what it has reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownFits {
    /// Over which stream it was asked last, about which classes, and how many were left out.
    pub(crate) asked: Option<(LinkId, Vec<ClassDigest>, u32)>,
    /// Its last report; `None` until it has answered.
    pub(crate) report: Option<ClassFits>,
    /// Instances of each class that would fit if nothing ran there.
    pub(crate) ever: Arc<BTreeMap<ClassDigest, u64>>,
}

impl KnownFits {
    /// Takes a report in. It replaces the one before.
    pub(crate) fn take(&mut self, report: ClassFits) {
        let ever: BTreeMap<ClassDigest, u64> = report.fits.iter().map(|(d, fit)| (*d, fit.ever)).collect();
        if ever != *self.ever {
            self.ever = Arc::new(ever);
        }
        self.report = Some(report);
    }

    /// How many more instances of a class the hosts have free capacity for; `None`: not reported.
    #[must_use]
    pub fn now(&self, class: ClassDigest) -> Option<u64> {
        let report = self.report.as_ref()?;
        report.fits.get(&class).map(|fit| fit.now)
    }

    /// The last report.
    #[must_use]
    pub const fn report(&self) -> Option<&ClassFits> {
        self.report.as_ref()
    }
}
