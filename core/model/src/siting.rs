//! Rules about where the instances of a group may be, and where they would best be: constraints, preferences, and what they want
//! of each other and of other jobs.

use crate::host_pool::HostPoolChoice;
use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;
use std::fmt;

/// The attribute name that means the host's name.
pub const HOSTNAME: &str = "hostname";
/// The names of strategies that a group may ask for. `core/placement` has them in its table.
pub const STRATEGIES: &[&str] = &["pack", "spread", "first-fit"];
/// Most rules of one sort that a group may have: each costs a look at every host.
pub const MAX_RULES: usize = 64;
/// Largest weight of a preference, and of a soft affinity.
pub const MAX_WEIGHT: u32 = 100;
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 255;
/// Most memory of a compiled pattern: 255 bytes of plain pattern take some 20 KiB, what is nested takes much more.
const PATTERN_BYTES: usize = 256 * 1024;

/// A number that hosts' attributes are compared with, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub i64);

/// How a host's number is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Comparison {
    /// It is less.
    Less,
    /// It is as much or less.
    AtMost,
    /// It is more.
    More,
    /// It is as much or more.
    AtLeast,
}

/// What is asked of an attribute. One that has several values, joined with commas, passes when the whole text or any of them does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// One of these values.
    In(Vec<String>),
    /// Any value.
    Exists,
    /// A number that compares so; what is no number does not.
    Compares(Comparison, Number),
    /// All of a value matches this pattern.
    Matches(String),
}

/// A rule about a host's attributes or name. A host without the attribute passes only a rule that is turned round.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constraint {
    /// Attribute name; `hostname` means the host's name.
    pub attribute: String,
    /// What is asked of it.
    pub test: Test,
    /// Whether the rule is turned round.
    pub negate: bool,
}

/// A rule that had better hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Preference {
    /// The rule.
    pub rule: Constraint,
    /// What a host that meets it gains, -100 to 100; less than 0: such hosts are used last.
    pub weight: i32,
}

/// Being near to runs of other jobs, or away from them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affinity {
    /// Jobs that have all of these labels.
    pub labels: BTreeMap<String, String>,
    /// On hosts with the same value of this attribute; `hostname`: on the same host.
    pub topology: String,
    /// What it counts where it is only a preference, 1 to 100; `None`: it has to be so.
    pub weight: Option<u32>,
}

/// Where the instances of a group may be beside its constraints, and where they would best be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Siting {
    /// The hosts that they may use.
    pub host_pool: HostPoolChoice,
    /// Rules that had better hold.
    pub preferences: Vec<Preference>,
    /// Most instances of the group on hosts with the same value of an attribute; hosts without it count as having one value.
    pub max_per: BTreeMap<String, u32>,
    /// Attributes over whose values the instances are spread evenly as far as they can be, the first goes first.
    pub spread_over: Vec<String>,
    /// Other jobs to be near to.
    pub affinity: Vec<Affinity>,
    /// Other jobs to be away from.
    pub anti_affinity: Vec<Affinity>,
    /// Nothing of other jobs is on its hosts.
    pub exclusive: bool,
    /// Name of the strategy; `None`: that of the job's kind.
    pub strategy: Option<String>,
}

impl Number {
    /// A decimal number with at most six places.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (minus, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, places) = digits.split_once('.').unwrap_or((digits, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(places) || places.len() > 6 {
            return None;
        }
        let sum = whole
            .parse::<i64>()
            .ok()?
            .checked_mul(1_000_000)?
            .checked_add(format!("{places:0<6}").parse::<i64>().ok()?)?;
        Some(Self(if minus { -sum } else { sum }))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, n) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let places = format!("{:06}", n % 1_000_000);
        match places.trim_end_matches('0') {
            "" => write!(f, "{sign}{}", n / 1_000_000),
            places => write!(f, "{sign}{}.{places}", n / 1_000_000),
        }
    }
}

impl Comparison {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Less, Self::AtMost, Self::More, Self::AtLeast];

    /// Whether a host's number compares so with the rule's.
    #[must_use]
    pub fn holds(self, host: Number, rule: Number) -> bool {
        match self {
            Self::Less => host < rule,
            Self::AtMost => host <= rule,
            Self::More => host > rule,
            Self::AtLeast => host >= rule,
        }
    }

    /// As people write it.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
        }
    }
}

/// The pattern, which has to match all of a text.
///
/// # Errors
/// Why it is none, or is too large.
pub fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN {
        return Err(format!("must be at most {MAX_PATTERN} bytes long"));
    }
    // By itself first: what closes a bracket too many would fit into the brackets around it.
    let build = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_BYTES).build();
    build(text)
        .and_then(|_| build(&format!("^(?:{text})$")))
        .map_err(|wrong| format!("is no pattern: {wrong}"))
}

impl Constraint {
    /// The attribute has one of these values.
    #[must_use]
    pub fn one_of(attribute: &str, values: &[&str]) -> Self {
        Self {
            attribute: attribute.to_owned(),
            test: Test::In(values.iter().map(|v| (*v).to_owned()).collect()),
            negate: false,
        }
    }

    /// The same rule turned round.
    #[must_use]
    pub fn turned(self) -> Self {
        Self {
            negate: !self.negate,
            ..self
        }
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            attribute,
            test,
            negate,
        } = self;
        let not = if *negate { "not " } else { "" };
        match test {
            Test::In(values) => {
                let other = if *negate { "other than " } else { "" };
                write!(f, "{attribute} {other}{}", values.join(" or "))
            }
            Test::Exists => write!(f, "{} {attribute}", if *negate { "no" } else { "any" }),
            Test::Compares(how, n) => write!(f, "{attribute} {not}{} {n}", how.sign()),
            Test::Matches(pattern) => write!(f, "{attribute} {not}like `{pattern}`"),
        }
    }
}

impl Affinity {
    /// Whether a job with these labels is meant.
    #[must_use]
    pub fn means(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(k, v)| labels.get(k) == Some(v))
    }

    /// Whether it has to be so.
    #[must_use]
    pub const fn is_hard(&self) -> bool {
        self.weight.is_none()
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        write!(f, "{} by {}", labels.join(","), self.topology)
    }
}

impl Siting {
    /// Whether anything is asked that depends on where other jobs are.
    #[must_use]
    pub const fn minds_others(&self) -> bool {
        self.exclusive || !self.affinity.is_empty() || !self.anti_affinity.is_empty()
    }

    /// Whether other jobs may be kept from hosts by it.
    #[must_use]
    pub fn keeps_others_away(&self) -> bool {
        self.exclusive || self.anti_affinity.iter().any(Affinity::is_hard)
    }

    /// Whether any rule that has to hold depends on where runs are, and not on the host alone.
    #[must_use]
    pub fn depends_on_runs(&self) -> bool {
        !self.max_per.is_empty() || self.keeps_others_away() || self.affinity.iter().any(Affinity::is_hard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_exact() {
        for (text, n) in [
            ("0", Some(0)),
            ("8", Some(8_000_000)),
            ("-2.5", Some(-2_500_000)),
            ("0.000001", Some(1)),
            ("0.0000001", None),
            ("", None),
            ("-", None),
            ("1.", None),
            (".5", None),
            ("1e3", None),
            ("9223372036854775807", None),
        ] {
            let read = Number::parse(text);
            assert_eq!(read, n.map(Number), "{text}");
            if let Some(n) = read {
                assert_eq!(n.to_string(), text);
            }
        }
        assert_eq!(Number::parse("1.50").unwrap().to_string(), "1.5");
    }

    #[test]
    fn a_pattern_matches_the_whole_text_and_is_bounded() {
        assert!(pattern("r[0-9]+").unwrap().is_match("r12"));
        assert!(!pattern("r[0-9]+|x").unwrap().is_match("ar12"));
        for wrong in ["(", ")(", "a)|(b", &"a".repeat(256), "((a{99}){99}){99}"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_read_as_people_say_them() {
        let rack = Constraint::one_of("rack", &["r1", "r2"]);
        assert_eq!(rack.to_string(), "rack r1 or r2");
        assert_eq!(rack.turned().to_string(), "rack other than r1 or r2");
        let rule = |test| Constraint {
            attribute: "cores".to_owned(),
            test,
            negate: false,
        };
        let at_least = Test::Compares(Comparison::AtLeast, Number(8_000_000));
        assert_eq!(rule(at_least).to_string(), "cores >= 8");
        assert_eq!(rule(Test::Exists).turned().to_string(), "no cores");
    }
}
