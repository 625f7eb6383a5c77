//! How the shape of a part of a job file is defined: once, for what reads it, what writes it, its schema and its page.

use super::scalar::Scalar;
use serde::de::{DeserializeOwned, Deserializer, Error, Visitor, value};
use std::collections::BTreeMap;

/// Whether a field is not written.
pub trait Written {
    /// Whether it stands for nothing.
    fn is_left_out(&self) -> bool;
}

impl<T> Written for Option<T> {
    fn is_left_out(&self) -> bool {
        self.is_none()
    }
}

impl<F> Written for Scalar<F> {
    fn is_left_out(&self) -> bool {
        false
    }
}

impl<V> Written for BTreeMap<String, V> {
    fn is_left_out(&self) -> bool {
        false
    }
}

/// Defines shapes: unknown fields are errors, an `Option` may be left out, and a comment is what pages and editors say of a field.
macro_rules! shapes {
    ($($(#[$meta:meta])* $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(skip_serializing_if = "crate::job_file::shape::Written::is_left_out")]
                pub $field: $type,
            )*
        }

        impl crate::job_file::shape::Written for $name {
            fn is_left_out(&self) -> bool {
                false
            }
        }
    )*};
}
pub(super) use shapes;

/// The fields of a shape, in order, as its reader knows them.
pub fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    let mut found: &'static [&'static str] = &[];
    // It cannot be read out of nothing, but asks for its fields first.
    let _ = T::deserialize(Asked(&mut found));
    found
}

/// Notes which fields are asked for.
struct Asked<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
        Err(value::Error::custom("there is nothing"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, value::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}
