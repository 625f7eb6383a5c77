//! A scalar of a job file with its text kept, so that a wrong value is reported with its field's path and as it was
//! written, not as a parser's complaint about types.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use std::fmt;

/// A text, number or truth value, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar(pub String);

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<Scalar, E> {
        Ok(Scalar(v.to_owned()))
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<Scalar, E> {
        Ok(Scalar(v.to_string()))
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<Scalar, E> {
        Ok(Scalar(v.to_string()))
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<Scalar, E> {
        Ok(Scalar(v.to_string()))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<Scalar, E> {
        Ok(Scalar(v.to_string()))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A YAML scalar is text to begin with; asking for text keeps `0.10` and `1e3` as they were written.
        deserializer.deserialize_str(ScalarVisitor)
    }
}
