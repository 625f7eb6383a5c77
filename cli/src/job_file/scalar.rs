//! A scalar of a job file with its text kept, so that a wrong value is reported with its field's path and as it was
//! written, not as a parser's complaint about types.

use super::form::{Form, Text};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A text, number or truth value, as text; what it is to look like is a part of its type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scalar<F = Text>(pub String, PhantomData<F>);

impl<F> Scalar<F> {
    /// As it is written.
    pub fn new(text: impl ToString) -> Self {
        Self(text.to_string(), PhantomData)
    }
}

struct ScalarVisitor<F>(PhantomData<F>);

impl<F> Visitor<'_> for ScalarVisitor<F> {
    type Value = Scalar<F>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a single value")
    }

    fn visit_str<E: Error>(self, v: &str) -> Result<Scalar<F>, E> {
        Ok(Scalar::new(v))
    }

    fn visit_bool<E: Error>(self, v: bool) -> Result<Scalar<F>, E> {
        Ok(Scalar::new(v))
    }

    fn visit_i64<E: Error>(self, v: i64) -> Result<Scalar<F>, E> {
        Ok(Scalar::new(v))
    }

    fn visit_u64<E: Error>(self, v: u64) -> Result<Scalar<F>, E> {
        Ok(Scalar::new(v))
    }

    fn visit_f64<E: Error>(self, v: f64) -> Result<Scalar<F>, E> {
        Ok(Scalar::new(v))
    }
}

impl<'de, F> Deserialize<'de> for Scalar<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A YAML scalar is text to begin with; asking for text keeps `0.10` and `1e3` as they were written.
        deserializer.deserialize_str(ScalarVisitor(PhantomData))
    }
}

impl<F: Form> Serialize for Scalar<F> {
    /// As a number or truth value where it is written as one would be, so that it reads back as the same text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.as_str();
        let same = |shown: String| shown == text;
        match (F::BARE, text) {
            (true, "true" | "false") => return serializer.serialize_bool(text == "true"),
            (true, _) => {}
            (false, _) => return serializer.serialize_str(text),
        }
        match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) if same(n.to_string()) => serializer.serialize_i64(n),
            (_, Ok(n)) if n.is_finite() && text.contains('.') && same(n.to_string()) => {
                serializer.serialize_f64(n)
            }
            _ => serializer.serialize_str(text),
        }
    }
}

impl<F: Form> JsonSchema for Scalar<F> {
    fn schema_name() -> Cow<'static, str> {
        F::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::try_from(F::schema()).unwrap_or_default()
    }
}
