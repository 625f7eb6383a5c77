//! Templates with their schedules, and drivers with their tokens, as processes.

use super::{BINARY, Standalone, example, plain};
use std::time::{Duration, Instant};

/// Waits until a command prints what is wanted.
fn until(standalone: &Standalone, args: &[&str], wanted: &str) -> String {
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let said = String::from_utf8(standalone.echelon(args).stdout).unwrap();
        if said.contains(wanted) {
            return said;
        }
        assert!(Instant::now() < deadline, "no `{wanted}` in `{said}`");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_template_makes_jobs_by_command_and_at_its_times() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    let plan = standalone.printed(&["job", "plan", &example("nightly")]);
    assert_eq!(plan.matches("03:00 +0").count(), 5, "{plan}");
    standalone.printed(&["job", "run", &example("nightly")]);
    let template = until(&standalone, &["job", "get", "report"], "next at ");
    assert!(
        template.contains("schedule:  0 3 * * * Europe/Berlin"),
        "{template}"
    );
    assert!(
        template.contains("Europe/Berlin, overlap skip, catch_up one"),
        "{template}"
    );

    let made = standalone.printed(&["job", "trigger", "report", "--wait"]);
    assert!(made.contains("made of:"), "{made}");
    let listed = standalone.printed(&["job", "list", "--name-prefix", "report-now-"]);
    assert!(listed.contains("succeeded"), "{listed}");
    let paused = standalone.printed(&["schedule", "pause", "report"]);
    assert!(paused.contains("; paused"), "{paused}");
    until(&standalone, &["job", "explain", "report"], "paused by command");

    let text = std::fs::read_to_string(example("nightly")).unwrap();
    let text = text
        .replace("0 3 * * *", "* * * * *")
        .replace("name: report", "name: minutely");
    let file = folder.path().join("minutely.yaml");
    std::fs::write(&file, text).unwrap();
    standalone.printed(&["job", "run", file.to_str().unwrap()]);
    let listed = until(
        &standalone,
        &["job", "list", "--name-prefix", "minutely-"],
        "succeeded",
    );
    assert!(listed.contains("z "), "{listed}");
    let stopped = standalone.printed(&["job", "stop", "minutely", "--wait"]);
    assert!(stopped.contains("stopped"), "{stopped}");
}

#[test]
fn a_driver_scales_its_own_job_ends_an_instance_and_ends_the_job() {
    let folder = super::work();
    let standalone = Standalone::start(folder.path());
    standalone.printed(&["job", "run", &example("service")]);
    standalone.running("ticker", 2);
    let elsewhere =
        format!("set -e\n      echelon job scale ticker 1 || true\n      {BINARY} pool list || true");
    let text = std::fs::read_to_string(example("driver")).unwrap();
    let text = text
        .replace("set -e", &elsewhere)
        .replace("echelon job", &format!("{BINARY} job"));
    let file = folder.path().join("driver.yaml");
    std::fs::write(&file, text).unwrap();
    let run = standalone.printed(&["job", "run", file.to_str().unwrap(), "--wait"]);
    let get = standalone.printed(&["job", "get", "workflow"]);
    let log = standalone.printed(&["job", "logs", "workflow", "0", "--group", "driver"]);
    assert!(get.contains("succeeded"), "{run}\n{get}\n{log}");
    assert!(get.contains("the group that drives the job has ended"), "{get}");
    assert!(log.contains("the work is done"), "{log}");
    let workers = standalone.instances("workflow");
    let numbers: Vec<u64> = workers
        .iter()
        .filter(|i| i["group"] == "worker")
        .map(|i| i["number"].as_u64().unwrap())
        .collect();
    assert_eq!(
        numbers,
        [0],
        "1 was ended, and 2 is the highest of the two that were left"
    );

    let errors = standalone.printed(&["job", "logs", "workflow", "0", "--group", "driver", "--stderr"]);
    assert!(errors.contains("and not for job `ticker`"), "{errors}");
    assert!(errors.contains("and not for PoolService/ListPools"), "{errors}");
    assert_eq!(standalone.running("ticker", 2).len(), 2);
    let shown = standalone.printed(&["job", "get", "workflow", "-o", "json"]);
    assert!(!shown.contains("ech1."), "the token is nowhere to be read");
    let forged = plain()
        .args(["job", "get", "workflow", "--token", "ech1.x.y"])
        .env("ECHELON_ADDRESS", &standalone.address)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&forged.stderr);
    assert!(!forged.status.success() && said.contains("no token"), "{said}");
    standalone.printed(&["job", "stop", "ticker", "--wait"]);
}
