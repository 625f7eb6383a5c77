//! Reading of single fields, shared by all conversions below.

use super::{FieldError, FieldProblem, Wire};
use echelon_core_model::platform::PlatformCause;
use echelon_core_model::range::{InstanceRange, RangeSet};
use echelon_core_model::{
    ClusterId, Generation, GroupName, JobId, ReasonCode, RunState, Timestamp, VolumeId,
};
use std::collections::BTreeMap;

/// A message that must be there.
pub fn required<T: Wire>(field: &str, message: Option<T::Message>) -> Result<T, FieldError> {
    let message = message.ok_or_else(|| FieldError::new(field, FieldProblem::Missing))?;
    T::from_wire(message).map_err(|e| e.within(field))
}

/// A message that may be there.
pub fn optional<T: Wire>(field: &str, message: Option<T::Message>) -> Result<Option<T>, FieldError> {
    message
        .map(|m| T::from_wire(m).map_err(|e| e.within(field)))
        .transpose()
}

/// A list of messages.
pub fn list<T: Wire>(field: &str, messages: Vec<T::Message>) -> Result<Vec<T>, FieldError> {
    messages
        .into_iter()
        .enumerate()
        .map(|(i, m)| T::from_wire(m).map_err(|e| e.within_item(field, i)))
        .collect()
}

/// The messages of a list.
pub fn messages<T: Wire>(values: &[T]) -> Vec<T::Message> {
    values.iter().map(Wire::to_wire).collect()
}

/// A map from names.
pub fn by_name<T: Wire>(
    field: &str,
    map: BTreeMap<String, T::Message>,
) -> Result<BTreeMap<String, T>, FieldError> {
    map.into_iter()
        .map(|(name, m)| {
            let value = T::from_wire(m).map_err(|e| e.within(&format!("{field}[{name}]")))?;
            Ok((name, value))
        })
        .collect()
}

/// The messages of a map from names.
pub fn names<T: Wire>(map: &BTreeMap<String, T>) -> BTreeMap<String, T::Message> {
    map.iter()
        .map(|(name, value)| (name.clone(), value.to_wire()))
        .collect()
}

/// A map from generations.
pub fn by_generation<T: Wire>(
    field: &str,
    map: BTreeMap<u32, T::Message>,
) -> Result<BTreeMap<Generation, T>, FieldError> {
    map.into_iter()
        .map(|(g, m)| {
            let value = T::from_wire(m).map_err(|e| e.within(&format!("{field}[{g}]")))?;
            Ok((Generation(g), value))
        })
        .collect()
}

/// The messages of a map from generations.
pub fn generations<T: Wire>(map: &BTreeMap<Generation, T>) -> BTreeMap<u32, T::Message> {
    map.iter().map(|(g, v)| (g.0, v.to_wire())).collect()
}

/// A job id's bytes.
pub fn job_bytes(job: JobId) -> Vec<u8> {
    job.0.to_be_bytes().to_vec()
}

/// A job id.
pub fn job_id(field: &str, bytes: &[u8]) -> Result<JobId, FieldError> {
    let wrong = |_| FieldError::new(field, FieldProblem::JobId(bytes.len()));
    Ok(JobId(u128::from_be_bytes(bytes.try_into().map_err(wrong)?)))
}

/// A group's name.
pub fn group(field: &str, text: &str) -> Result<GroupName, FieldError> {
    GroupName::parse(text).map_err(|e| FieldError::new(field, FieldProblem::Id(e)))
}

/// A map from groups.
pub fn by_group<T: Wire>(
    field: &str,
    map: BTreeMap<String, T::Message>,
) -> Result<BTreeMap<GroupName, T>, FieldError> {
    map.into_iter()
        .map(|(name, m)| {
            let value = T::from_wire(m).map_err(|e| e.within(&format!("{field}[{name}]")))?;
            Ok((group(field, &name)?, value))
        })
        .collect()
}

/// A cluster's id, which is never empty.
/// Messages by volume.
pub fn by_volume<T: Wire>(
    field: &str,
    map: BTreeMap<String, T::Message>,
) -> Result<BTreeMap<VolumeId, T>, FieldError> {
    let read = |(id, message)| {
        Ok((
            VolumeId::new(&id),
            T::from_wire(message).map_err(|e: FieldError| e.within(field))?,
        ))
    };
    map.into_iter().map(read).collect()
}

/// The same to the wire.
pub fn by_volume_to_wire<T: Wire>(map: &BTreeMap<VolumeId, T>) -> BTreeMap<String, T::Message> {
    map.iter()
        .map(|(id, value)| (id.to_string(), value.to_wire()))
        .collect()
}

/// A cluster's id.
pub fn cluster(field: &str, text: &str) -> Result<ClusterId, FieldError> {
    if text.is_empty() {
        return Err(FieldError::new(field, FieldProblem::Missing));
    }
    Ok(ClusterId::new(text))
}

/// A reason code by its number. One that this build does not know makes nothing unreadable; 0 is no reason.
pub fn reason_code(field: &str, number: u32) -> Result<ReasonCode, FieldError> {
    if number == 0 {
        return Err(FieldError::new(field, FieldProblem::Unknown(0)));
    }
    Ok(ReasonCode::from_number(number))
}

/// A run state by its number.
pub fn run_state(field: &str, number: u32) -> Result<RunState, FieldError> {
    let state = u8::try_from(number).ok().and_then(RunState::from_number);
    state.ok_or_else(|| FieldError::new(field, FieldProblem::Unknown(number.into())))
}

/// A fault of the platform by its number, where there is one.
pub fn platform_cause(field: &str, number: Option<u32>) -> Result<Option<PlatformCause>, FieldError> {
    let known = |number: u32| {
        let unknown = FieldProblem::Unknown(i64::from(number));
        PlatformCause::from_number(number).ok_or_else(|| FieldError::new(field, unknown))
    };
    number.map(known).transpose()
}

/// A moment that may be unknown.
pub fn moment(ms: Option<u64>) -> Option<Timestamp> {
    ms.map(Timestamp)
}

/// A range as a message.
pub fn range(field: &str, first: u32, last: u32) -> Result<InstanceRange, FieldError> {
    InstanceRange::new(first, last).ok_or_else(|| FieldError::new(field, FieldProblem::Range { first, last }))
}

/// Ranges whose order and overlaps do not matter: the set is the same.
pub fn range_set(ranges: Vec<InstanceRange>) -> RangeSet {
    ranges.into_iter().collect()
}

/// Conversions of an enum that has no numbers of its own in the model. Unspecified and unknown values are errors.
macro_rules! wire_enum {
    ($model:ty, $message:ty, $($variant:ident),+) => {
        impl $crate::convert::fields::WireEnum for $model {
            fn number(self) -> i32 {
                match self {
                    $(Self::$variant => <$message>::$variant as i32,)+
                }
            }

            fn of_number(number: i32) -> Option<Self> {
                match <$message>::try_from(number).ok()? {
                    $(<$message>::$variant => Some(Self::$variant),)+
                    <$message>::Unspecified => None,
                }
            }
        }
    };
}
pub(crate) use wire_enum;

/// An enum of the model with the numbers of its message enum.
pub trait WireEnum: Sized {
    /// Its number.
    fn number(self) -> i32;

    /// The value of a number.
    fn of_number(number: i32) -> Option<Self>;
}

/// An enum's value.
pub fn word<T: WireEnum>(field: &str, number: i32) -> Result<T, FieldError> {
    T::of_number(number).ok_or_else(|| FieldError::new(field, FieldProblem::Unknown(number.into())))
}
