//! Two gateways as processes of their own before real storage, each ended and started again in turn, while commands submit jobs
//! without a pause: no submit fails, and each acknowledged job is there once.
#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use echelon_tests::net::LoopbackNet;
use echelon_tests::process::{self, Process, Role};
use echelon_tests::servers::{Cassandra, ZooKeeper};
use echelon_tests::work::WorkFolder;
use echelon_tests::{http, wait};

/// A machine that compiles beside it.
const PATIENCE: Duration = Duration::from_secs(120);

/// Commands that submit side by side.
const SUBMITTERS: usize = 3;

struct Gateways {
    processes: [Process; 2],
    addresses: [SocketAddr; 2],
    work: WorkFolder,
    _net: LoopbackNet,
}

impl Gateways {
    fn start() -> Result<Self> {
        let (cassandra, zookeeper) = (Cassandra::shared()?, ZooKeeper::shared()?);
        let (work, net) = (WorkFolder::new("gateways")?, LoopbackNet::take()?);
        let name = uuid::Uuid::new_v4().simple().to_string();
        let points = cassandra.contact_points();
        let storage = format!("cassandra://{points}/gateways_{name}?replication=1");
        let membership = format!("zookeeper://{}/gateways-{name}", zookeeper.contact_points());
        let migrated = process::command()?
            .args(["storage", "migrate", "--storage", &storage])
            .output()?;
        ensure!(
            migrated.status.success(),
            "{}",
            String::from_utf8_lossy(&migrated.stderr)
        );
        let addresses: [SocketAddr; 2] = [net.socket(1, 7070).into(), net.socket(2, 7070).into()];
        let [first, second] = addresses;
        let gateway = |name: &str, at: SocketAddr| {
            let listen = at.to_string();
            Role::new(name)
                .args([
                    "gateway",
                    "--storage",
                    &storage,
                    "--membership",
                    &membership,
                    "--drain-s",
                    "1",
                ])
                .args(["--listen", &listen, "--advertise", &listen])
                .ready_at(at)
                .start(&work)
        };
        Ok(Self {
            processes: [gateway("gateway-a", first)?, gateway("gateway-b", second)?],
            addresses,
            work,
            _net: net,
        })
    }

    fn addresses(&self) -> String {
        let [a, b] = self.addresses;
        format!("http://{a},http://{b}")
    }
}

/// What the submitters have done.
#[derive(Default)]
struct Submits {
    over: AtomicBool,
    done: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Submits {
    /// Submits jobs of different names until it is over.
    fn submit(&self, submitter: usize, addresses: &str, folder: &std::path::Path) -> Result<()> {
        let mut n = 0;
        while !self.over.load(Ordering::Relaxed) {
            let file = folder.join(format!("job-{submitter}.yaml"));
            let spec = format!(
                "name: job-{submitter}-{n}\ncommand: 'true'\nresources: {{cpus: 0.1, memory: 32MiB}}\n"
            );
            fs::write(&file, spec)?;
            let ran = process::command()?
                .env("ECHELON_ADDRESS", addresses)
                .args(["job", "run", &file.display().to_string()])
                .output()?;
            if !ran.status.success() {
                let told = String::from_utf8_lossy(&ran.stderr).into_owned();
                let mut failed = self
                    .failed
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                failed.push(format!("job-{submitter}-{n}: {}: {told}", ran.status));
            }
            self.done.fetch_add(1, Ordering::Relaxed);
            n += 1;
        }
        Ok(())
    }

    /// Waits until so many more were submitted.
    fn more(&self, n: usize) -> Result<()> {
        let from = self.done.load(Ordering::Relaxed);
        wait::until("further submits", PATIENCE, || {
            Ok((self.done.load(Ordering::Relaxed) >= from + n).then_some(()))
        })
    }
}

/// Ends each gateway in turn, twice by SIGTERM and once by kill -9, and starts it again.
fn disturb(processes: &mut [Process; 2], addresses: [SocketAddr; 2], submits: &Submits) -> Result<()> {
    for kill in [false, true, false] {
        for (process, address) in processes.iter_mut().zip(addresses) {
            submits.more(10)?;
            if kill {
                process.kill()?;
            } else {
                process.server().begin_end()?;
                // It says that it is not ready, and serves on.
                wait::until("a gateway that is not ready", PATIENCE, || {
                    let (status, _) = http::get(address, "/readyz")?;
                    Ok((status == 503).then_some(()))
                })?;
                let (status, _) = http::get(address, "/v1/jobs")?;
                ensure!(status == 200, "a gateway that ends answered {status}");
                let ended = process.server().wait_for_end(PATIENCE)?;
                ensure!(ended.success(), "a gateway ended with {ended}");
            }
            submits.more(10)?;
            process.start_again()?;
        }
    }
    submits.more(10)
}

#[test]
fn no_submit_fails_while_gateways_are_restarted_in_turn() {
    let mut gateways = Gateways::start().unwrap();
    let addresses = gateways.addresses();
    let folder = gateways.work.folder("jobs").unwrap();
    let submits = Submits::default();
    std::thread::scope(|threads| {
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|n| {
                let (submits, addresses, folder) = (&submits, &addresses, &folder);
                threads.spawn(move || submits.submit(n, addresses, folder))
            })
            .collect();
        let disturbed = disturb(&mut gateways.processes, gateways.addresses, &submits);
        submits.over.store(true, Ordering::Relaxed);
        for submitter in submitters {
            submitter.join().unwrap().unwrap();
        }
        disturbed.unwrap();
    });
    let failed = submits.failed.into_inner().unwrap();
    let done = submits.done.into_inner();
    assert_eq!(failed, Vec::<String>::new(), "of {done} submits");
    let listed = list(&addresses, done + 1).unwrap();
    let names: BTreeSet<&String> = listed.iter().collect();
    assert_eq!((listed.len(), names.len()), (done, done));
    // Fewer rows than there are: what is missing is counted on stderr.
    let shown = process::command()
        .unwrap()
        .args([
            "--address",
            &addresses,
            "job",
            "list",
            "-o",
            "name",
            "--limit",
            "5",
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout).lines().count(), 5);
    let told = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(
        told.contains(&format!("{} of {done} jobs are not shown", done - 5)),
        "{told}"
    );
}

fn list(addresses: &str, limit: usize) -> Result<Vec<String>> {
    let ran = process::command()?
        .args([
            "--address",
            addresses,
            "job",
            "list",
            "-o",
            "name",
            "--limit",
            &limit.to_string(),
        ])
        .output()
        .context("list the jobs")?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8(ran.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}
