//! What a run has written is there after its cluster is gone, and says where it comes from and what is missing.

use super::updates::get;
use super::{Standalone, plain};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// 100,000 bytes and one line; the ends of both outputs.
const TALKER: &str = "name: talker\npool: /default\nkind: batch\ninstances: 1\nretry: {limit: 1}\n\
resources: {cpus: 0.1, memory: 32MiB}\n\
command: head -c 100000 /dev/zero | tr '\\0' x; echo END; echo oops >&2; exit 3\n";

/// A simulated cluster as a process of its own.
struct Cluster {
    child: Child,
    master: String,
}

impl Cluster {
    fn start(folder: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = plain()
            .args(["mesos-sim", "--cluster", "east", "--agents", "1"])
            .args(["--port", &port.to_string(), "--work-dir"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let master = format!("127.0.0.1:{port}");
        wait("the cluster to listen", || TcpStream::connect(&master).is_ok());
        Self { child, master }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What a command prints, and what it says beside that.
fn both(standalone: &Standalone, args: &[&str]) -> (Vec<u8>, String) {
    let output = standalone.echelon(args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    (output.stdout, said)
}

#[test]
fn logs_answer_after_the_loss_of_the_cluster_and_say_what_is_missing() {
    let (folder, sandboxes) = (super::work(), super::work());
    let mut cluster = Cluster::start(sandboxes.path());
    let clusters = format!("east={}", cluster.master);
    let standalone = Standalone::start_with(folder.path(), &["--clusters", &clusters]);
    let job = folder.path().join("talker.yaml");
    fs::write(&job, TALKER).unwrap();
    standalone.echelon(&["job", "run", &job.display().to_string(), "--wait"]);

    let (whole, said) = both(&standalone, &["job", "logs", "talker"]);
    assert_eq!((whole.len(), said.as_str()), (100_004, ""), "from its host");
    let address = standalone.address.trim_start_matches("http://").to_owned();
    wait("the log to be kept", || {
        let metrics = get(&address, "/metrics").unwrap_or_default();
        let mut kept = metrics
            .lines()
            .filter(|l| l.starts_with("echelon_shard_logs_kept_total"));
        kept.any(|line| line.ends_with(" 1"))
    });
    cluster.kill();

    let (kept, said) = both(&standalone, &["job", "logs", "talker"]);
    assert_eq!(kept, whole[100_004 - 65_536..]);
    for part in [
        "this was kept when the run ended",
        "of its 100004 bytes the first 34468 were not kept",
        "did not answer",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let (end, said) = both(&standalone, &["job", "logs", "talker", "--tail", "4", "--follow"]);
    assert_eq!(end, b"END\n");
    assert!(said.contains("from byte 100000 of 100004 on"), "{said}");
    let (error, said) = both(&standalone, &["job", "logs", "talker", "--stderr", "--run", "1"]);
    assert_eq!(error, b"oops\n");
    assert!(said.contains("all of it was kept"), "{said}");

    let other = standalone.echelon(&["job", "logs", "talker", "--run", "9"]);
    let said = String::from_utf8_lossy(&other.stderr);
    assert!(
        !other.status.success() && said.contains("nothing was kept of it"),
        "{said}"
    );
}
