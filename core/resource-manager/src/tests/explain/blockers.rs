//! The table.

use crate::queries::explain::answer::{FixChange, FixOutcome};
use crate::tests::case::{Case, batch, service};
use crate::tests::explain::user::{make, one_less};
use crate::tests::explain::{explained, fixes};
use echelon_core_model::cluster::DesiredState;
use echelon_core_model::directive::Part;
use echelon_core_model::host_pool::HostPoolChoice;
use echelon_core_model::pool::{Pool, PoolKind};
use echelon_core_model::siting::Constraint;
use echelon_core_model::{HostPoolName, JobId, Resources, Span};
use echelon_core_testkit::build::{JobBuilder, shape};

/// A state with a job of which something waits.
type Made = (Case, JobId);

/// A blocker, or several.
struct Row {
    name: &'static str,
    made: fn() -> Made,
    /// What is in the way, in order.
    blockers: &'static [&'static str],
    /// The first fix; empty where none is stated.
    fix: &'static str,
}

/// Pools without a limit and one cluster of 24 cores on hosts of 4.
fn with_pools(paths: &[&str]) -> Case {
    with_clusters(paths, &[("a", 24)])
}

fn with_clusters(paths: &[&str], clusters: &[(&str, u64)]) -> Case {
    let mut case = Case::new();
    for path in paths {
        case.set_pool(path, 1_000_000);
    }
    for (name, cores) in clusters {
        case = case.cluster(name, *cores);
    }
    case
}

/// Changes pools before there is a leader.
fn bounded(mut case: Case, path: &str, change: impl FnOnce(&mut Pool)) -> Case {
    case.change_pool(path, change);
    case
}

fn limited(paths: &[(&str, u64)]) -> Case {
    let mut case = Case::new();
    for (path, cores) in paths {
        case.set_pool(path, *cores);
    }
    case.cluster("a", 24)
}

/// A leader comes, and these jobs, of which the last one is asked about.
fn jobs(mut case: Case, all: Vec<JobBuilder>) -> Made {
    case.elect();
    case.run_for(Span::seconds(2));
    let mut last = None;
    for (n, job) in all.into_iter().enumerate() {
        last = Some(case.job(n as u128 + 1, job));
    }
    case.run_for(Span::seconds(12));
    (case, last.unwrap())
}

/// When the shard has said that it finds no host.
fn later(made: Made) -> Made {
    let (mut case, job) = made;
    case.run_for(Span::minutes(1));
    (case, job)
}

fn of(n: u32, pool: &str) -> JobBuilder {
    batch(n).pool(pool)
}

fn firm(path: &str, reserves: u64) -> Case {
    bounded(with_pools(&[path]), path, |p| {
        p.reservation.cpus = reserves * 1000
    })
    .memory(path, 1_000_000)
}

impl Case {
    /// A pool reserves so much memory, so that only its processors are scarce.
    fn memory(mut self, path: &str, mebibytes: u64) -> Self {
        self.change_pool(path, |p| p.reservation.memory = mebibytes);
        self
    }
}

fn lending(paths: &[&str], cores: u64) -> Case {
    let mut case = with_pools(paths);
    case.shard("a").lent_cores = cores;
    case
}

fn static_pool(mut case: Case, path: &str, cores: u64) -> Case {
    case.change_pool(path, |p| {
        p.kind = PoolKind::Static;
        p.reservation.cpus = cores * 1000;
    });
    case
}

fn host_pools(mut case: Case, pools: &[(&str, u64)]) -> Case {
    let of = |cores: u64| Resources {
        cpus: cores * 1000,
        memory: cores * 10_000,
        ..Resources::ZERO
    };
    let part = |cores: u64| Part {
        total: of(cores),
        used: Resources::ZERO,
        largest_host: of(cores.min(4)),
    };
    let parts = pools
        .iter()
        .map(|(name, cores)| (HostPoolName::new(name), part(*cores)));
    case.shard("a").host_pools = parts.collect();
    case
}

fn on_host_pool(job: JobBuilder, pool: &str) -> JobBuilder {
    job.group(|g| g.siting.host_pool = HostPoolChoice::parse(pool).unwrap())
}

fn zoned(n: u32) -> JobBuilder {
    of(n, "/a").group(|g| g.constraints = vec![Constraint::one_of("zone", &["x"])])
}

fn constrained(cores: u64) -> Case {
    let mut case = with_pools(&["/a"]);
    case.shard("a").constrained_cores = Some(cores);
    case
}

fn wished(case: Case, all: Vec<JobBuilder>, wishes: &[(&str, DesiredState)]) -> Made {
    let (mut case, job) = {
        let mut case = case;
        case.elect();
        case.run_for(Span::seconds(2));
        for (name, desired_state) in wishes {
            case.desire(name, *desired_state);
        }
        let mut last = None;
        for (n, job) in all.into_iter().enumerate() {
            last = Some(case.job(n as u128 + 1, job));
        }
        (case, last.unwrap())
    };
    case.run_for(Span::seconds(12));
    (case, job)
}

fn large(cores: u64, n: u32) -> JobBuilder {
    of(n, "/a").shape(shape(cores, 64))
}

const ROWS: &[Row] = &[
    // Limits.
    Row {
        name: "the limit of its pool",
        made: || jobs(limited(&[("/a", 4)]), vec![of(10, "/a")]),
        blockers: &["its pool's limit is reached: cpus needs 6, has at most 0 (/a)"],
        fix: "set the limit of pool /a to cpus 10",
    },
    Row {
        name: "the limit of a pool above",
        made: || jobs(limited(&[("/p", 4), ("/p/x", 1_000)]), vec![of(10, "/p/x")]),
        blockers: &["its pool's limit is reached: cpus needs 6, has at most 0 (/p)"],
        fix: "set the limit of pool /p to cpus 10",
    },
    Row {
        name: "the limits of its pool and of one above",
        made: || jobs(limited(&[("/p", 5), ("/p/x", 4)]), vec![of(10, "/p/x")]),
        blockers: &[
            "its pool's limit is reached: cpus needs 6, has at most 0 (/p/x)",
            "its pool's limit is reached: cpus needs 6, has at most 1 (/p)",
        ],
        fix: "set the limit of pool /p/x to cpus 10, and set the limit of pool /p to cpus 10",
    },
    Row {
        name: "the limit of the highest of three pools",
        made: || {
            jobs(
                limited(&[("/p", 3), ("/p/x", 1_000), ("/p/x/y", 1_000)]),
                vec![of(7, "/p/x/y")],
            )
        },
        blockers: &["its pool's limit is reached: cpus needs 4, has at most 0 (/p)"],
        fix: "set the limit of pool /p to cpus 7",
    },
    Row {
        name: "a limit that another job of the pool has used up",
        made: || jobs(limited(&[("/a", 6)]), vec![of(6, "/a"), of(3, "/a")]),
        blockers: &["its pool's limit is reached: cpus needs 3, has at most 0 (/a)"],
        fix: "set the limit of pool /a to cpus 9",
    },
    Row {
        name: "a limit, with an older job that waits for it, too",
        made: || jobs(limited(&[("/a", 6)]), vec![of(10, "/a"), of(3, "/a")]),
        blockers: &["its pool's limit is reached: cpus needs 3, has at most 0 (/a)"],
        fix: "set the limit of pool /a to cpus 13",
    },
    Row {
        name: "a limit, with a job of higher priority that waits for it, too",
        made: || {
            jobs(
                limited(&[("/a", 6)]),
                vec![of(8, "/a").priority(9), of(3, "/a").priority(1)],
            )
        },
        blockers: &["its pool's limit is reached: cpus needs 3, has at most 0 (/a)"],
        fix: "set the limit of pool /a to cpus 11",
    },
    Row {
        name: "a limit that a neighbour below the same pool has used up",
        made: || {
            let case = limited(&[("/p", 8), ("/p/x", 1_000), ("/p/y", 1_000)]);
            jobs(case, vec![of(4, "/p/y"), of(6, "/p/x")])
        },
        blockers: &["its pool's limit is reached: cpus needs 2, has at most 0 (/p)"],
        fix: "set the limit of pool /p to cpus 10",
    },
    Row {
        name: "a limit of memory",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.limit.memory = 256);
            jobs(case, vec![of(10, "/a")])
        },
        blockers: &["its pool's limit is reached: memory needs 384MiB, has at most 0MiB (/a)"],
        fix: "set the limit of pool /a to memory 640MiB",
    },
    Row {
        name: "limits of two kinds",
        made: || {
            let case = bounded(limited(&[("/a", 5)]), "/a", |p| p.limit.memory = 256);
            jobs(case, vec![of(10, "/a")])
        },
        blockers: &["its pool's limit is reached: cpus needs 6, has at most 1 (/a)"],
        fix: "set the limit of pool /a to cpus 10, memory 640MiB",
    },
    Row {
        name: "a limit below one instance",
        made: || jobs(limited(&[("/a", 1)]), vec![large(2, 1)]),
        blockers: &["its pool's limit is reached: cpus needs 2, has at most 1 (/a)"],
        fix: "set the limit of pool /a to cpus 2",
    },
    Row {
        name: "a limit of 0 cores",
        made: || jobs(limited(&[("/a", 0)]), vec![of(2, "/a")]),
        blockers: &["its pool's limit is reached: cpus needs 2, has at most 0 (/a)"],
        fix: "set the limit of pool /a to cpus 2",
    },
    // Numbers of instances and jobs.
    Row {
        name: "max_instances",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.max_instances = 4);
            jobs(case, vec![of(10, "/a")])
        },
        blockers: &[
            "its pool has as many active instances as it may have (/a: at most 4 instances, 6 more are needed)",
        ],
        fix: "raise max_instances of pool /a to 10",
    },
    Row {
        name: "max_instances of a pool above",
        made: || {
            let case = bounded(with_pools(&["/p", "/p/x"]), "/p", |p| p.max_instances = 3);
            jobs(case, vec![of(9, "/p/x")])
        },
        blockers: &[
            "its pool has as many active instances as it may have (/p: at most 3 instances, 6 more are needed)",
        ],
        fix: "raise max_instances of pool /p to 9",
    },
    Row {
        name: "max_instances that another job has used up",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.max_instances = 5);
            jobs(case, vec![of(5, "/a"), of(2, "/a")])
        },
        blockers: &[
            "its pool has as many active instances as it may have (/a: at most 5 instances, 2 more are needed)",
        ],
        fix: "raise max_instances of pool /a to 7",
    },
    Row {
        name: "max_jobs",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.max_jobs = 1);
            jobs(case, vec![of(2, "/a"), of(2, "/a")])
        },
        blockers: &["its pool has as many jobs that have begun as it may have (/a: at most 1 jobs)"],
        fix: "raise max_jobs of pool /a to 2",
    },
    Row {
        name: "max_jobs of a pool above",
        made: || {
            let case = bounded(with_pools(&["/p", "/p/x", "/p/y"]), "/p", |p| p.max_jobs = 1);
            jobs(case, vec![of(2, "/p/x"), of(2, "/p/y")])
        },
        blockers: &["its pool has as many jobs that have begun as it may have (/p: at most 1 jobs)"],
        fix: "raise max_jobs of pool /p to 2",
    },
    Row {
        name: "max_jobs, with two older jobs that wait",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.max_jobs = 1);
            jobs(case, vec![of(2, "/a"), of(2, "/a"), of(2, "/a"), of(2, "/a")])
        },
        blockers: &["its pool has as many jobs that have begun as it may have (/a: at most 1 jobs)"],
        fix: "raise max_jobs of pool /a to 4",
    },
    Row {
        name: "max_jobs of 0",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.max_jobs = 0);
            jobs(case, vec![of(2, "/a")])
        },
        blockers: &["its pool has as many jobs that have begun as it may have (/a: at most 0 jobs)"],
        fix: "raise max_jobs of pool /a to 1",
    },
    Row {
        name: "max_instances and a limit",
        made: || {
            let case = bounded(limited(&[("/a", 6)]), "/a", |p| p.max_instances = 4);
            jobs(case, vec![of(10, "/a")])
        },
        blockers: &[
            "its pool's limit is reached: cpus needs 6, has at most 2 (/a)",
            "its pool has as many active instances as it may have (/a: at most 4 instances, 6 more are needed)",
        ],
        fix: "set the limit of pool /a to cpus 10, and raise max_instances of pool /a to 10",
    },
    // Its own bound.
    Row {
        name: "max_running",
        made: || jobs(with_pools(&["/a"]), vec![of(10, "/a").max_running(4)]),
        blockers: &["waits because max_running of its group run already (group main: 4 may run, 10 would)"],
        fix: "raise max_running of group main to 10",
    },
    Row {
        name: "max_running and a limit",
        made: || jobs(limited(&[("/a", 6)]), vec![of(10, "/a").max_running(4)]),
        blockers: &[
            "waits because max_running of its group run already (group main: 4 may run, 10 would)",
            "its pool's limit is reached: cpus needs 6, has at most 2 (/a)",
        ],
        fix: "raise max_running of group main to 10, and set the limit of pool /a to cpus 10",
    },
    // Controllers.
    Row {
        name: "the controller limit",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.controller_limit.cpus = 2_000);
            jobs(case, vec![of(5, "/a").controller()])
        },
        blockers: &[
            "is a controller, and controllers have all that its pool allows them: cpus needs 3, has at most 0 (/a)",
        ],
        fix: "set the controller_limit of pool /a to cpus 5",
    },
    Row {
        name: "the controller limit of a pool above",
        made: || {
            let case = bounded(with_pools(&["/p", "/p/x"]), "/p", |p| {
                p.controller_limit.cpus = 2_000
            });
            jobs(case, vec![of(5, "/p/x").controller()])
        },
        blockers: &[
            "is a controller, and controllers have all that its pool allows them: cpus needs 3, has at most 0 (/p)",
        ],
        fix: "set the controller_limit of pool /p to cpus 5",
    },
    Row {
        name: "a controller limit that other controllers have used up",
        made: || {
            let case = bounded(with_pools(&["/a"]), "/a", |p| p.controller_limit.cpus = 4_000);
            jobs(case, vec![of(4, "/a").controller(), of(2, "/a").controller()])
        },
        blockers: &[
            "is a controller, and controllers have all that its pool allows them: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "set the controller_limit of pool /a to cpus 6",
    },
    Row {
        name: "the controller limit and the limit",
        made: || {
            let case = bounded(limited(&[("/a", 3)]), "/a", |p| p.controller_limit.cpus = 2_000);
            jobs(case, vec![of(5, "/a").controller()])
        },
        blockers: &[
            "its pool's limit is reached: cpus needs 3, has at most 1 (/a)",
            "is a controller, and controllers have all that its pool allows them: cpus needs 3, has at most 0 (/a)",
        ],
        fix: "set the limit of pool /a to cpus 5, and set the controller_limit of pool /a to cpus 5",
    },
    // Work that is not preemptible.
    Row {
        name: "the reservation, for work that is not preemptible",
        made: || jobs(firm("/a", 3), vec![of(8, "/a").not_preemptible()]),
        blockers: &[
            "is not preemptible; such work has all of its pool's reservation: cpus needs 5, has at most 0 (/a)",
        ],
        fix: "set the reservation of pool /a to cpus 8",
    },
    Row {
        name: "a reservation that other work has used up that is not preemptible",
        made: || {
            jobs(
                firm("/a", 5),
                vec![of(5, "/a").not_preemptible(), of(2, "/a").not_preemptible()],
            )
        },
        blockers: &[
            "is not preemptible; such work has all of its pool's reservation: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "set the reservation of pool /a to cpus 7",
    },
    Row {
        name: "the reservations of its pool and of the one above",
        made: || {
            let mut case = with_pools(&["/p", "/p/x"]);
            for path in ["/p", "/p/x"] {
                case.change_pool(path, |p| p.reservation.cpus = 2_000);
                case = case.memory(path, 1_000_000);
            }
            jobs(case, vec![of(6, "/p/x").not_preemptible()])
        },
        blockers: &[
            "is not preemptible; such work has all of its pool's reservation: cpus needs 4, has at most 0 (/p/x)",
            "is not preemptible; such work has all of its pool's reservation: cpus needs 4, has at most 0 (/p)",
        ],
        fix: "set the reservation of pool /p to cpus 6, and set the reservation of pool /p/x to cpus 6",
    },
    Row {
        name: "no reservation at all",
        made: || jobs(with_pools(&["/a"]), vec![of(2, "/a").not_preemptible()]),
        blockers: &[
            "is not preemptible; such work has all of its pool's reservation: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "set the reservation of pool /a to cpus 2, memory 128MiB",
    },
    Row {
        name: "the reservation and the limit",
        made: || {
            let case = bounded(limited(&[("/a", 4)]), "/a", |p| p.reservation.cpus = 3_000);
            jobs(case.memory("/a", 1_000_000), vec![of(8, "/a").not_preemptible()])
        },
        blockers: &[
            "its pool's limit is reached: cpus needs 5, has at most 1 (/a)",
            "is not preemptible; such work has all of its pool's reservation: cpus needs 5, has at most 0 (/a)",
        ],
        fix: "set the limit of pool /a to cpus 8, and set the reservation of pool /a to cpus 8",
    },
    // Revocable work.
    Row {
        name: "the revocable limit",
        made: || {
            let case = bounded(lending(&["/a"], 12), "/a", |p| p.revocable_limit.cpus = 3_000);
            jobs(case, vec![of(8, "/a").revocable()])
        },
        blockers: &[
            "is revocable; such work has all that its pool may have of lent room: cpus needs 5, has at most 0 (/a)",
        ],
        fix: "set the revocable_limit of pool /a to cpus 8",
    },
    Row {
        name: "the revocable limit of a pool above",
        made: || {
            let case = bounded(lending(&["/p", "/p/x"], 12), "/p", |p| {
                p.revocable_limit.cpus = 3_000
            });
            jobs(case, vec![of(8, "/p/x").revocable()])
        },
        blockers: &[
            "is revocable; such work has all that its pool may have of lent room: cpus needs 5, has at most 0 (/p)",
        ],
        fix: "set the revocable_limit of pool /p to cpus 8",
    },
    Row {
        name: "revocable capacity",
        made: || jobs(lending(&["/a"], 4), vec![of(6, "/a").revocable()]),
        blockers: &["no cluster has room for it: cpus needs 2, has at most 0 (a)"],
        fix: "add revocable capacity on hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each",
    },
    // Clusters.
    Row {
        name: "a full cluster",
        made: || jobs(with_pools(&["/a"]), vec![of(30, "/a")]),
        blockers: &["no cluster has room for it: cpus needs 6, has at most 0 (a)"],
        fix: "add hosts to cluster a: cpus 6, memory 384MiB together, for 6 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "two full clusters",
        made: || jobs(with_clusters(&["/a"], &[("a", 6), ("b", 4)]), vec![of(14, "/a")]),
        blockers: &[
            "no cluster has room for it: cpus needs 4, has at most 0 (a)",
            "no cluster has room for it: cpus needs 4, has at most 0 (b)",
        ],
        fix: "add hosts to cluster a: cpus 4, memory 256MiB together, for 4 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a cluster that an older job has filled",
        made: || jobs(with_pools(&["/a"]), vec![of(24, "/a"), of(3, "/a")]),
        blockers: &["no cluster has room for it: cpus needs 3, has at most 0 (a)"],
        fix: "add hosts to cluster a: cpus 3, memory 192MiB together, for 3 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a full cluster for which an older job waits, too",
        made: || jobs(with_pools(&["/a"]), vec![of(26, "/a"), of(3, "/a")]),
        blockers: &["no cluster has room for it: cpus needs 3, has at most 0 (a)"],
        fix: "add hosts to cluster a: cpus 5, memory 320MiB together, for 5 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a cluster full of work that is not preemptible",
        made: || {
            let mut case = with_pools(&["/a", "/b"]);
            case.change_pool("/b", |p| p.reservation.cpus = 24_000);
            let case = case.memory("/b", 1_000_000);
            jobs(case, vec![of(24, "/b").not_preemptible(), of(2, "/a")])
        },
        blockers: &[
            "no cluster has room for it: cpus needs 2, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "add hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a cordoned cluster",
        made: || {
            wished(
                with_pools(&["/a"]),
                vec![of(4, "/a")],
                &[("a", DesiredState::Cordoned)],
            )
        },
        blockers: &["the cluster takes no new work (a: cordoned)"],
        fix: "set cluster a active",
    },
    Row {
        name: "a draining cluster",
        made: || {
            wished(
                with_pools(&["/a"]),
                vec![of(4, "/a")],
                &[("a", DesiredState::Draining)],
            )
        },
        blockers: &["the cluster takes no new work (a: draining)"],
        fix: "set cluster a active",
    },
    Row {
        name: "a full cluster and a cordoned one",
        made: || {
            let case = with_clusters(&["/a"], &[("a", 4), ("b", 8)]);
            wished(case, vec![of(7, "/a")], &[("b", DesiredState::Cordoned)])
        },
        blockers: &[
            "no cluster has room for it: cpus needs 3, has at most 0 (a)",
            "the cluster takes no new work (b: cordoned)",
        ],
        fix: "set cluster b active",
    },
    Row {
        name: "two clusters that take no new work",
        made: || {
            let case = with_clusters(&["/a"], &[("a", 4), ("b", 8)]);
            wished(
                case,
                vec![of(7, "/a")],
                &[("a", DesiredState::Draining), ("b", DesiredState::Cordoned)],
            )
        },
        blockers: &[
            "the cluster takes no new work (a: draining)",
            "the cluster takes no new work (b: cordoned)",
        ],
        fix: "set cluster b active",
    },
    Row {
        name: "a cordoned cluster, and a limit",
        made: || {
            wished(
                limited(&[("/a", 2)]),
                vec![of(4, "/a")],
                &[("a", DesiredState::Cordoned)],
            )
        },
        blockers: &[
            "its pool's limit is reached: cpus needs 4, has at most 2 (/a)",
            "the cluster takes no new work (a: cordoned)",
        ],
        fix: "set the limit of pool /a to cpus 4, and set cluster a active",
    },
    Row {
        name: "a cluster that is not connected, beside a full one",
        made: || {
            let mut case = with_clusters(&["/a"], &[("a", 4), ("b", 8)]);
            case.elect();
            // It has no leader any more.
            case.shard("b").cores = 0;
            case.cut("b");
            case.run_for(Span::minutes(2));
            let job = case.job(1, of(7, "/a"));
            case.run_for(Span::seconds(12));
            (case, job)
        },
        blockers: &[
            "no cluster has room for it: cpus needs 3, has at most 0 (a)",
            "the cluster cannot start work now (b: cut-off, neither its shard's stream nor its heartbeats are read)",
        ],
        fix: "add hosts to cluster a: cpus 3, memory 192MiB together, for 3 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "clusters.only names a full cluster",
        made: || {
            let case = with_clusters(&["/a"], &[("a", 4), ("b", 8)]);
            jobs(case, vec![of(7, "/a").only(&["a"])])
        },
        blockers: &["no cluster has room for it: cpus needs 3, has at most 0 (a)"],
        fix: "let the job use cluster b (`clusters.only`)",
    },
    Row {
        name: "clusters.only names no cluster that exists",
        made: || jobs(with_pools(&["/a"]), vec![of(3, "/a").only(&["nowhere"])]),
        blockers: &["no cluster passes its filters (a: the job names other clusters)"],
        fix: "let the job use cluster a (`clusters.only`)",
    },
    Row {
        name: "clusters.only names a cordoned cluster",
        made: || {
            let case = with_clusters(&["/a"], &[("a", 4), ("b", 8)]);
            wished(
                case,
                vec![of(3, "/a").only(&["a"])],
                &[("a", DesiredState::Cordoned)],
            )
        },
        blockers: &["the cluster takes no new work (a: cordoned)"],
        fix: "set cluster a active",
    },
    Row {
        name: "a full cluster, and a limit",
        made: || jobs(limited(&[("/a", 26)]), vec![of(30, "/a")]),
        blockers: &[
            "its pool's limit is reached: cpus needs 6, has at most 2 (/a)",
            "no cluster has room for it: cpus needs 6, has at most 0 (a)",
        ],
        fix: "set the limit of pool /a to cpus 30, and add hosts to cluster a: cpus 6, memory 384MiB together, for 6 more instances, at least cpus 1, memory 64MiB each",
    },
    // Hosts.
    Row {
        name: "an instance larger than every host",
        made: || jobs(with_pools(&["/a"]), vec![large(6, 1)]),
        blockers: &["no cluster has room for it: cpus needs 6, has at most 4 (a: no host is large enough)"],
        fix: "add hosts to cluster a: cpus 6, memory 64MiB together, for 1 more instances, at least cpus 6, memory 64MiB each",
    },
    Row {
        name: "an instance with more memory than every host",
        made: || jobs(with_pools(&["/a"]), vec![of(1, "/a").shape(shape(1, 50_000))]),
        blockers: &[
            "no cluster has room for it: memory needs 50000MiB, has at most 40000MiB (a: no host is large enough)",
        ],
        fix: "ask for memory 40000MiB or less an instance of group main",
    },
    Row {
        name: "an instance larger than every host, and a limit",
        made: || jobs(limited(&[("/a", 4)]), vec![large(6, 1)]),
        blockers: &[
            "its pool's limit is reached: cpus needs 6, has at most 4 (/a)",
            "no cluster has room for it: cpus needs 6, has at most 4 (a: no host is large enough)",
        ],
        fix: "ask for cpus 4 or less an instance of group main",
    },
    Row {
        name: "too few hosts that satisfy a constraint",
        made: || later(jobs(constrained(2), vec![zoned(5)])),
        blockers: &["no cluster has room for it (a: its hosts hold 0 more)"],
        fix: "add hosts to cluster a: cpus 3, memory 192MiB together, for 3 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "no host that satisfies a constraint",
        made: || later(jobs(constrained(0), vec![zoned(2)])),
        blockers: &[
            "hosts do not meet a constraint (a: no host satisfies all that it asks for, even when empty)",
        ],
        fix: "add hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a host pool that is full",
        made: || {
            let case = host_pools(with_pools(&["/a"]), &[("default", 20), ("fast", 4)]);
            jobs(case, vec![on_host_pool(of(6, "/a"), "fast")])
        },
        blockers: &["no cluster has room for it: cpus needs 2, has at most 0 (a)"],
        fix: "add hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each, in host pool fast",
    },
    Row {
        name: "a host pool without hosts",
        made: || {
            let case = host_pools(with_pools(&["/a"]), &[("default", 20), ("fast", 4)]);
            jobs(case, vec![on_host_pool(of(2, "/a"), "slow")])
        },
        blockers: &[
            "hosts are in other host pools than the one that it may use (host_pool) (a: no host is in its host pool)",
        ],
        fix: "add hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each, in host pool slow",
    },
    // Gangs.
    Row {
        name: "a gang, and a limit",
        made: || jobs(limited(&[("/a", 4)]), vec![of(6, "/a").gang()]),
        blockers: &["its pool's limit is reached: cpus needs 6, has at most 4 (/a)"],
        fix: "set the limit of pool /a to cpus 6",
    },
    Row {
        name: "a gang, and a cluster with too little left",
        made: || jobs(with_pools(&["/a"]), vec![of(20, "/a"), of(6, "/a").gang()]),
        blockers: &["no cluster has room for it: cpus needs 6, has at most 4 (a)"],
        fix: "add hosts to cluster a: cpus 2, memory 128MiB together, for 2 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a gang larger than the cluster",
        made: || jobs(with_pools(&["/a"]), vec![of(30, "/a").gang()]),
        blockers: &["no cluster has room for it: cpus needs 30, has at most 24 (a)"],
        fix: "add hosts to cluster a: cpus 6, memory 384MiB together, for 6 more instances, at least cpus 1, memory 64MiB each",
    },
    // Pools.
    Row {
        name: "a pool that does not exist",
        made: || jobs(with_pools(&["/a"]), vec![of(3, "/gone")]),
        blockers: &["its pool does not exist; create the pool or delete the job (/gone)"],
        fix: "create pool /gone",
    },
    Row {
        name: "a pool below one that does not exist",
        made: || jobs(with_pools(&["/a"]), vec![of(3, "/gone/x")]),
        blockers: &["its pool does not exist; create the pool or delete the job (/gone/x)"],
        fix: "create pool /gone/x",
    },
    // Entitlement.
    Row {
        name: "a static pool next door that uses nothing",
        made: || {
            let case = static_pool(with_pools(&["/a", "/static"]), "/static", 10);
            jobs(case, vec![of(20, "/a")])
        },
        blockers: &["its pool uses all that it is entitled to: cpus needs 6, has at most 0 (/a)"],
        fix: "set the reservation of pool /static to cpus 4",
    },
    Row {
        name: "a static pool next door that uses some of its reservation",
        made: || {
            let case = static_pool(with_pools(&["/a", "/static"]), "/static", 10);
            jobs(case, vec![of(3, "/static"), of(17, "/a")])
        },
        blockers: &["its pool uses all that it is entitled to: cpus needs 3, has at most 0 (/a)"],
        fix: "set the reservation of pool /static to cpus 7",
    },
    Row {
        name: "a neighbour of equal share",
        made: || jobs(with_pools(&["/a", "/b"]), vec![of(24, "/b"), of(16, "/a")]),
        blockers: &[
            "no cluster has room for it: cpus needs 4, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 4, has at most 0 (/a)",
        ],
        fix: "set the share of pool /a to cpus 2; then preemption stops work of other pools",
    },
    Row {
        name: "two neighbours of equal share",
        made: || {
            jobs(
                with_pools(&["/a", "/b", "/c"]),
                vec![of(24, "/b"), of(24, "/c"), of(10, "/a")],
            )
        },
        blockers: &[
            "no cluster has room for it: cpus needs 2, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "set the share of pool /a to cpus 2; then preemption stops work of other pools",
    },
    Row {
        name: "a neighbour with a reservation that it uses",
        made: || {
            let case = bounded(with_pools(&["/a", "/b"]), "/b", |p| p.reservation.cpus = 18_000);
            jobs(case, vec![of(18, "/b"), of(10, "/a")])
        },
        blockers: &[
            "no cluster has room for it: cpus needs 4, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 4, has at most 0 (/a)",
        ],
        fix: "add hosts to cluster a: cpus 4, memory 256MiB together, for 4 more instances, at least cpus 1, memory 64MiB each",
    },
    Row {
        name: "a neighbour of the pool above",
        made: || {
            jobs(
                with_pools(&["/p", "/p/x", "/q"]),
                vec![of(24, "/q"), of(16, "/p/x")],
            )
        },
        blockers: &[
            "no cluster has room for it: cpus needs 4, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 4, has at most 0 (/p)",
        ],
        fix: "set the share of pool /p to cpus 2; then preemption stops work of other pools",
    },
    Row {
        name: "a neighbour of equal share, for a service",
        made: || {
            jobs(
                with_pools(&["/a", "/b"]),
                vec![of(24, "/b"), service(14).pool("/a")],
            )
        },
        blockers: &[
            "no cluster has room for it: cpus needs 2, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 2, has at most 0 (/a)",
        ],
        fix: "set the share of pool /a to cpus 2; then preemption stops work of other pools",
    },
    Row {
        name: "a neighbour of equal share, and a limit",
        made: || {
            let mut case = with_pools(&["/b"]);
            case.set_pool("/a", 12);
            jobs(case, vec![of(24, "/b"), of(16, "/a")])
        },
        blockers: &[
            "its pool's limit is reached: cpus needs 4, has at most 0 (/a)",
            "no cluster has room for it: cpus needs 4, has at most 0 (a)",
            "its pool uses all that it is entitled to: cpus needs 4, has at most 0 (/a)",
        ],
        fix: "set the limit of pool /a to cpus 16, and set the share of pool /a to cpus 2; then preemption stops work of other pools",
    },
];

fn wanted(case: &Case, job: JobId) -> usize {
    usize::try_from(case.head(job).unwrap().instances).unwrap()
}

/// What is wrong with a row; empty when all is as it says.
fn check(row: &Row) -> Vec<String> {
    let (mut case, job) = (row.made)();
    let told = explained(&case, job);
    let blockers: Vec<String> = told.blockers.iter().map(|b| b.reason.to_string()).collect();
    let fixes = fixes(&told);
    let fix = fixes.first().map(ToString::to_string).unwrap_or_default();
    let mut wrong = Vec::new();
    if blockers != row.blockers {
        wrong.push(format!("blockers: {blockers:#?}"));
    }
    if fix != row.fix {
        wrong.push(format!("fix: {fix:?}\n  {:?}", told.outcome));
    }
    let all = fixes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let holders: Vec<String> = told
        .holders
        .iter()
        .map(|h| format!("{} {} ({})", h.pool, h.used, h.unused_reservation))
        .collect();
    if !wrong.is_empty() {
        wrong.push(format!(
            "all: {all:#?} holders {holders:?} place {:?} trials {} waiting {}",
            told.place, told.trials, told.waiting
        ));
    }
    let Some(first) = fixes.first() else {
        if !matches!(told.outcome, FixOutcome::NoneFound) {
            wrong.push(format!("{:?}", told.outcome));
        }
        return wrong;
    };
    if !first.is_least {
        wrong.push("it may be too large".to_owned());
    }
    let changes: Vec<FixChange> = first.changes.clone();
    let before = (row.made)().0;
    make(&mut case, job, &changes);
    let (active, wanted) = (case.total_active(job), wanted(&case, job));
    if active != wanted {
        wrong.push(format!(
            "after the fix {active} of {wanted} run: {:?}",
            case.waiting(job)
        ));
    }
    for less in one_less(&changes, &before) {
        let (mut case, job) = (row.made)();
        make(&mut case, job, &less);
        let active = case.total_active(job);
        if active == wanted {
            wrong.push(format!("all run with less: {less:?}"));
        }
    }
    wrong
}

#[test]
fn sixty_blockers_are_named_and_their_least_fixes_admit_everything() {
    assert!(ROWS.len() >= 60, "{}", ROWS.len());
    let mut wrong = String::new();
    for row in ROWS {
        let found = check(row);
        if !found.is_empty() {
            wrong += &format!("=== {}\n{}\n", row.name, found.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
