//! Histories that must pass, and one change to each that must fail.

use crate::{
    Broken, Event, GroupCounts, History, JobView, Kind, Line, Outcome, Rule, StoredJob, TaskEnd, Wish,
    count_by_fault, judge, markdown,
};

#[derive(Default)]
struct Play {
    history: History,
    requests: u64,
}

impl Play {
    fn at(mut self, at: u64, event: Event) -> Self {
        self.history.lines.push(Line { at, event });
        self
    }

    fn request(mut self, at: u64, what: Wish, outcome: Outcome) -> Self {
        self.requests += 1;
        let request = self.requests;
        self.at(at, Event::Asked { request, what })
            .at(at + 10, Event::Answered { request, outcome })
    }

    fn submit(self, at: u64, job: &str, kind: Kind, instances: u32) -> Self {
        let job = job.to_owned();
        self.request(at, Wish::Submit { job, kind, instances }, Outcome::Done)
    }

    fn began(self, at: u64, job: &str, index: u32, run: &str) -> Self {
        let event = Event::Began {
            job: job.to_owned(),
            index,
            run: run.to_owned(),
            pid: pid(run),
            host: "host-1".to_owned(),
            wall: at,
        };
        self.at(at, event)
    }

    fn ending(self, at: u64, job: &str, index: u32, run: &str, code: Option<i32>) -> Self {
        let event = Event::Ending {
            job: job.to_owned(),
            index,
            run: run.to_owned(),
            pid: pid(run),
            code,
            wall: at,
        };
        self.at(at, event)
    }

    fn gone(self, at: u64, run: &str) -> Self {
        let event = Event::Gone {
            run: run.to_owned(),
            pid: pid(run),
            alive_at: at - 100,
        };
        self.at(at, event)
    }

    fn list(self, at: u64, views: Vec<JobView>) -> Self {
        self.at(at + 5, Event::Listed { asked_at: at, views })
    }

    fn broken(&self) -> Vec<Broken> {
        judge(&self.history, 10_000)
    }

    fn rules(&self) -> Vec<Rule> {
        self.broken().into_iter().map(|found| found.rule).collect()
    }
}

/// A process id for each run: the numbers of its name.
fn pid(run: &str) -> u32 {
    run.bytes()
        .fold(7, |pid, byte| (pid * 31 + u32::from(byte)) % 30_000)
}

fn view(job: &str, state: &str, count: u64) -> JobView {
    JobView {
        job: job.to_owned(),
        id: format!("id-{job}"),
        state: format!("JOB_STATE_{state}"),
        version: 0,
        counts: vec![GroupCounts {
            state: "RUN_STATE_RUNNING".to_owned(),
            count,
        }],
    }
}

/// A batch job of one instance that is done, and a service of one that runs.
fn good() -> Play {
    Play::default()
        .submit(0, "batch", Kind::Batch, 1)
        .submit(0, "service", Kind::Service, 1)
        .began(100, "batch", 0, "b.1")
        .began(100, "service", 0, "s.1")
        .ending(2000, "batch", 0, "b.1", Some(0))
        .gone(2100, "b.1")
}

fn over(play: Play, at: u64) -> Play {
    play.list(
        at,
        vec![view("batch", "SUCCEEDED", 1), view("service", "RUNNING", 1)],
    )
    .at(at + 10, Event::Over)
}

#[test]
fn a_good_history_breaks_nothing() {
    assert_eq!(over(good(), 9000).broken(), vec![]);
    assert!(over(good(), 9000).history.end() == 9010);
}

#[test]
fn an_acknowledged_job_that_no_list_has_is_missing() {
    let play = good()
        .list(9000, vec![view("service", "RUNNING", 1)])
        .at(9010, Event::Over);
    assert_eq!(play.rules(), [Rule::Missing, Rule::Wrong]);
    let never_listed = good().at(9010, Event::Over);
    assert_eq!(never_listed.rules(), [Rule::Missing]);
}

#[test]
fn a_job_whose_submit_was_not_answered_may_be_there_or_not() {
    let submit = Wish::Submit {
        job: "maybe".to_owned(),
        kind: Kind::Batch,
        instances: 1,
    };
    let unknown = Outcome::Unknown {
        why: "reset".to_owned(),
    };
    let absent = over(good().request(500, submit.clone(), unknown.clone()), 9000);
    assert_eq!(absent.rules(), [Rule::Error]);
    let there = good().request(500, submit, unknown).list(
        9000,
        vec![
            view("batch", "SUCCEEDED", 1),
            view("service", "RUNNING", 1),
            view("maybe", "WAITING", 0),
        ],
    );
    assert_eq!(there.at(9010, Event::Over).rules(), [Rule::Error]);
}

#[test]
fn finished_work_that_runs_again_is_found() {
    let again = good()
        .began(3000, "batch", 0, "b.2")
        .ending(4000, "batch", 0, "b.2", Some(0));
    assert_eq!(over(again, 9000).rules(), [Rule::Again]);
}

#[test]
fn a_task_that_ends_while_its_agent_is_down_may_run_again() {
    let ended_at = |down_on: &str, ended_at: u64| {
        let host = down_on.to_owned();
        let play = Play::default()
            .submit(0, "batch", Kind::Batch, 1)
            .began(100, "batch", 0, "b.1")
            .at(1000, Event::AgentDown { host: host.clone() })
            .at(5000, Event::AgentUp { host })
            .ending(ended_at, "batch", 0, "b.1", Some(0))
            .began(40_000, "batch", 0, "b.2")
            .ending(41_000, "batch", 0, "b.2", Some(0))
            .list(42_000, vec![view("batch", "SUCCEEDED", 1)])
            .at(43_000, Event::Over);
        play.rules()
    };
    assert_eq!(ended_at("host-1", 4000), []);
    assert_eq!(ended_at("another", 4000), [Rule::Again]);
    assert_eq!(ended_at("host-1", 30_000), [Rule::Again]);
}

#[test]
fn work_that_failed_or_was_killed_may_run_again() {
    let failed = Play::default()
        .submit(0, "batch", Kind::Batch, 1)
        .began(100, "batch", 0, "b.1")
        .ending(200, "batch", 0, "b.1", Some(1))
        .began(300, "batch", 0, "b.2")
        .gone(500, "b.2")
        .began(600, "batch", 0, "b.3")
        .ending(700, "batch", 0, "b.3", Some(0))
        .list(800, vec![view("batch", "SUCCEEDED", 1)])
        .at(900, Event::Over);
    assert_eq!(failed.broken(), vec![]);
}

#[test]
fn a_mark_of_the_end_that_a_kill_crossed_is_not_done() {
    let killed = |how: TaskEnd| {
        Play::default()
            .submit(0, "batch", Kind::Batch, 1)
            .began(100, "batch", 0, "b.1")
            .at(
                100,
                Event::AgentBegan {
                    run: "b.1".into(),
                    pid: pid("b.1"),
                },
            )
            .ending(200, "batch", 0, "b.1", Some(0))
            .at(
                201,
                Event::AgentEnded {
                    run: "b.1".into(),
                    how,
                },
            )
            .began(300, "batch", 0, "b.2")
            .at(
                300,
                Event::AgentBegan {
                    run: "b.2".into(),
                    pid: pid("b.2"),
                },
            )
            .ending(400, "batch", 0, "b.2", Some(0))
            .list(800, vec![view("batch", "SUCCEEDED", 1)])
            .at(900, Event::Over)
    };
    assert_eq!(killed(TaskEnd::Signal(9)).broken(), vec![]);
    assert_eq!(killed(TaskEnd::Exit(0)).rules(), [Rule::Again]);
}

#[test]
fn a_restart_that_was_asked_for_is_no_second_run() {
    let restart = Wish::Restart {
        job: "batch".to_owned(),
    };
    let play = good()
        .request(2500, restart, Outcome::Done)
        .began(3000, "batch", 0, "b.2")
        .ending(4000, "batch", 0, "b.2", Some(0));
    assert_eq!(over(play, 9000).broken(), vec![]);
}

#[test]
fn two_runs_at_once_are_found_beyond_the_tolerance() {
    let second = |at: u64| over(good().began(at, "service", 0, "s.2"), 9000);
    assert_eq!(second(5000).rules(), [Rule::Twice]);
    let follows = good().gone(5000, "s.1").began(4800, "service", 0, "s.2");
    assert_eq!(over(follows, 9000).broken(), vec![]);
    let overlaps = good().gone(5000, "s.1").began(4600, "service", 0, "s.2");
    assert_eq!(over(overlaps, 9000).rules(), [Rule::Twice]);
    // a run that is short and wholly inside another one
    let inside = good()
        .began(1000, "batch", 0, "b.2")
        .ending(1010, "batch", 0, "b.2", Some(0));
    let rules = over(inside, 9000).rules();
    assert_eq!(rules, [Rule::Twice]);
}

#[test]
fn what_is_wanted_and_not_there_in_the_end_is_found() {
    let dead = over(good().gone(5000, "s.1"), 9000);
    assert_eq!(dead.rules(), [Rule::NotRunning]);
    let undone = Play::default()
        .submit(0, "batch", Kind::Batch, 2)
        .began(100, "batch", 0, "b.1")
        .ending(200, "batch", 0, "b.1", Some(0))
        .list(800, vec![view("batch", "RUNNING", 1)])
        .at(900, Event::Over);
    assert_eq!(undone.rules(), [Rule::NotRunning]);
}

#[test]
fn what_was_stopped_and_runs_in_the_end_is_found() {
    let stop = |outcome: Outcome| {
        let job = "service".to_owned();
        good().request(3000, Wish::Stop { job }, outcome)
    };
    assert_eq!(over(stop(Outcome::Done), 9000).rules(), [Rule::NotStopped]);
    let ended = stop(Outcome::Done).ending(4000, "service", 0, "s.1", None).list(
        9000,
        vec![view("batch", "SUCCEEDED", 1), view("service", "STOPPED", 1)],
    );
    assert_eq!(ended.at(9010, Event::Over).broken(), vec![]);
    // a stop that was not answered may go either way
    let unknown = Outcome::Unknown {
        why: "late".to_owned(),
    };
    assert_eq!(over(stop(unknown), 9000).rules(), [Rule::Error]);
}

#[test]
fn answers_that_cannot_be_are_found() {
    let job = || "batch".to_owned();
    let refused = |status: u16| Outcome::Refused {
        status,
        text: "no".to_owned(),
    };
    let get = |status| {
        over(
            good().request(1000, Wish::Get { job: job() }, refused(status)),
            9000,
        )
    };
    assert_eq!(get(404).rules(), [Rule::Wrong]);
    assert_eq!(get(400).rules(), [Rule::Wrong]);
    assert_eq!(get(503).rules(), [Rule::Error]);
    let gave_up = Event::GaveUp {
        what: Wish::Get { job: job() },
        tries: 40,
    };
    assert_eq!(over(good().at(3000, gave_up), 9000).rules(), [Rule::GivenUp]);
    for wrong in [
        view("stranger", "RUNNING", 1),
        view("batch", "RUNNING", 2),
        view("service", "SUCCEEDED", 1),
    ] {
        let shown = Event::Shown {
            asked_at: 2990,
            view: wrong,
        };
        let mut rules = over(good().at(3000, shown), 9000).rules();
        rules.dedup();
        assert_eq!(rules, [Rule::Wrong]);
    }
}

#[test]
fn success_that_is_told_before_it_is_true_is_found() {
    let shown = |at: u64| {
        let event = Event::Shown {
            asked_at: at - 10,
            view: view("batch", "SUCCEEDED", 1),
        };
        over(good().at(at, event), 9000)
    };
    assert_eq!(shown(1500).rules(), [Rule::Wrong]);
    assert_eq!(shown(2500).broken(), vec![]);
}

#[test]
fn a_job_that_ended_does_not_run_later() {
    let play = |second: u64| {
        let shown = |asked_at: u64, state: &str| Event::Shown {
            asked_at,
            view: view("batch", state, 1),
        };
        good()
            .at(3000, shown(2990, "SUCCEEDED"))
            .at(4000, shown(second, "RUNNING"))
    };
    assert_eq!(over(play(3500), 9000).rules(), [Rule::Wrong]);
    // asked before the other answer came: it may be older
    assert_eq!(over(play(2980), 9000).broken(), vec![]);
}

#[test]
fn a_list_with_a_job_twice_or_without_an_acknowledged_one_is_wrong() {
    let whole = || vec![view("batch", "SUCCEEDED", 1), view("service", "RUNNING", 1)];
    let twice = [whole(), vec![view("service", "RUNNING", 1)]].concat();
    assert_eq!(over(good().list(5000, twice), 9000).rules(), [Rule::Wrong]);
    let short = vec![view("service", "RUNNING", 1)];
    assert_eq!(
        over(good().list(5000, short.clone()), 9000).rules(),
        [Rule::Wrong]
    );
    // a list that was asked for before the acknowledgement
    assert_eq!(over(good().list(5, short), 9000).broken(), vec![]);
}

#[test]
fn an_event_that_a_watcher_did_not_see_is_missed() {
    let play = |seen: &[&str]| {
        let job = || "service".to_owned();
        let events = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let watch = good()
            .at(
                500,
                Event::WatchBegan {
                    watcher: 3,
                    job: job(),
                    before: events(&["before"]),
                },
            )
            .at(
                700,
                Event::Saw {
                    watcher: 3,
                    job: job(),
                    events: events(seen),
                },
            )
            .at(
                8000,
                Event::Stored {
                    job: job(),
                    events: events(&["before", "one", "two"]),
                },
            );
        over(watch, 9000)
    };
    assert_eq!(play(&["one", "two"]).broken(), vec![]);
    assert_eq!(play(&["two"]).rules(), [Rule::Missed]);
    // the job had ended for the watcher before a backup was put back
    let put_back = |is_ended: bool| {
        let ended = Event::WatchEnded {
            watcher: 3,
            job: "service".to_owned(),
        };
        let mut lines = play(&["two"]).history.lines;
        let place = lines.len() - 2;
        let at = 7000;
        lines.insert(
            place,
            Line {
                at,
                event: Event::BackupBack,
            },
        );
        if is_ended {
            lines.insert(place, Line { at, event: ended });
        }
        let rules = crate::watches::judge(&History { lines });
        rules.iter().map(|found| found.rule).collect::<Vec<_>>()
    };
    assert_eq!(put_back(true), []);
    assert_eq!(put_back(false), [Rule::Missed]);
}

#[test]
fn an_instance_fails_once_on_a_host_that_fails_everything() {
    let fails = |host: &str| Event::HostFails {
        host: host.to_owned(),
    };
    let two_runs = |host: &str, again: &str| {
        good()
            .at(3000, fails(host))
            .began(3100, "other", 0, "o.main.0.1.1")
            .ending(3101, "other", 0, "o.main.0.1.1", Some(1))
            .began(3200, "other", 0, again)
            .ending(3201, "other", 0, again, Some(1))
            .began(4000, "other", 0, "o.main.0.1.3")
            .ending(4001, "other", 0, "o.main.0.1.3", Some(0))
    };
    let judged = |play: Play| {
        let rules = over(play, 9000).rules();
        rules.iter().filter(|rule| **rule == Rule::FailedAgain).count()
    };
    assert_eq!(judged(two_runs("host-1", "o.main.0.1.2")), 1);
    // it failed on another host, and another instance may fail there
    assert_eq!(judged(two_runs("host-2", "o.main.0.1.2")), 0);
    assert_eq!(judged(two_runs("host-1", "o.main.1.1.1")), 0);
}

#[test]
fn an_instance_is_dropped_once_by_an_agent_that_starts_nothing() {
    let dropped = |run: &str, why: &str| Event::AgentEnded {
        run: run.to_owned(),
        how: TaskEnd::NotStarted(why.to_owned()),
    };
    let play = |second: &str, why: &str| {
        let fails = Event::AgentFails {
            host: "host-1".to_owned(),
            words: "no room".to_owned(),
        };
        let played = good()
            .at(3000, fails)
            .at(3100, dropped("o.main.0.1.1", "there is no room"))
            // told twice
            .at(3101, dropped("o.main.0.1.1", "there is no room"))
            .at(3200, dropped(second, why));
        over(played, 9000).rules()
    };
    assert_eq!(play("o.main.0.1.2", "no room"), [Rule::FailedAgain]);
    assert_eq!(play("o.main.1.1.1", "no room"), []);
    assert_eq!(play("o.main.0.1.2", "no such user"), []);
}

#[test]
fn more_memory_than_a_process_may_take_is_told_and_shown() {
    let play = |peak: u64| {
        let began = Event::FaultBegan {
            fault: 0,
            name: "hostile-gateway".to_owned(),
            subject: "gateway-1".to_owned(),
            blocks: false,
        };
        let memory = Event::Memory {
            process: "gateway-1".to_owned(),
            before: 40_960,
            peak,
            most: 102_400,
        };
        let probed = Event::Probed {
            fault: 0,
            acknowledged: Some(3020),
            began: Some(3050),
        };
        let started = Event::Started {
            date: "2026-12-01".to_owned(),
            machine: "two cores".to_owned(),
            commit: "abc".to_owned(),
            shape: "standalone".to_owned(),
        };
        let played = good().at(0, started).at(3000, began);
        over(played.at(3010, memory).at(3100, probed), 9000)
    };
    assert_eq!(play(102_400).broken(), vec![]);
    let more = play(102_401);
    assert_eq!(more.rules(), [Rule::Memory]);
    let table = markdown(&count_by_fault(&more.history, &more.broken()));
    assert!(table.contains("| 101 of 100 MiB |"), "{table}");
}

#[test]
fn agents_and_masters_must_agree_with_the_tasks() {
    let logged = |pid_of_service: u32| {
        good()
            .at(
                100,
                Event::AgentBegan {
                    run: "b.1".into(),
                    pid: pid("b.1"),
                },
            )
            .at(
                100,
                Event::AgentBegan {
                    run: "s.1".into(),
                    pid: pid_of_service,
                },
            )
            .at(
                2001,
                Event::AgentEnded {
                    run: "b.1".into(),
                    how: TaskEnd::Exit(0),
                },
            )
    };
    assert_eq!(over(logged(pid("s.1")), 9000).broken(), vec![]);
    assert_eq!(over(logged(1), 9000).rules(), [Rule::Agents]);
    let unmarked = logged(pid("s.1")).at(
        3000,
        Event::AgentEnded {
            run: "x.9".into(),
            how: TaskEnd::Exit(0),
        },
    );
    assert_eq!(over(unmarked, 9000).rules(), [Rule::Agents]);
    let master = |runs: &[&str]| {
        let runs = runs.iter().map(|run| (*run).to_owned()).collect();
        let cluster = "east".to_owned();
        over(good(), 9000).at(8000, Event::MasterTasks { cluster, runs })
    };
    assert_eq!(master(&["s.1"]).broken(), vec![]);
    assert_eq!(master(&[]).rules(), [Rule::Agents]);
    assert_eq!(master(&["s.1", "s.9"]).rules(), [Rule::Agents]);
}

fn stored(job: &str, version: u64, desired: &str) -> StoredJob {
    StoredJob {
        job: job.to_owned(),
        id: format!("id-{job}"),
        version,
        desired: desired.to_owned(),
    }
}

impl Play {
    fn acknowledged(self, at: u64, job: &str, version: u64) -> Self {
        let job = job.to_owned();
        self.at(at, Event::Acknowledged { job, version })
    }

    fn storage(self, at: u64, jobs: Vec<StoredJob>) -> Self {
        let unreadable = Vec::new();
        let event = Event::StoredJobs {
            asked_at: at,
            jobs,
            unreadable,
        };
        self.at(at + 5, event)
    }

    fn spoils(self, at: u64, job: &str) -> Self {
        let (job, table) = (job.to_owned(), "heads".to_owned());
        self.at(at, Event::SpoilsRow { job, table })
    }

    fn back(self, at: u64, job: &str) -> Self {
        let job = job.to_owned();
        self.at(at, Event::RowBack { job })
    }
}

#[test]
fn storage_must_have_what_was_acknowledged() {
    let batch = |version| stored("batch", version, "RUNNING");
    let service = |desired: &str| stored("service", 2, desired);
    let play = |jobs: Vec<StoredJob>| {
        let play = good().acknowledged(20, "batch", 1).acknowledged(20, "service", 2);
        over(play.storage(5000, jobs), 9000).rules()
    };
    assert_eq!(play(vec![batch(1), service("RUNNING")]), []);
    assert_eq!(play(vec![batch(1)]), [Rule::Missing]);
    let unversioned = good().acknowledged(20, "batch", 0);
    assert_eq!(over(unversioned, 9000).rules(), [Rule::Wrong]);
    // an older version than the acknowledged one
    let old = stored("service", 1, "RUNNING");
    assert_eq!(play(vec![batch(1), old.clone()]), [Rule::Missing]);
    // one name twice
    let twice = vec![batch(1), service("RUNNING"), service("RUNNING")];
    assert_eq!(play(twice), [Rule::Wrong]);
    let stop = Wish::Stop {
        job: "service".to_owned(),
    };
    let stopped = |desired: &str| {
        let play = good()
            .request(3000, stop.clone(), Outcome::Done)
            .ending(4000, "service", 0, "s.1", None)
            .storage(5000, vec![batch(1), service(desired)])
            .list(
                9000,
                vec![view("batch", "SUCCEEDED", 1), view("service", "STOPPED", 1)],
            );
        play.at(9010, Event::Over).rules()
    };
    assert_eq!(stopped("STOPPED"), []);
    assert_eq!(stopped("RUNNING"), [Rule::Missing]);
}

#[test]
fn a_federation_whose_storage_was_never_read_is_not_judged_good() {
    let started = |shape: &str| Event::Started {
        date: "2026-11-24".to_owned(),
        machine: "two cores".to_owned(),
        commit: "abc1234".to_owned(),
        shape: shape.to_owned(),
    };
    let play = |shape: &str| over(good().at(0, started(shape)), 9000).rules();
    assert_eq!(play("standalone"), []);
    assert_eq!(play("federation"), [Rule::Missing]);
}

#[test]
fn an_answer_that_is_older_than_what_was_known_is_wrong() {
    let play = |asked_at: u64, version: u64| {
        let shown = Event::Shown {
            asked_at,
            view: JobView {
                version,
                ..view("service", "RUNNING", 1)
            },
        };
        over(good().acknowledged(3000, "service", 3).at(4000, shown), 9000).rules()
    };
    assert_eq!(play(3500, 3), []);
    assert_eq!(play(3500, 2), [Rule::Wrong]);
    // asked before the other one was acknowledged
    assert_eq!(play(2900, 2), []);
    // what was stored is known as well
    let listed = vec![
        JobView {
            version: 4,
            ..view("service", "RUNNING", 1)
        },
        view("batch", "SUCCEEDED", 1),
    ];
    let jobs = vec![stored("batch", 1, "RUNNING"), stored("service", 5, "RUNNING")];
    let read = good().storage(3000, jobs).list(4000, listed);
    assert_eq!(over(read, 9000).rules(), [Rule::Wrong]);
}

#[test]
fn a_job_that_is_set_aside_may_be_left_out_and_must_not_be_touched() {
    let refused = |text: &str| Outcome::Refused {
        status: 400,
        text: text.to_owned(),
    };
    let get = Wish::Get {
        job: "service".to_owned(),
    };
    let play = |play: Play| {
        let play = play.list(3000, vec![view("batch", "SUCCEEDED", 1)]);
        play.storage(3100, vec![stored("batch", 1, "RUNNING")]).request(
            3200,
            get.clone(),
            refused("ROW_UNREAD"),
        )
    };
    let aside = play(good().spoils(2500, "service")).back(4000, "service");
    assert_eq!(over(aside, 9000).broken(), vec![]);
    let not_aside = over(play(good()), 9000).rules();
    assert_eq!(not_aside, [Rule::Wrong, Rule::Missing, Rule::Wrong]);
    let late = play(good().spoils(2500, "service").back(2900, "service"));
    assert_eq!(over(late, 9000).rules(), not_aside);
    let other = good()
        .spoils(2500, "service")
        .request(3200, get.clone(), refused("INTERNAL"));
    assert_eq!(over(other.back(4000, "service"), 9000).rules(), [Rule::Wrong]);
    // what runs goes on to run, and nothing is started
    let again = |at: u64| {
        let play = good().spoils(2500, "service").gone(3100, "s.1");
        over(play.began(at, "service", 0, "s.2").back(6000, "service"), 9000).rules()
    };
    assert_eq!(again(7000), [Rule::Touched]);
    assert_eq!(again(5000), [Rule::Touched, Rule::Touched]);
}

#[test]
fn what_a_fault_must_bring_about_and_did_not_is_found() {
    let checked = |held: bool| Event::Checked {
        what: "an alarm names the row".to_owned(),
        held,
        seen: "no alarm".to_owned(),
    };
    assert_eq!(over(good().at(3000, checked(true)), 9000).broken(), vec![]);
    assert_eq!(over(good().at(3000, checked(false)), 9000).rules(), [Rule::Wrong]);
}

fn fault(play: Play, number: u32, at: u64, blocks: bool) -> Play {
    let began = Event::FaultBegan {
        fault: number,
        name: "kill-shard".to_owned(),
        subject: "shard-east-1".to_owned(),
        blocks,
    };
    play.at(at, began)
        .at(at + 5000, Event::FaultEnded { fault: number })
}

#[test]
fn a_late_recovery_is_found() {
    let probed = |blocks: bool, began: Option<u64>| {
        let event = Event::Probed {
            fault: 1,
            acknowledged: Some(1200),
            began,
        };
        over(fault(good(), 1, 1000, blocks).at(20_000, event), 21_000)
    };
    assert_eq!(probed(false, Some(11_000)).broken(), vec![]);
    assert_eq!(probed(false, Some(11_001)).rules(), [Rule::Recovery]);
    assert_eq!(probed(true, Some(16_000)).broken(), vec![]);
    assert_eq!(probed(true, Some(16_001)).rules(), [Rule::Recovery]);
    assert_eq!(probed(false, None).rules(), [Rule::Recovery]);
}

#[test]
fn a_history_is_read_as_it_was_written() {
    let history = over(good(), 9000).history;
    let text: Vec<String> = history
        .lines
        .iter()
        .map(|line| serde_json::to_string(line).unwrap())
        .collect();
    assert_eq!(History::read(text.join("\n").as_bytes()).unwrap(), history);
    let error = History::read("{}\n".as_bytes()).unwrap_err();
    assert!(error.to_string().starts_with("line 1: "), "{error}");
}

#[test]
fn what_breaks_is_counted_with_the_fault_before_it() {
    let started = Event::Started {
        date: "2026-11-24".to_owned(),
        machine: "two cores".to_owned(),
        commit: "abc1234".to_owned(),
        shape: "federation".to_owned(),
    };
    let probed = |fault: u32, began: u64| Event::Probed {
        fault,
        acknowledged: Some(began - 100),
        began: Some(began),
    };
    let play = fault(good().at(0, started), 1, 2200, false).at(5200, probed(1, 5200));
    let play = fault(play, 2, 20_000, false)
        .at(29_000, probed(2, 29_000))
        .began(30_000, "batch", 0, "b.2")
        .gone(31_000, "b.2")
        .gone(32_000, "s.1");
    let play = over(play, 40_000);
    let whole = vec![stored("batch", 1, "RUNNING"), stored("service", 1, "RUNNING")];
    let play = play.storage(39_000, whole);
    let rows = count_by_fault(&play.history, &play.broken());
    let told: Vec<(&str, usize, usize, Option<u64>)> = rows
        .iter()
        .map(|row| {
            (
                row.fault.as_str(),
                row.counts.again,
                row.counts.not_running,
                row.recovery_ms,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("kill-shard", 0, 0, Some(3000)),
            ("kill-shard", 1, 0, Some(9000)),
            ("in the end", 0, 1, None)
        ]
    );
    let table = markdown(&rows);
    let line = table.lines().find(|line| line.contains("kill-shard")).unwrap();
    assert!(line.contains("| 2 | 0 | 1 | 0 | 0 |"), "{table}");
    assert!(
        line.contains("9.0 s, 9.0 s") && line.contains("abc1234"),
        "{table}"
    );
    assert!(count_by_fault(&good().history, &[]).is_empty());
    let skipped = play.at(
        40_100,
        Event::Skipped {
            name: "slow-disk-cassandra-node".to_owned(),
            why: "no loop devices".to_owned(),
        },
    );
    let table = markdown(&count_by_fault(&skipped.history, &[]));
    let line = table.lines().find(|line| line.contains("slow-disk"));
    assert!(
        line.is_some_and(|line| line.contains("| 0 (1 skipped) |")),
        "{table}"
    );
}

/// A batch job from before the backup, one that came after it, and a change of a service after it; then the backup is put back.
fn put_back() -> Play {
    Play::default()
        .submit(100, "old", Kind::Batch, 1)
        .at(200, Event::BackupTaken)
        .began(300, "old", 0, "old-1")
        .submit(400, "new", Kind::Batch, 1)
        .ending(600, "old", 0, "old-1", Some(0))
        .at(1_000, Event::BackupBack)
        .at(5_000, Event::Resumed)
}

#[test]
fn what_came_after_a_backup_may_be_lost_and_run_again() {
    let play = put_back()
        .began(6_000, "old", 0, "old-2")
        .ending(7_000, "old", 0, "old-2", Some(0))
        .list(8_000, vec![view("old", "SUCCEEDED", 1)]);
    assert_eq!(play.broken(), []);
}

#[test]
fn what_came_before_a_backup_may_not_and_nothing_begins_before_the_resume() {
    let lost = put_back().list(8_000, vec![]).broken();
    assert!(
        lost.iter()
            .any(|b| b.rule == Rule::Missing && b.text.contains("old")),
        "{lost:?}"
    );
    let early = put_back()
        .began(3_000, "old", 0, "old-2")
        .ending(3_500, "old", 0, "old-2", Some(0))
        .list(8_000, vec![view("old", "SUCCEEDED", 1)]);
    let rules: Vec<Rule> = early.broken().iter().map(|b| b.rule).collect();
    assert_eq!(rules, [Rule::Wrong]);
    let again = put_back()
        .began(6_000, "old", 0, "old-2")
        .ending(40_000, "old", 0, "old-2", Some(0))
        .began(50_000, "old", 0, "old-3")
        .ending(51_000, "old", 0, "old-3", Some(0))
        .list(60_000, vec![view("old", "SUCCEEDED", 1)]);
    let rules: Vec<Rule> = again.broken().iter().map(|b| b.rule).collect();
    assert_eq!(rules, [Rule::Again]);
}
