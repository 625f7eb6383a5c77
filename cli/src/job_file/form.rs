//! Forms of values in a job file: what editors and the reference page say of them, and how they are written. Whether a value is right is
//! judged where it is read; `tests/schema.rs` holds both together.

use super::words;
use serde_json::{Value, json};

/// What a value looks like.
pub trait Form {
    /// Its name in the schema.
    const NAME: &'static str;
    /// Whether it is written as a number or truth value where it is one; else it is always text.
    const BARE: bool = true;

    /// Its schema, without a title.
    fn schema() -> Value;
}

/// Decimal numbers as patterns know them; how large and how exact they may be is judged where they are read.
const DECIMAL: &str = r"([0-9]+\.?[0-9]*|\.[0-9]+)";

fn one_of<T>(description: &str, words: &[(&str, T)]) -> Value {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    json!({"description": description, "enum": words})
}

/// A number that may also be written as text of this pattern.
fn number(kind: &str, least: i64, pattern: &str, description: &str) -> Value {
    json!({"description": description, "type": [kind, "string"], "minimum": least, "pattern": format!("^{pattern}$")})
}

fn text(pattern: &str, description: &str) -> Value {
    json!({"description": description, "type": "string", "pattern": format!("^{pattern}$")})
}

/// Defines forms.
macro_rules! forms {
    ($($(#[doc = $about:literal])* $name:ident = $schema:expr;)*) => {$(
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name;

        impl Form for $name {
            const NAME: &'static str = stringify!($name);

            fn schema() -> Value {
                $schema
            }
        }
    )*};
}

/// Any text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text;

impl Form for Text {
    const NAME: &'static str = "Text";
    const BARE: bool = false;

    fn schema() -> Value {
        json!({"description": "text", "type": ["string", "number", "boolean"]})
    }
}

/// The name of a host pool, which may look like a number, or all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostPool;

impl Form for HostPool {
    const NAME: &'static str = "HostPool";
    const BARE: bool = false;

    fn schema() -> Value {
        let description = "the name of a host pool (a-z, 0-9 and `-`), or `*`";
        json!({"description": description, "type": ["string", "integer"], "pattern": r"^([a-z0-9-]{1,63}|\*)$"})
    }
}

forms! {
    /// True or false.
    Truth = json!({"description": "true or false", "enum": [true, false, "true", "false"]});
    /// A whole number.
    Whole = number("integer", 0, "[0-9]+", "a whole number");
    /// A whole number that may be negative.
    Signed = number("integer", i64::from(i32::MIN), r"[+-]?[0-9]+", "a whole number, which may be negative");
    /// A decimal number.
    Decimal = number("number", i64::MIN, r"[+-]?[0-9]+(\.[0-9]*)?", "a number with at most six places");
    /// A number, or a part.
    Part = number("integer", 0, "[0-9]+( *%)?", "a number, or a part such as `25%`");
    /// A percentage.
    Percent = number("integer", 1, "[0-9]+( *%)?", "a percentage, such as `40%`");
    /// Whether prices count.
    Cost = one_of("whether prices count", &words::COST_RULES);
    /// An exit status.
    ExitStatus = json!({"description": "0 to 255", "type": ["integer", "string"], "minimum": 0, "maximum": 255, "pattern": "^[0-9]+$"});
    /// A port.
    PortNumber = json!({"description": "1 to 65535", "type": ["integer", "string"], "minimum": 1, "maximum": 65535, "pattern": "^[0-9]+$"});
    /// Cores or GPUs.
    Count = number("number", 0, DECIMAL, "a number in thousandths, such as `0.5` or `2`");
    /// Memory or disk.
    Size = text(&format!("{DECIMAL} *(KiB|MiB|GiB|TiB)"), "a size such as `64MiB`: KiB, MiB, GiB, TiB");
    /// A length of time.
    Time = text(&format!("{DECIMAL}(ms|s|m|h|d)"), "a time such as `30s`: ms, s, m, h, d");
    /// Numbers of instances.
    Instances = number("integer", 0, "[0-9]+( *- *[0-9]+)?( *, *[0-9]+( *- *[0-9]+)?)*", "instances, such as `7`, `0-3` or `0-3,8`");
    /// What to do about silence.
    Silence = text(&format!("(wait|replace after {DECIMAL}(ms|s|m|h|d))"), "`wait`, or `replace after 5m`");
    /// When a job has succeeded.
    Completion = number("integer", 0, "(all|any|[0-9]+)", "`all`, `any`, or a number of instances");
    /// The kind of a job.
    Kind = one_of("the kind of a job", &words::KINDS);
    /// How instances are divided over clusters.
    Spread = one_of("how instances are divided over clusters", &words::SPREADS);
    /// What other jobs have to have come to.
    Condition = one_of("what another job has come to", &words::CONDITIONS);
    /// What follows the end of a run.
    Restart = one_of("what follows the end of a run", &words::RESTARTS);
    /// What follows failures in a rollout.
    OnFailure = one_of("what follows when too many fail", &words::ON_FAILURES);
    /// What follows the failure of a member of a gang.
    MemberFailure = one_of("what follows the failure of a member", &words::MEMBER_FAILURES);
    /// What becomes of a due time while earlier jobs run.
    Overlap = one_of("what becomes of a due time while earlier jobs run", &words::OVERLAPS);
    /// What becomes of due times that were missed.
    CatchUp = one_of("what becomes of due times that were missed", &words::CATCH_UPS);
    /// What becomes of a volume.
    Reclaim = one_of("what becomes of a volume", &words::RECLAIMS);
    /// Who runs a container.
    Containerizer = one_of("who runs a container", &words::CONTAINERIZERS);
    /// The format of an image.
    ImageFormat = one_of("format of an image", &words::IMAGE_FORMATS);
    /// The protocol of a port.
    Protocol = one_of("protocol of a port", &words::PROTOCOLS);
    /// Who is to find a port.
    Visibility = one_of("who is to find a port", &words::VISIBILITIES);
}
