//! Judges values by a schema: the few keywords that ours is made of, each by the letter of JSON Schema 2020-12, and no others.

use super::Objects;
use crate::job_file::schema;
use regex::Regex;
use serde_json::Value;

/// The schema of job files.
pub struct Schema(Value);

impl Schema {
    pub fn new() -> Self {
        Self(schema::schema())
    }

    /// All that is wrong with a file in YAML.
    pub fn wrong(&self, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        // As YAML 1.2 has it: `yes` is a text.
        let options = serde_saphyr::options! { strict_booleans: true };
        match serde_saphyr::from_str_with_options::<Value>(text, options) {
            Ok(value) => self.check(&self.0, &value, "", &mut out),
            Err(why) => out.push(why.to_string()),
        }
        out
    }

    /// What is defined under a name.
    pub fn named(&self, reference: &str) -> &Value {
        let name = reference
            .strip_prefix("#/$defs/")
            .expect("all references are to definitions");
        &self.0["$defs"][name]
    }

    /// The whole of it.
    pub fn root(&self) -> &Value {
        &self.0
    }

    /// Fields of all shapes, by the name of the shape.
    pub fn objects(&self) -> Objects {
        let defs = self.0["$defs"].as_object().unwrap().iter();
        let defs = defs.map(|(name, def)| (name.as_str(), def));
        let all = defs.chain([("JobFile", &self.0)]);
        let shapes = all.filter_map(|(name, def)| {
            let fields = def["properties"].as_object()?.keys().cloned().collect();
            assert_eq!(def["additionalProperties"], false, "{name} takes unknown fields");
            Some((name.to_owned(), fields))
        });
        shapes.collect()
    }

    fn check(&self, schema: &Value, value: &Value, path: &str, out: &mut Vec<String>) {
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            if !self.holds((keyword, rule), schema, value, (path, out)) {
                out.push(format!("{path}: {value} breaks {keyword} {rule}"));
            }
        }
    }

    fn holds(
        &self,
        (keyword, rule): (&str, &Value),
        schema: &Value,
        value: &Value,
        (path, out): (&str, &mut Vec<String>),
    ) -> bool {
        match keyword {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => self.check(self.named(rule.as_str().unwrap()), value, path, out),
            "anyOf" => {
                let fits = |one: &Value| {
                    let mut wrong = Vec::new();
                    self.check(one, value, path, &mut wrong);
                    wrong.is_empty()
                };
                return rule.as_array().unwrap().iter().any(fits);
            }
            "type" => return types(rule).iter().any(|t| is_of(t, value)),
            "enum" => return rule.as_array().unwrap().contains(value),
            "pattern" => {
                let pattern = Regex::new(rule.as_str().unwrap()).unwrap();
                return value.as_str().is_none_or(|text| pattern.is_match(text));
            }
            "minimum" => return value.as_f64().is_none_or(|n| n >= rule.as_f64().unwrap()),
            "maximum" => return value.as_f64().is_none_or(|n| n <= rule.as_f64().unwrap()),
            "required" => {
                let fields = rule.as_array().unwrap().iter();
                let there = |f: &Value| {
                    value
                        .as_object()
                        .is_none_or(|o| o.contains_key(f.as_str().unwrap()))
                };
                return fields.into_iter().all(there);
            }
            "properties" | "additionalProperties" => {
                for (name, inner) in value.as_object().into_iter().flatten() {
                    let own = schema["properties"].get(name);
                    match (keyword, own, rule) {
                        ("properties", Some(own), _) => {
                            self.check(own, inner, &format!("{path}.{name}"), out)
                        }
                        ("additionalProperties", None, Value::Bool(false)) => {
                            out.push(format!("{path}: `{name}` is unknown"));
                        }
                        ("additionalProperties", None, any) => {
                            self.check(any, inner, &format!("{path}.{name}"), out)
                        }
                        _ => {}
                    }
                }
            }
            "items" => {
                for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
                    self.check(rule, inner, &format!("{path}[{i}]"), out);
                }
            }
            _ => panic!("this test does not know the keyword {keyword}"),
        }
        true
    }
}

/// One type, or several.
pub fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|n| n.fract() == 0.0),
        _ => panic!("this test does not know the type {kind}"),
    }
}
