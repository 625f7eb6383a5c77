//! Rules of daemons: they are on every host that their constraints let, so nothing can be said of how many there are or of how they
//! are spread.

use super::Violations;
use super::cluster_choice::undivided;
use echelon_core_model::Amount;
use echelon_core_model::siting::Siting;
use echelon_core_model::spec::{GroupSpec, JobKind, JobSpec};

/// Why a daemon has no number of instances.
pub(super) const COUNTED: &str =
    "must be left out: a daemon has one instance on each host that its constraints let";
const EVERYWHERE: &str = "must be left out: a daemon is on every host that its constraints let";

pub(super) fn of_job(s: &JobSpec, path: &str, out: &mut Violations) {
    if s.kind != JobKind::Daemon {
        return;
    }
    let at = |field: &str| format!("{path}.{field}");
    undivided(&s.clusters, &at("clusters"), EVERYWHERE, out);
    out.check(
        s.clusters.fail_over_only.is_empty(),
        at("clusters.fail_over_only"),
        EVERYWHERE,
    );
    out.check(
        matches!(s.update.canaries, Amount::Count(0) | Amount::Percent(0)),
        at("update.canaries"),
        "must be left out: a daemon is updated host by host; pause its rollout when the first ones are to be looked at",
    );
}

pub(super) fn of_group(g: &GroupSpec, kind: JobKind, path: &str, out: &mut Violations) {
    if kind != JobKind::Daemon {
        return;
    }
    let none = Siting::default();
    let siting = &g.siting;
    for (field, unsaid) in [
        ("preferences", siting.preferences == none.preferences),
        ("max_per", siting.max_per == none.max_per),
        ("spread_over", siting.spread_over == none.spread_over),
        ("affinity", siting.affinity == none.affinity),
        ("anti_affinity", siting.anti_affinity == none.anti_affinity),
        ("exclusive", siting.exclusive == none.exclusive),
        ("strategy", siting.strategy == none.strategy),
    ] {
        out.check(unsaid, format!("{path}.{field}"), EVERYWHERE);
    }
    out.check(g.max_running.is_none(), format!("{path}.max_running"), COUNTED);
}
