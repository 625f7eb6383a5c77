//! What this gateway knows of the switches, so that every answer can tell it without asking storage.

use crate::context::Gateway;
use axum::response::Response;
use echelon_core_gateway::ask;
use echelon_core_gateway::control::ensure_token_key;
use echelon_core_model::JobId;
use echelon_core_model::control::Control;
use echelon_proto::convert::control::KILLS_OFF;
use http::{HeaderName, HeaderValue};
use maud::{Markup, html};
use prometheus::IntGauge;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often they are read: another gateway may have set them.
const INTERVAL: Duration = Duration::from_secs(5);
/// Time between two looks because of tokens that nobody knows.
const LOOKS: Duration = Duration::from_secs(1);

/// The switches as they were last read.
pub(crate) struct Switches {
    known: watch::Sender<Control>,
    off: IntGauge,
    /// When a token that nobody knows made us look for a newer key.
    looked: Mutex<Option<Instant>>,
}

impl Switches {
    pub(crate) fn new(off: IntGauge) -> Self {
        let known = watch::Sender::new(Control::default());
        Self {
            known,
            off,
            looked: Mutex::new(None),
        }
    }

    /// Takes in how they stand, unless something newer is known.
    pub(crate) fn know(&self, control: &Control) {
        self.known.send_if_modified(|known| {
            let newer = control.version > known.version;
            if newer {
                known.clone_from(control);
                self.off.set(control.kills_off.into());
            }
            newer
        });
    }

    /// The job that a token is for, by the keys that were read last.
    pub(crate) fn job_of(&self, token: &str) -> Option<JobId> {
        self.known.borrow().verify(token)
    }

    /// Whether any key was read.
    pub(crate) fn has_token_key(&self) -> bool {
        self.known.borrow().token_key.is_some()
    }

    /// Whether it is time to look for a newer key because of a token that nobody knows: whoever sends many of them must not make many reads.
    pub(crate) fn may_look(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.is_none_or(|at| at.elapsed() >= LOOKS);
        if due {
            *looked = Some(Instant::now());
        }
        due
    }

    /// Says on an answer that kills are off.
    pub(crate) fn mark(&self, answer: &mut Response) {
        if self.known.borrow().kills_off {
            let (name, value) = KILLS_OFF;
            let headers = answer.headers_mut();
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
    }

    /// The same on a page.
    pub(crate) fn banner(&self) -> Markup {
        let control = self.known.borrow().clone();
        html! {
            @if control.kills_off {
                p.bad role="alert" {
                    "Kills are off: nothing is stopped on any cluster until "
                    code { "echelon control kills on" }
                    "."
                    @if !control.by.is_empty() { " Switched off by " (control.by) "." }
                    @if !control.why.is_empty() { " Why: " (control.why) }
                }
            }
        }
    }
}

/// Reads the switches again and again; while storage does not answer, what is known stays.
pub(crate) async fn keep(gateway: Gateway) {
    loop {
        let read = match ask::control(&gateway.facts).await {
            Ok(control) if control.token_key.is_none() => {
                ensure_token_key(&gateway.facts, [Gateway::chance(), Gateway::chance()]).await
            }
            read => read,
        };
        match read {
            Ok(control) => gateway.switches.know(&control),
            Err(error) => tracing::debug!(%error, "the switches cannot be read at the moment"),
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = gateway.stop.cancelled() => return,
        }
    }
}
