//! What is done to one agent, or to its host.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use echelon_tests::http;
use echelon_tests::server::Server;
use echelon_tests::servers::{Executors, Mesos, MesosMember};
use echelon_tests_judge::Event;
use serde_json::{Value, json};

use super::Federation;
use crate::client::{list_of, text};
use crate::expect::expect;
use crate::fault::Action;
use crate::hostility::{Hostility, Port};
use crate::marked::failing_path;
use crate::world::Target;

/// What an agent that is broken says of each task.
const WORDS: &str = "the disk of this agent is full";

/// How long tasks of an agent that an operator drains have to end.
const DRAIN_GRACE_SECONDS: u64 = 5;

/// What a fault is about.
struct Place {
    cluster: String,
    /// The agent's process, or what stands for it.
    name: String,
    host: String,
}

impl Federation {
    pub(super) fn begin_at_host(&mut self, action: Action, target: &Target) -> Result<()> {
        let place = self.place(target)?;
        let host = place.host.clone();
        match action {
            Action::Failing => {
                self.recorder.tell(Event::HostFails { host: host.clone() })?;
                fs::write(self.failing(&host)?, "")?;
                Ok(())
            }
            Action::Broken => {
                let words = WORDS.to_owned();
                self.recorder.tell(Event::AgentFails { host, words })?;
                self.set_broken(&place, true)
            }
            Action::Drained => {
                let id = self.agent_id(&place)?;
                let drain = json!({
                    "agent_id": {"value": id},
                    "max_grace_period": {"seconds": DRAIN_GRACE_SECONDS, "nanos": 0},
                    "mark_gone": false,
                });
                self.operate(&place, &json!({"type": "DRAIN_AGENT", "drain_agent": drain}))
            }
            Action::Gone => {
                let id = self.agent_id(&place)?;
                let (mesos, which) = self.agent(&place)?;
                // it ends by itself when it hears of this, and would be refused as long as it has this id
                mesos.hold(which, |_| Ok(()))?;
                self.recorder.tell(Event::AgentDown { host })?;
                let gone = json!({"agent_id": {"value": id}});
                self.operate(
                    &place,
                    &json!({"type": "MARK_AGENT_GONE", "mark_agent_gone": gone}),
                )
            }
            Action::Replaced => {
                let (mesos, which) = self.agent(&place)?;
                self.recorder.tell(Event::AgentDown { host: host.clone() })?;
                mesos.hold(which, start_as_new)?;
                mesos.release(which, |_| Ok(()))?;
                self.recorder.tell(Event::AgentUp { host })?;
                Ok(())
            }
            _ => bail!("{action:?} is not done to a host"),
        }
    }

    pub(super) fn end_at_host(&mut self, action: Action, target: &Target) -> Result<()> {
        let place = self.place(target)?;
        let host = place.host.clone();
        match action {
            Action::Failing => {
                fs::remove_file(self.failing(&host)?)?;
                self.recorder.tell(Event::HostWorks { host })?;
                Ok(())
            }
            Action::Broken => {
                self.set_broken(&place, false)?;
                self.recorder.tell(Event::HostWorks { host })?;
                Ok(())
            }
            Action::Drained => {
                let what = format!("{host} is shown as drained in Mesos");
                expect(&self.recorder, &what, || {
                    let state = self.shown_state(&place)?;
                    Ok((state == "AGENT_STATE_DRAINED", state))
                })?;
                let agent = json!({"agent_id": {"value": self.agent_id(&place)?}});
                let back = json!({"type": "REACTIVATE_AGENT", "reactivate_agent": agent});
                self.operate(&place, &back)?;
                let what = format!("{host} is shown as active again");
                expect(&self.recorder, &what, || {
                    let state = self.shown_state(&place)?;
                    Ok((state == "AGENT_STATE_ACTIVE", state))
                })
            }
            Action::Gone => {
                let (mesos, which) = self.agent(&place)?;
                mesos.release(which, start_as_new)?;
                self.recorder.tell(Event::AgentUp { host })?;
                Ok(())
            }
            Action::Replaced => Ok(()),
            _ => bail!("{action:?} is not done to a host"),
        }
    }

    fn place(&self, target: &Target) -> Result<Place> {
        let (Some(cluster), [name]) = (target.cluster.clone(), target.names.as_slice()) else {
            bail!("no agent: {target:?}");
        };
        let host = match self.mesos_member(name)? {
            Some((mesos, which)) => mesos.host(which)?,
            // a simulated agent has no name but its host's
            None => name.clone(),
        };
        Ok(Place {
            cluster,
            name: name.clone(),
            host,
        })
    }

    fn failing(&self, host: &str) -> Result<PathBuf> {
        Ok(failing_path(&self.work.folder("marks")?, host))
    }

    /// Where what stands in for executors of a broken agent writes which tasks it got.
    pub(super) fn dropped(&self, cluster: &str) -> PathBuf {
        self.work.path().join(format!("dropped-{cluster}.jsonl"))
    }

    fn agent(&self, place: &Place) -> Result<(&Mesos, MesosMember)> {
        let found = self.mesos_member(&place.name)?;
        found.with_context(|| format!("{} is no process", place.name))
    }

    fn set_broken(&self, place: &Place, is_broken: bool) -> Result<()> {
        if self.mesos.is_empty() {
            let message = is_broken.then_some(WORDS);
            let fault = json!({"fault": "starts_fail", "agent": place.host, "message": message});
            return done(self.master(&place.cluster)?, "/sim/v1/faults", &fault);
        }
        let (mesos, which) = self.agent(place)?;
        if !is_broken {
            return mesos.set_executors(which, &Executors::Good);
        }
        // what an agent of Mesos gives to an executor names it as its task
        let log = self.dropped(&place.cluster);
        let script = format!(
            "#!/bin/sh\nprintf '{{\"event\":\"ended\",\"task\":\"%s\",\"how\":{{\"not_started\":\"{WORDS}\"}}}}\\n' \
             \"$MESOS_EXECUTOR_ID\" >> '{}'\necho '{WORDS}' >&2\nexit 1\n",
            log.display()
        );
        mesos.set_executors(which, &Executors::Script(script))
    }

    /// The id of the active agent of a host.
    fn agent_id(&self, place: &Place) -> Result<String> {
        let master = self.leading_master(&place.cluster)?;
        let (status, body) = http::post(master, "/api/v1", &json!({"type": "GET_AGENTS"}))?;
        ensure!(status == 200, "{master} answered {status}: {body}");
        let answer: Value = serde_json::from_str(&body)?;
        let agents = answer.get("get_agents").map(|all| list_of(all, "agents"));
        let info = |agent: &Value| {
            let info = agent.get("agent_info")?;
            let id = text(info.get("id")?, "value");
            (text(info, "hostname") == place.host).then_some(id)
        };
        let found = agents.iter().flatten().find_map(info);
        found.with_context(|| format!("{master} lists no agent {}", place.host))
    }

    fn operate(&self, place: &Place, call: &Value) -> Result<()> {
        done(self.leading_master(&place.cluster)?, "/api/v1", call)
    }

    /// What the API says about the agent of a host.
    fn shown_state(&self, place: &Place) -> Result<String> {
        let gateway = self.port("gateway-1")?;
        let path = format!("/v1/clusters/{}/hosts/{}", place.cluster, place.host);
        let (status, body) = http::get(gateway, &path)?;
        ensure!(status == 200, "GET {path} answered {status}: {body}");
        let host: Value = serde_json::from_str(&body)?;
        Ok(text(&host, "agentState"))
    }

    fn port(&self, process: &str) -> Result<SocketAddr> {
        let port = self.ports.get(process).copied();
        port.with_context(|| format!("{process} listens nowhere"))
    }

    pub(super) fn begin_hostility(&mut self, target: &Target) -> Result<()> {
        let [name] = target.names.as_slice() else {
            bail!("no process: {target:?}");
        };
        let port = if name.starts_with("gateway") {
            Port::Api
        } else {
            Port::Calls
        };
        let address = self.port(name)?;
        let pid = self.server(name)?.pid();
        let pid = pid.with_context(|| format!("{name} does not run"))?;
        self.hostility = Some(Hostility::begin(name, pid, address, port)?);
        Ok(())
    }

    pub(super) fn end_hostility(&mut self) -> Result<()> {
        let hostility = self.hostility.take().context("nothing is under way")?;
        for event in hostility.end()? {
            self.recorder.tell(event)?;
        }
        Ok(())
    }
}

/// Starts an agent without anything that it has noted of itself.
fn start_as_new(server: &mut Server) -> Result<()> {
    server.kill()?;
    let noted = server.launch().folder.join("data");
    fs::remove_dir_all(&noted).with_context(|| format!("remove {}", noted.display()))?;
    server.start_again()
}

/// Posts what must be taken.
fn done(address: SocketAddr, path: &str, call: &Value) -> Result<()> {
    let (status, body) = http::post(address, path, call)?;
    ensure!(
        matches!(status, 200 | 202),
        "{address}{path} answered {status} to {call}: {body}"
    );
    Ok(())
}
