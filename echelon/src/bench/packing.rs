//! `echelon bench packing`: how well the engine packs the shape of a published trace (`core/placement/src/packing`), beside heuristics
//! that know all tasks beforehand and one from the literature that does not.

use super::{as_float, print};
use clap::Args;
use echelon_cli::output;
use echelon_core_placement::packing::{
    Compared, World, commonest_host, hosts_used, overloaded, total, until_refused,
};

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Take one of so many hosts of the trace
    #[arg(long, default_value_t = 1)]
    part: u32,
    /// Seeds of arrivals, each a round of its own; the worst of each measure is told in the end
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3])]
    seeds: Vec<u64>,
}

/// The measures by their figures' names.
const MEASURES: [&str; 4] = [
    "gpus_until_refused",
    "gpus_overloaded",
    "hosts_of_gpu_tasks",
    "hosts_of_cpu_tasks",
];

fn compared(part: u32, seed: u64) -> [Compared; 4] {
    let world = World::of_trace(part, seed);
    let hosts = world.hosts.len();
    output::line(format_args!(
        "seed {seed}: {hosts} hosts with {} GPUs, {} arrivals",
        total(&world.hosts).gpus / 1000,
        world.tasks.len()
    ));
    [
        until_refused(&world),
        overloaded(&world),
        hosts_used(&world.on_hosts_alike(commonest_host(true), |t| t.gpus > 0)),
        hosts_used(&world.on_hosts_alike(commonest_host(false), |t| t.gpus == 0)),
    ]
}

pub(super) fn run(flags: &Flags) {
    let mut worst = [i64::MIN; 4];
    for seed in &flags.seeds {
        let rows = compared(flags.part, *seed);
        for ((name, row), worst) in MEASURES.iter().zip(&rows).zip(&mut worst) {
            *worst = (*worst).max(row.worse_by());
            // GPUs are counted in thousandths.
            let unit = if name.starts_with("gpus") { 1000 } else { 1 };
            output::line(format_args!(
                "  {name:<20} engine {:>8}  best offline {:>8}  gradient {:>8}  bound {:>8}  worse by {:>6.2} %  ({})",
                row.engine / unit,
                row.best / unit,
                row.gradient / unit,
                row.bound / unit,
                percent(row.worse_by()),
                row.by
            ));
        }
    }
    let names = MEASURES.map(|name| format!("{name}_worse_percent"));
    let figures: Vec<(&str, f64)> = names
        .iter()
        .zip(worst)
        .map(|(name, worst)| (name.as_str(), percent(worst)))
        .collect();
    print("packing", &figures);
}

fn percent(hundredths: i64) -> f64 {
    let size = as_float(hundredths.unsigned_abs()) / 100.0;
    if hundredths < 0 { -size } else { size }
}
