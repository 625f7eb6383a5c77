//! The JSON Schema of job files, made of the shapes that they are read by: for editors, and for `docs/job-reference.md`.

use super::file::JobFile;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<JobFile>();
    schema.insert("title".to_owned(), "Echelon job file".into());
    schema.to_value()
}

/// The schema as text, with a line's end.
#[must_use]
pub fn text() -> String {
    serde_json::to_string_pretty(&schema()).unwrap_or_default() + "\n"
}
