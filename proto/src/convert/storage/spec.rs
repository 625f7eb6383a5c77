//! Specs are stored as the public API says them, with every default spelt out.

use crate::convert::{FieldError, FieldProblem, Wire, spec};
use crate::echelon::v1;
use echelon_core_model::spec::JobSpec;

impl Wire for JobSpec {
    type Message = v1::JobSpec;

    fn to_wire(&self) -> Self::Message {
        spec::spec(self)
    }

    fn from_wire(message: Self::Message) -> Result<Self, FieldError> {
        spec::from_wire(message).map_err(|problems| {
            let first = problems.0.into_iter().next();
            first.map_or_else(
                || FieldError::new("spec", FieldProblem::Missing),
                |v| FieldError::new(&v.field, FieldProblem::Spec(v.problem)),
            )
        })
    }
}
