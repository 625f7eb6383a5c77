//! How many instances of each waiting class fit on the cluster's hosts: the resource manager names the classes, and bounds what
//! pools may ask for by the answer.

use crate::Shard;
use crate::event::LinkId;
use echelon_core_model::directive::{ClassFits, NamedClasses, ReportPart};
use echelon_core_placement::fits::{FitCounts, FitHost};

/// The classes that were asked about, and what was reported of them last.
#[derive(Debug, Default)]
pub(crate) struct FitReports {
    /// Something was asked.
    asked: bool,
    counts: FitCounts,
    left_out: u32,
    reported: Option<ClassFits>,
}

impl Shard {
    /// Takes in the classes that are to be counted. The answer comes with the next look at all hosts, within a second, and also
    /// where the same classes were named before: another stream has no answer yet.
    pub(crate) fn obey_classes(&mut self, named: NamedClasses) {
        self.fits.asked = true;
        self.fits.left_out = named.left_out;
        self.fits.reported = None;
        self.fits.counts.set_classes(named.classes);
    }

    /// Reports what fits, if it is another answer than the last one. `O(hosts)` comparisons while any class is named.
    pub(crate) fn report_fits(&mut self) {
        if !self.fits.asked {
            return;
        }
        self.count_fits();
        // Before any host is known nothing is known to fit nowhere.
        if self.fits.counts.revision() == 0 && !self.fits.counts.classes().is_empty() {
            return;
        }
        let next = self.class_fits();
        if self.fits.reported.as_ref() == Some(&next) {
            return;
        }
        self.fits.reported = Some(next.clone());
        for link in self.links.proven() {
            self.tell(link, ReportPart::Fits(next.clone()));
        }
    }

    /// The answer for a full report; `None` while nothing was asked, or hosts were not looked at since.
    pub(crate) fn fits_part(&self, link: LinkId) -> Option<(LinkId, ReportPart)> {
        let reported = self.fits.reported.clone()?;
        Some((link, ReportPart::Fits(reported)))
    }

    fn count_fits(&mut self) {
        let classes = self.fits.counts.classes();
        if classes.is_empty() {
            return;
        }
        let with_ports = classes.values().any(|class| !class.ports.is_empty());
        let views = self.hosts.spare_views(self.now).into_iter();
        let hosts = views.map(|mut view| {
            let ports = if with_ports {
                view.ports_left = self.hosts.ports_left(&view.id);
                self.hosts.known_ports(&view.id)
            } else {
                None
            };
            FitHost { view, ports }
        });
        let hosts = hosts.collect();
        self.fits.counts.set_hosts(hosts);
    }

    fn class_fits(&self) -> ClassFits {
        ClassFits {
            revision: self.fits.counts.revision(),
            fits: self.fits.counts.fits(),
            left_out: self.fits.left_out,
        }
    }
}
