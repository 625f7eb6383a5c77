//! The switches of the whole system: one row, which any gateway writes by compare-and-set.

use crate::ask;
use crate::change::check_etag;
use crate::error::{ApiError, ErrorReason};
use crate::port::Facts;
use crate::validate::Violations;
use crate::validate::text::is_line;
use echelon_core_model::Timestamp;
use echelon_core_model::control::Control;
use echelon_core_model::store::{Decided, Decision};
use echelon_core_model::token::TokenKey;

/// How often others may come first before the caller is told.
const TRIES: u32 = 16;
/// Longest name of who sets a switch, in bytes.
const LONGEST_BY: usize = 100;
/// Longest text of why, in bytes.
const LONGEST_WHY: usize = 1000;

/// How the switches are to stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switches {
    /// Nothing is to be killed.
    pub kills_off: bool,
    /// Who wants that.
    pub by: String,
    /// Why.
    pub why: String,
    /// Only if the row still has this etag; empty: whatever it has.
    pub etag: String,
}

/// How the switches stand.
///
/// # Errors
/// Storage.
pub async fn get_control<F: Facts>(facts: &F) -> Result<Control, ApiError> {
    ask::settled_control(facts).await
}

/// Sets the switches. What is said again by the same person for the same reason changes nothing.
///
/// # Errors
/// Wrong texts, an old etag, or storage.
pub async fn update_control<F: Facts>(
    facts: &F,
    wanted: Switches,
    now: Timestamp,
) -> Result<Control, ApiError> {
    let mut out = Violations::default();
    let texts = [
        ("control.by", &wanted.by, LONGEST_BY),
        ("control.why", &wanted.why, LONGEST_WHY),
    ];
    for (field, text, most) in texts {
        let problem = format!("must be one line of at most {most} bytes");
        out.check(is_line(text, most), field, problem);
    }
    out.done()?;
    for _ in 0..TRIES {
        let before = ask::settled_control(facts).await?;
        check_etag(&wanted.etag, before.version, "the row of switches")?;
        let after = Control {
            version: before.version.next(),
            kills_off: wanted.kills_off,
            by: wanted.by.clone(),
            why: wanted.why.clone(),
            at: now,
            token_key: before.token_key,
            former_token_key: before.former_token_key,
        };
        let same = Control {
            version: before.version,
            at: before.at,
            ..after.clone()
        };
        if same == before {
            return Ok(before);
        }
        let decision = Decision::PutControl {
            control: after.clone(),
            expected: before.version,
        };
        if ask::decide(facts, decision, "the switches").await? == Decided::Applied {
            return Ok(after);
        }
    }
    Err(contention())
}

fn contention() -> ApiError {
    ApiError::new(
        ErrorReason::Contention,
        "others set the switches all the time; nothing was changed, try again",
    )
}

/// Makes another key that tokens are signed with. The one before is good until this is done again; who set the switches last stays.
///
/// # Errors
/// An old etag, or storage.
pub async fn rotate_token_key<F: Facts>(
    facts: &F,
    etag: &str,
    chance: [u128; 2],
) -> Result<Control, ApiError> {
    for _ in 0..TRIES {
        let before = ask::settled_control(facts).await?;
        check_etag(etag, before.version, "the row of switches")?;
        let expected = before.version;
        let control = Control {
            version: expected.next(),
            token_key: Some(TokenKey::new(chance)),
            former_token_key: before.token_key,
            ..before
        };
        let decision = Decision::PutControl {
            control: control.clone(),
            expected,
        };
        if ask::decide(facts, decision, "the key of tokens").await? == Decided::Applied {
            return Ok(control);
        }
    }
    Err(contention())
}

/// Makes the key that tokens are signed with, where there is none.
///
/// # Errors
/// Storage.
pub async fn ensure_token_key<F: Facts>(facts: &F, chance: [u128; 2]) -> Result<Control, ApiError> {
    let before = ask::settled_control(facts).await?;
    if before.token_key.is_some() {
        return Ok(before);
    }
    let expected = before.version;
    let control = Control {
        version: expected.next(),
        token_key: Some(TokenKey::new(chance)),
        ..before
    };
    let decision = Decision::PutControl {
        control: control.clone(),
        expected,
    };
    match ask::decide(facts, decision, "the key of tokens").await? {
        Decided::Applied => Ok(control),
        // Another gateway has made one, or set a switch: the next look finds it.
        Decided::Conflict(_) => ask::settled_control(facts).await,
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
