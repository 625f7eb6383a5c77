//! Pieces of pages: times, quantities, states, pages of lists.

use super::Fields;
use echelon_core_gateway::page::PageRequest;
use echelon_core_gateway::view::Part;
use echelon_core_model::health::Health;
use echelon_core_model::job::JobState;
use echelon_core_model::resources::{Kind, Resources};
use echelon_core_model::unconfirmed::unconfirmed_for;
use echelon_core_model::{RunState, Timestamp};
use maud::{Markup, html};

/// Rows of a page.
const ROWS: i32 = 50;

/// A time in UTC, to the second.
pub(super) fn time(at: Timestamp) -> Markup {
    let whole = i64::try_from(at.0 / 1000).unwrap_or_default();
    let text = jiff::Timestamp::from_second(whole).map_or_else(|_| "?".to_owned(), |t| t.to_string());
    html! { time datetime=(text) { (text.replace('T', " ").replace('Z', " UTC")) } }
}

/// A quantity, or that it has no bound.
pub(super) fn quantity(kind: Kind, of: &Resources) -> String {
    match of.get(kind) {
        u64::MAX => "no limit".to_owned(),
        n => kind.show(n),
    }
}

const fn job_class(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Succeeded => "ok",
        JobState::Failed => "bad",
        JobState::Waiting | JobState::Stopping => "warn",
        JobState::Stopped | JobState::Deleted => "soft",
    }
}

/// A job's state.
pub(super) fn job_state(state: JobState) -> Markup {
    html! { span class={ "state " (job_class(state)) } { (state) } }
}

const fn run_class(state: RunState) -> &'static str {
    match state {
        RunState::Running | RunState::Succeeded => "ok",
        RunState::Failed | RunState::Lost | RunState::Rejected | RunState::Unreachable => "bad",
        RunState::Killed => "soft",
        RunState::Pending
        | RunState::Placing
        | RunState::Launching
        | RunState::Starting
        | RunState::Stopping => "warn",
    }
}

/// An instance's state; unknown is a state of its own.
pub(super) fn run_state(state: Option<RunState>) -> Markup {
    match state {
        Some(state) => html! { span class={ "state " (run_class(state)) } { (state) } },
        None => html! { span.state.bad { "unknown" } },
    }
}

/// What is unconfirmed beside a state or a count, where anything is.
pub(super) fn unconfirmed(words: Option<String>) -> Markup {
    html! { @if let Some(words) = words { " " span.warn { "(" (words) ")" } } }
}

/// The same for what comes from one cluster.
pub(super) fn unconfirmed_part(part: &Part) -> Markup {
    unconfirmed(part.is_stale().then(|| unconfirmed_for(part.age)))
}

/// How a cluster is heard.
pub(super) fn health(health: Health) -> Markup {
    let class = match health {
        Health::Healthy => "ok",
        Health::Joining => "soft",
        Health::Recovering | Health::Degraded => "warn",
        Health::WithoutMesos | Health::WithoutAgents | Health::CutOff | Health::Lost => "bad",
    };
    html! { span class={ "state " (class) } { (health) } }
}

/// The page that the query asks for.
pub(super) fn page_request(fields: &Fields, token: &str) -> PageRequest {
    PageRequest {
        size: ROWS,
        token: fields.get(token).cloned().unwrap_or_default(),
    }
}

/// Links to the first and the next page of a list, keeping the other fields.
pub(super) fn pager(path: &str, fields: &Fields, token: &str, next: Option<&String>) -> Markup {
    let with = |value: Option<&String>| {
        let mut all = fields.clone();
        all.remove(token);
        if let Some(value) = value {
            all.insert(token.to_owned(), value.clone());
        }
        let pairs: Vec<String> = all
            .iter()
            .filter(|(_, v)| !v.is_empty())
            .map(|(k, v)| format!("{}={}", encode(k), encode(v)))
            .collect();
        format!("{path}?{}", pairs.join("&"))
    };
    html! {
        @if next.is_some() || fields.contains_key(token) {
            p {
                @if fields.contains_key(token) { a #{ (token) "-first" } href=(with(None)) { "First page" } " " }
                @if next.is_some() { a #{ (token) "-next" } href=(with(next)) { "Next page" } }
            }
        }
    }
}

/// Percent-encodes what is not plain.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(
            time(Timestamp(1_795_246_364_718)).into_string(),
            r#"<time datetime="2026-11-21T07:32:44Z">2026-11-21 07:32:44 UTC</time>"#
        );
    }

    #[test]
    fn text_in_links_is_encoded() {
        assert_eq!(encode("a&b=\"<é>"), "a%26b%3D%22%3C%C3%A9%3E");
        let fields: Fields = [("name".to_owned(), "\"><script>".to_owned())].into();
        let link = pager("/jobs", &fields, "page", Some(&"t".to_owned())).into_string();
        assert!(!link.contains("<script"), "{link}");
        assert!(link.contains("page=t"));
    }
}
