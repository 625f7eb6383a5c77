//! Where in a file something stands: for errors, which are found in what the file means. A file is read once more for that, and only then.

use super::{options, scalar::Scalar};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, NonFiniteFloatPolicy, Spanned};
use std::fmt;

/// A value of a file with its place.
#[derive(Debug)]
pub struct Placed {
    location: Location,
    node: Node,
}

#[derive(Debug)]
enum Node {
    Fields(Vec<(String, Placed)>),
    List(Vec<Placed>),
    Single,
}

/// A file as far as it can be read.
pub fn tree(text: &str) -> Option<Placed> {
    let mut options = options();
    // What they are is judged by who reads the file; here they only have a place.
    options.non_finite_float_policy = NonFiniteFloatPolicy::AsString;
    serde_saphyr::from_str_with_options(text, options).ok()
}

impl Placed {
    /// The line of the value at a path such as `groups.worker.after[0].condition`, or of the nearest one around it that is there.
    pub fn line(&self, path: &str) -> u64 {
        let rest = path.strip_prefix('.').unwrap_or(path);
        let found = match &self.node {
            Node::Fields(fields) => field(fields, rest),
            Node::List(items) => item(items, rest),
            Node::Single => None,
        };
        found.map_or(self.location.line(), |(inner, rest)| inner.line(rest))
    }

    /// Path and description of the value that begins at a place.
    pub fn at(&self, line: u64, column: u64) -> Option<(String, &'static str)> {
        let inner = match &self.node {
            Node::Fields(fields) => fields.iter().find_map(|(name, value)| {
                let (path, what) = value.at(line, column)?;
                Some((joined(name, &path), what))
            }),
            Node::List(items) => items.iter().enumerate().find_map(|(i, value)| {
                let (path, what) = value.at(line, column)?;
                Some((joined(&format!("[{i}]"), &path), what))
            }),
            Node::Single => None,
        };
        let here = (self.location.line(), self.location.column()) == (line, column);
        // A value may begin where its first field's value does not: the innermost is meant only where none around it begins there.
        if here {
            Some((String::new(), self.kind()))
        } else {
            inner
        }
    }

    const fn kind(&self) -> &'static str {
        match &self.node {
            Node::Fields(_) => "are fields",
            Node::List(_) => "is a list",
            Node::Single => "is a single value",
        }
    }
}

fn joined(name: &str, rest: &str) -> String {
    if rest.is_empty() || rest.starts_with('[') {
        format!("{name}{rest}")
    } else {
        format!("{name}.{rest}")
    }
}

/// The field at the beginning of a path, and the rest of that. Names may have dots in them: the longest that fits is meant.
fn field<'a, 'p>(fields: &'a [(String, Placed)], path: &'p str) -> Option<(&'a Placed, &'p str)> {
    let fits = fields.iter().filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        let ends = rest.is_empty() || rest.starts_with(['.', '[']);
        ends.then_some((name.len(), value, rest))
    });
    let (_, value, rest) = fits.max_by_key(|(length, ..)| *length)?;
    Some((value, rest))
}

fn item<'a, 'p>(items: &'a [Placed], path: &'p str) -> Option<(&'a Placed, &'p str)> {
    let (number, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((items.get(number.parse::<usize>().ok()?)?, rest))
}

impl<'de> Deserialize<'de> for Placed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self {
            location: spanned.referenced,
            node: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<Scalar, Placed>()? {
            fields.push((name.0, value));
        }
        Ok(Node::Fields(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Single)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Single)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Single)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Single)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Single)
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Single)
    }
}
