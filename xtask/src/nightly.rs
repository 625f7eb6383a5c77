//! What is too long for each change, in parts of at most 100 minutes on two cores, to be run one by one.

use std::time::SystemTime;

use anyhow::{Result, bail};

use crate::phases::{self, Phases};
use crate::{deny, seed_of_properties, setup, soak};

/// The worlds of the simulation.
const SIMULATION: [&str; 7] = [
    "test",
    "--workspace",
    "--features",
    "echelon-tests/servers",
    "--test",
    "simulation",
    "--no-fail-fast",
];

/// The worlds of many clusters.
const FEDERATION: [&str; 7] = [
    "test",
    "--workspace",
    "--features",
    "echelon-tests/servers",
    "--test",
    "federation",
    "--no-fail-fast",
];

/// Every test.
const TESTS: [&str; 5] = [
    "test",
    "--workspace",
    "--features",
    "echelon-tests/servers",
    "--no-fail-fast",
];

/// A part.
struct Part {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<()>,
}

const PARTS: [Part; 7] = [
    Part {
        name: "seeds",
        what: "1,500 storms of the simulation, as many worlds of two other kinds, other seeds each night",
        run: seeds,
    },
    Part {
        name: "federation",
        what: "2,000 worlds of many clusters, other seeds each night",
        run: federation,
    },
    Part {
        name: "properties",
        what: "every test with many more random cases, others each night; many more offers and cut streams",
        run: properties,
    },
    Part {
        name: "advisories",
        what: "known advisories of outside crates",
        run: advisories,
    },
    Part {
        name: "soak-60",
        what: "60 minutes of all faults, alone and in pairs, three Cassandra nodes, 100 watchers, clocks 5 s apart",
        run: || {
            let night = night()?.to_string();
            soaked(&[
                "--minutes",
                "60",
                "--faults",
                "all",
                "--pairs",
                "20",
                "--clocks-apart",
                "5",
                "--seed",
                &night,
            ])
        },
    },
    Part {
        name: "soak-faults",
        what: "kill -9 of each role ten times, and nothing else",
        run: || {
            let kills = "kill-gateway,kill-manager,kill-shard,kill-master";
            soaked(&["--minutes", "60", "--faults", kills])
        },
    },
    Part {
        name: "standalone",
        what: "30 minutes of kill -9, pauses and ends of the standalone form",
        run: || soaked(&["--minutes", "30", "--faults", "all", "--shape", "standalone"]),
    },
];

/// Runs a part; lists them all when none is named.
///
/// # Errors
/// There is no such part, or it fails.
pub fn run(name: Option<&str>) -> Result<()> {
    let Some(name) = name else {
        for part in &PARTS {
            println!("{:<14}{}", part.name, part.what);
        }
        return Ok(());
    };
    let Some(part) = PARTS.iter().find(|part| part.name == name) else {
        let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        bail!("no part `{name}`; there are: {}", names.join(", "));
    };
    let mut phases = Phases::default();
    phases.all(|phases| {
        phases.run("set-up", setup::all)?;
        phases.run(part.name, part.run)
    })
}

/// Days since 1970: each night has its own.
fn night() -> Result<u64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(now.as_secs() / 86_400)
}

fn seeds() -> Result<()> {
    const COUNT: u64 = 1500;
    // a thousand are played for each change; nights go on from there, and begin again after seven years
    let first = 1001 + night()? % 2500 * COUNT;
    println!("seeds {first} to {}", first + COUNT - 1);
    let (count, first) = (COUNT.to_string(), first.to_string());
    phases::cargo(
        &SIMULATION,
        &[("ECHELON_SEEDS", &count), ("ECHELON_FIRST_SEED", &first)],
    )
}

fn federation() -> Result<()> {
    const COUNT: u64 = 2000;
    // 200 are played for each change; nights go on from there
    let first = 201 + night()? % 2500 * COUNT;
    println!("seeds {first} to {}", first + COUNT - 1);
    let (count, first) = (COUNT.to_string(), first.to_string());
    phases::cargo(
        &FEDERATION,
        &[("ECHELON_SEEDS", &count), ("ECHELON_FIRST_SEED", &first)],
    )
}

fn properties() -> Result<()> {
    let seed = seed_of_properties(&night()?.to_string());
    println!("PROPTEST_RNG_SEED={seed} plays the random cases of this run again");
    let more = [
        ("PROPTEST_RNG_SEED", seed.as_str()),
        ("PROPTEST_CASES", "20000"),
        ("ECHELON_FUZZ_CASES", "1000000"),
        ("ECHELON_OFFERS", "1000000"),
    ];
    phases::cargo(&soak::BUILD, &[])?;
    phases::cargo(&TESTS, &more)
}

fn advisories() -> Result<()> {
    deny(&["check"])
}

fn soaked(options: &[&str]) -> Result<()> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    soak::run(&options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_is_told_with_those_that_there_are() {
        let error = run(Some("moon")).unwrap_err().to_string();
        for part in &PARTS {
            assert!(error.contains(part.name), "{error}");
        }
        run(None).unwrap();
    }
}
