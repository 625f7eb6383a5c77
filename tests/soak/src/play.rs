//! The play: services and load, one fault after another with a fresh job after each, and in the end a look at everything.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use echelon_tests::http;
use echelon_tests::wait;
use echelon_tests_judge::{Event, Kind};
use serde_json::{Value, json};

use crate::client::{Client, Job, list_of};
use crate::clock::monotonic;
use crate::fault::Fault;
use crate::load::Load;
use crate::recorder::Recorder;
use crate::sampler::Sampler;
use crate::watchers::Watchers;
use crate::world::World;

/// Services that run from the beginning to the end, and the instances of each.
pub(crate) const SERVICES: u32 = 4;
const SERVICE_INSTANCES: u32 = 5;

/// How long a fresh job is waited for after the end of its fault.
const PROBE_WITHIN: Duration = Duration::from_secs(180);

/// How long all services are waited for after a fault before the next one; what is missing in the end is judged then.
const CALM_WITHIN: Duration = Duration::from_secs(90);

/// How long acknowledged work may take to be done when nothing more is disturbed.
const DONE_WITHIN: Duration = Duration::from_secs(240);

/// How long storage is read in vain: longer than Cassandra takes to serve again after a fault.
const READ_WITHIN: Duration = Duration::from_secs(120);

/// How long watchers get to see the end of the last job.
const WATCHED_WITHIN: Duration = Duration::from_secs(30);

/// How often the two faults of a pair are drawn until they go together.
const DRAWS: u32 = 1000;

/// What is played.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each round's faults, which begin together. Played in order, again and again while there is time, each at least once.
    pub rounds: Vec<Vec<Fault>>,
    /// How long faults are played.
    pub lasts: Duration,
    /// New instances a second.
    pub load: u32,
    /// Watchers of jobs.
    pub watchers: u32,
    /// Cassandra nodes.
    pub n_cassandra: u8,
}

/// A play under way.
struct Play<'a> {
    world: &'a mut dyn World,
    client: Arc<Client>,
    recorder: Arc<Recorder>,
    sampler: Sampler,
    services: Vec<String>,
    n_faults: u32,
    n_cassandra: u8,
}

/// Plays a plan. `marks` is the program that tasks run and `folder` where they write.
///
/// # Errors
/// Something of the play itself failed, or a process ended by itself.
pub fn play(
    world: &mut dyn World,
    plan: &Plan,
    recorder: &Arc<Recorder>,
    marks: (&Path, &Path),
) -> Result<()> {
    let (program, folder) = marks;
    let client = Arc::new(Client::new(world.gateways(), recorder.clone(), program, folder));
    let sampler = Sampler::start(folder, world.agent_logs(), recorder);
    let mut play = Play {
        world,
        client: client.clone(),
        recorder: recorder.clone(),
        sampler,
        services: Vec::new(),
        n_faults: 0,
        n_cassandra: plan.n_cassandra,
    };
    play.start_services()?;
    let load = Load::start(&client, plan.load);
    let watchers = Watchers::start(plan.watchers, &client, recorder, &load.latest());
    let (from, mut n_rounds) = (Instant::now(), 0);
    for round in plan.rounds.iter().cycle() {
        let is_over = from.elapsed() >= plan.lasts;
        if is_over && n_rounds >= plan.rounds.len() {
            break;
        }
        play.round(round)?;
        n_rounds += 1;
    }
    let submitted = load.finish()?;
    play.end(&submitted, watchers)
}

impl Play<'_> {
    fn start_services(&mut self) -> Result<()> {
        for number in 0..SERVICES {
            let job = Job {
                name: format!("service-{number}"),
                kind: Kind::Service,
                instances: SERVICE_INSTANCES,
                seconds: String::new(),
                cluster: None,
            };
            let acknowledged = self.client.submit(&job, PROBE_WITHIN)?;
            acknowledged.with_context(|| format!("{} was not taken, before any fault", job.name))?;
            self.services.push(job.name);
        }
        if !self.calm()? {
            bail!("the services did not run, before any fault");
        }
        Ok(())
    }

    /// Whether all services run with all their instances, within the time for that.
    fn calm(&self) -> Result<bool> {
        let wanted = usize::try_from(SERVICE_INSTANCES)?;
        let runs = |job: &String| self.sampler.n_alive(job) == wanted;
        let waited = wait::until("all services", CALM_WITHIN, || {
            Ok(self.services.iter().all(runs).then_some(()))
        });
        Ok(waited.is_ok())
    }

    /// Faults that begin together, a fresh job for each, and their ends.
    fn round(&mut self, faults: &[Fault]) -> Result<()> {
        let mut under_way = Vec::new();
        if let Some((fault, why)) = faults.iter().find_map(|f| Some((f, self.world.cannot(*f)?))) {
            println!("             SKIPPED: {}: {fault}: {why}", name_of(faults));
            let name = name_of(faults);
            self.recorder.tell(Event::Skipped { name, why })?;
            return Ok(());
        }
        for fault in faults {
            let number = self.n_faults;
            self.n_faults += 1;
            let target = self.world.target(*fault)?;
            let began = self.recorder.tell(Event::FaultBegan {
                fault: number,
                name: name_of(faults),
                subject: target.names.join(","),
                blocks: faults.iter().any(|fault| fault.blocks(self.n_cassandra)),
            })?;
            self.world
                .begin(*fault, &target)
                .with_context(|| format!("begin {fault} of {target:?}"))?;
            let job = Job {
                name: format!("probe-{number}"),
                kind: Kind::Batch,
                instances: fault.n_fresh(),
                seconds: "1".to_owned(),
                cluster: target.cluster.clone(),
            };
            let client = self.client.clone();
            let probe = {
                let job = job.clone();
                thread::spawn(move || client.submit(&job, PROBE_WITHIN))
            };
            println!("{:>8} ms  {fault} of {}", began, target.names.join(", "));
            under_way.push((
                number,
                *fault,
                target,
                job.name,
                probe,
                Instant::now() + fault.lasts(),
            ));
        }
        under_way.sort_by_key(|(.., ends)| *ends);
        let mut probes = Vec::new();
        for (number, fault, target, job, probe, ends) in under_way {
            thread::sleep(ends.saturating_duration_since(Instant::now()));
            self.world
                .end(fault, &target)
                .with_context(|| format!("end {fault} of {target:?}"))?;
            self.recorder.tell(Event::FaultEnded { fault: number })?;
            probes.push((number, job, probe));
        }
        for (number, job, probe) in probes {
            let acknowledged = probe.join().map_err(|_| anyhow::anyhow!("a probe panicked"))??;
            let began = wait::until(&job, PROBE_WITHIN, || Ok(self.sampler.first_began(&job))).ok();
            self.recorder.tell(Event::Probed {
                fault: number,
                acknowledged,
                began,
            })?;
            println!("             {job} acknowledged at {acknowledged:?}, running at {began:?}");
        }
        if !self.calm()? {
            println!("             not all services run yet; going on");
        }
        self.look_at_storage()?;
        self.world.check()
    }

    /// Reads what is stored, past the product.
    fn look_at_storage(&self) -> Result<()> {
        let Some(stored) = self.world.storage() else {
            return Ok(());
        };
        let mut last = None;
        let read = wait::until("a read of storage", READ_WITHIN, || {
            let asked_at = monotonic()?;
            match stored.heads() {
                Ok(heads) => Ok(Some((asked_at, heads))),
                Err(error) => {
                    last = Some(error);
                    Ok(None)
                }
            }
        });
        let (asked_at, heads) = match (read, last) {
            (Ok(read), _) => read,
            (Err(waited), Some(error)) => return Err(error.context(waited.to_string())),
            (Err(waited), None) => return Err(waited),
        };
        self.recorder.tell(Event::StoredJobs {
            asked_at,
            jobs: heads.jobs,
            unreadable: heads.unreadable,
        })?;
        Ok(())
    }

    /// Waits for what is wanted, and looks at everything.
    fn end(mut self, submitted: &[String], watchers: Watchers) -> Result<()> {
        self.recorder.tell(Event::Settled)?;
        let wanted = usize::try_from(SERVICE_INSTANCES)?;
        let done = |sampler: &Sampler| {
            submitted.iter().all(|job| sampler.n_done(job) > 7)
                && self.services.iter().all(|job| sampler.n_alive(job) == wanted)
        };
        let waited = wait::until("acknowledged work", DONE_WITHIN, || {
            Ok(done(&self.sampler).then_some(()))
        });
        if let Err(error) = waited {
            println!("{error}");
        }
        let watched = watchers.finish(WATCHED_WITHIN)?;
        // the last services that were stopped end within their grace
        thread::sleep(Duration::from_secs(3));
        for job in watched {
            if let Some(events) = self.client.events(&job)? {
                self.recorder.tell(Event::Stored { job, events })?;
            }
        }
        for _ in self.world.gateways() {
            self.client.list()?;
        }
        for job in submitted.iter().chain(&self.services) {
            self.client.get(job)?;
        }
        self.look_at_storage()?;
        self.masters()?;
        self.recorder.tell(Event::Over)?;
        self.world.check()?;
        self.sampler.finish()
    }

    /// What each master says that it runs.
    fn masters(&mut self) -> Result<()> {
        for (cluster, address) in self.world.masters()? {
            let call = json!({"type": "GET_TASKS"});
            let (status, body) = http::post(address, "/api/v1", &call)?;
            if status != 200 {
                bail!("the master of {cluster} answered {status}: {body}");
            }
            let answer: Value = serde_json::from_str(&body)?;
            let runs = answer.get("get_tasks").map(running).unwrap_or_default();
            self.recorder.tell(Event::MasterTasks { cluster, runs })?;
        }
        Ok(())
    }
}

/// Ids of the running tasks of a master's answer.
pub(crate) fn running(tasks: &Value) -> Vec<String> {
    let is_running = |task: &Value| task.get("state").and_then(Value::as_str) == Some("TASK_RUNNING");
    let id = |task: &Value| Some(task.get("task_id")?.get("value")?.as_str()?.to_owned());
    let tasks = list_of(tasks, "tasks");
    tasks
        .iter()
        .filter(|task| is_running(task))
        .filter_map(id)
        .collect()
}

/// The faults of a round, in one name.
fn name_of(faults: &[Fault]) -> String {
    let names: Vec<String> = faults.iter().map(Fault::to_string).collect();
    names.join(" + ")
}

/// Rounds of one fault each, in the order of the list; then, for every two of them, a pair drawn by the seed.
#[must_use]
pub fn rounds(faults: &[Fault], pairs: u32, seed: u64) -> Vec<Vec<Fault>> {
    let mut rounds: Vec<Vec<Fault>> = faults.iter().map(|fault| vec![*fault]).collect();
    let mut state = seed;
    let mut draw = |below: usize| {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(below.max(1)).unwrap_or(1)).unwrap_or(0)
    };
    for _ in 0..pairs {
        let (mut one, mut other) = (faults.get(draw(faults.len())), faults.get(draw(faults.len())));
        let disturb = |one: Option<&Fault>, other: Option<&Fault>| {
            one.zip(other).is_none_or(|(one, other)| one.disturbs(*other))
        };
        // lists of which no two faults go together have no pairs
        for _ in 0..DRAWS {
            if !disturb(one, other) {
                break;
            }
            (one, other) = (faults.get(draw(faults.len())), faults.get(draw(faults.len())));
        }
        if disturb(one, other) {
            break;
        }
        rounds.push(one.into_iter().chain(other).copied().collect());
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{MesosKind, Shape};

    #[test]
    fn pairs_are_drawn_by_the_seed_and_never_hit_one_subject_twice() {
        let faults = Fault::all(Shape::Federation, MesosKind::Simulated);
        let first = rounds(&faults, 50, 7);
        assert_eq!(first, rounds(&faults, 50, 7));
        assert_ne!(first, rounds(&faults, 50, 8));
        assert_eq!(first.len(), faults.len() + 50);
        for pair in first.iter().skip(faults.len()) {
            assert!(
                !pair[0].disturbs(pair[1]) && !pair[1].disturbs(pair[0]),
                "{pair:?}"
            );
        }
        let alone = Fault::list("all", Shape::Standalone, MesosKind::Simulated).unwrap();
        assert_eq!(rounds(&alone, 50, 7).len(), alone.len());
    }

    #[test]
    fn running_tasks_are_read_from_a_masters_answer() {
        let answer = json!({"tasks": [
            {"task_id": {"value": "a"}, "state": "TASK_RUNNING"},
            {"task_id": {"value": "b"}, "state": "TASK_STAGING"},
        ]});
        assert_eq!(running(&answer), ["a"]);
        assert_eq!(running(&json!({})), Vec::<String>::new());
    }
}
