//! `echelon bench placement`: how many instances find a host in a second, on one core, by the engine and by a scan over all hosts; what a
//! gang and a change of one host cost.

mod measure;
mod world;

use super::print;
use anyhow::Result;
use clap::Args;
use echelon_cli::output;
use echelon_core_placement::Wanted;
use measure::{gangs, host_update, pace, scan};
use std::sync::Arc;
use world::{Fill, batch, constrained, hosts, service};

/// Flags.
#[derive(Debug, Args)]
pub struct Flags {
    /// Hosts, in each round one of these
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 50_000])]
    hosts: Vec<u32>,
    /// Instances that are placed in each round
    #[arg(long, default_value_t = 40_000)]
    instances: u32,
}

/// Of each kind of work, placements a second.
struct Row {
    batch: f64,
    constrained: f64,
    service: f64,
    scan: f64,
}

fn row(n: u32, fill: Fill, instances: u32) -> Row {
    let by_engine = |wanted: Wanted| pace(hosts(n, fill), wanted).per_second();
    // A tenth of the hosts may have no instance of the service, which has one a host at most.
    let services = instances.min(n * 3 / 5);
    Row {
        batch: by_engine(batch(instances)),
        constrained: by_engine(constrained(instances)),
        service: by_engine(service(services)),
        scan: scan(&hosts(n, fill), &batch(instances)).per_second(),
    }
}

pub(super) fn run(flags: &Flags) -> Result<()> {
    output::line("placements a second, one core");
    output::line(format_args!(
        "{:>8} {:<12} {:>12} {:>12} {:>12} {:>12}",
        "hosts", "", "batch", "constrained", "service", "scan"
    ));
    let mut last = None;
    for n in &flags.hosts {
        for fill in Fill::ALL {
            let row = row(*n, fill, flags.instances);
            output::line(format_args!(
                "{n:>8} {:<12} {:>12.0} {:>12.0} {:>12.0} {:>12.0}",
                fill.word(),
                row.batch,
                row.constrained,
                row.service,
                row.scan
            ));
            if fill == Fill::Half {
                last = Some((*n, row));
            }
        }
    }
    let Some((n, row)) = last else { return Ok(()) };
    let mut kept = hosts(n, Fill::Half);
    let update = host_update(&mut kept, 100_000);
    let gang = gangs(&Arc::new(kept));
    let thousands = n / 1_000;
    print(
        "placement",
        &[
            (&format!("batch_{thousands}k_per_s"), row.batch),
            (&format!("service_{thousands}k_per_s"), row.service),
            (&format!("scan_{thousands}k_per_s"), row.scan),
            ("gang_1000_ms", gang.as_secs_f64() * 1e3),
            ("host_update_us", update.as_secs_f64() * 1e6),
        ],
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_work_find_hosts_in_a_small_cluster() {
        for wanted in [batch(500), constrained(500), service(60)] {
            let n = u32::try_from(wanted.items.len()).unwrap();
            assert_eq!(pace(hosts(100, Fill::Half), wanted).placed, n);
        }
        assert_eq!(scan(&hosts(100, Fill::Half), &batch(500)).placed, 500);
    }
}
