//! Forms of names.

use echelon_core_model::id::LONGEST_LABEL;
pub use echelon_core_model::id::is_label;
pub use echelon_core_model::pool::{POOL_PATH_FORM, is_pool_path};

/// What `is_label` asks for, in words.
pub const LABEL_FORM: &str = "must be 1 to 63 characters of a-z, 0-9 and `-`, with no `-` at its ends";

/// No control characters, at most `most` bytes.
#[must_use]
pub fn is_line(text: &str, most: usize) -> bool {
    text.len() <= most && !text.chars().any(char::is_control)
}

/// A path with no `..` in it, which nobody takes for two: no control characters and no `:`.
#[must_use]
pub fn is_path(text: &str, most: usize) -> bool {
    let plain = !text.is_empty() && is_line(text, most) && !text.contains(':');
    plain && text.split('/').all(|part| part != "..")
}

/// Name of an environment variable.
#[must_use]
pub fn is_variable(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=256).contains(&text.len())
        && text.bytes().all(inside)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Key of a label.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
    (1..=LONGEST_LABEL).contains(&text.len()) && text.bytes().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for good in ["a", "0", "a-b", "hello-2", &"a".repeat(63)] {
            assert!(is_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "ä", "a b", &"a".repeat(64)] {
            assert!(!is_label(bad), "{bad}");
        }
        assert!(is_variable("_PATH2") && !is_variable("2A") && !is_variable("A-B") && !is_variable(""));
        assert!(is_key("example.org/team_a") && !is_key("a b") && !is_key(""));
        assert!(is_path("/a/b..c", 9) && is_path("a", 1));
        assert!(!is_path("", 9) && !is_path("a/../b", 9) && !is_path("a:b", 9) && !is_path("ab", 1));
        assert!(is_line("ok", 2) && !is_line("a\nb", 9) && !is_line("abc", 2));
    }
}
