//! The range of every number that is sent or stored, in one table. A number is compared in the bytes, before
//! a message is made of them: a generated message would silently cut a number that is too long for its field.

use super::{FieldError, FieldProblem};
use crate::FILE_DESCRIPTOR_SET;
use echelon_core_model::class::MOST_A_CLUSTER;
use echelon_core_model::gone::AgentTimes;
use echelon_core_model::health::ClusterHealth;
use echelon_core_model::spec::MAX_INSTANCES;
use prost::{Message as _, Name};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a number may be, ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub first: i128,
    /// The largest.
    pub last: i128,
}

impl Range {
    const fn up_to(last: i128) -> Self {
        Self { first: 0, last }
    }

    /// Whether a number is in it.
    #[must_use]
    pub const fn holds(self, number: i128) -> bool {
        self.first <= number && number <= self.last
    }
}

/// A leadership's number. The stamps of owned writes hold 23 bits of it.
const EPOCH: Range = Range {
    first: 1,
    last: (1 << 23) - 1,
};
/// The same where 0 says that there is none.
const NO_EPOCH: Range = Range::up_to(EPOCH.last);
/// A number within an epoch. Stamps hold 40 bits of it.
const SEQUENCE: Range = Range::up_to((1 << 40) - 1);
/// An epoch and a number within it, together.
const STAMP: Range = Range::up_to(i64::MAX as i128);
/// A count, a size or a version: sums of many stay within 64 bits, and JSON tells them exactly.
const WHOLE: Range = Range::up_to(1 << 53);
/// A moment or a span in milliseconds: a moment and a span give a moment.
const MILLIS: Range = WHOLE;
/// A time from the flags of an agent.
const AGENT_TIME: Range = Range::up_to(AgentTimes::MOST.0 as i128);
/// What is counted up by one: the next one is always possible.
const COUNTER: Range = Range::up_to(i32::MAX as i128);
/// A stable number of a state, a kind or a reason.
const CODE: Range = Range::up_to(u16::MAX as i128);
const PORT: Range = Range::up_to(u16::MAX as i128);
/// Failures in a row that are counted at most.
const SHORT: Range = Range::up_to(u16::MAX as i128);
/// What a cluster or a pool has of a resource.
const AMOUNT: Range = Range::up_to(1 << 60);
/// The number of an instance, or the end of a range of them.
const INSTANCE: Range = Range::up_to(u32::MAX as i128);
/// Instances of all groups of one job.
const JOB_INSTANCES: Range = Range::up_to(MAX_INSTANCES as i128);
/// How often a hold after a bad state is doubled.
const DOUBLINGS: Range = Range::up_to(ClusterHealth::MOST_DOUBLINGS as i128);
/// Instances of one class that fit in a cluster.
const FITS: Range = Range::up_to(MOST_A_CLUSTER as i128);
/// A secret that was drawn, or a hash.
const DRAWN: Range = Range {
    first: 1,
    last: u64::MAX as i128,
};
const HASH: Range = Range::up_to(u64::MAX as i128);
/// A process' exit code.
const EXIT: Range = Range {
    first: i32::MIN as i128,
    last: i32::MAX as i128,
};

/// Numbers by `Message.field`, before those by their field alone. The packages of rows and of streams have no
/// field of one name twice that needs another range, but for these.
const BY_FIELD: &[(&str, Range)] = &[
    ("AgentCounts.active", INSTANCE),
    ("AgentCounts.unreachable", INSTANCE),
    ("AssignedRange.generation", COUNTER),
    ("Block.number", INSTANCE),
    ("CheckInstancesRequest.instances", JOB_INSTANCES),
    ("ClassFit.ever", FITS),
    ("ClassFit.now", FITS),
    ("ClassesOrder.left_out", INSTANCE),
    ("Cluster.accepted_loss", MILLIS),
    ("ClaimId.number", SEQUENCE),
    ("Control.version", WHOLE),
    ("DirectRequest.accept_loss", MILLIS),
    ("EventInstance.number", INSTANCE),
    ("EventSpot.day", INSTANCE),
    ("EventSpot.lane", PORT),
    ("FitsReport.left_out", INSTANCE),
    ("FitsReport.revision", SEQUENCE),
    ("Grant.number", STAMP),
    ("GroupStarts.begun", INSTANCE),
    ("GroupStarts.cause", CODE),
    ("GroupStarts.failed", INSTANCE),
    ("GroupStarts.group_hash", HASH),
    ("GroupStarts.host_hashes", HASH),
    ("HealthCause.code", CODE),
    ("HealthCause.count", INSTANCE),
    ("HealthCause.of", INSTANCE),
    ("Instance.number", INSTANCE),
    ("InstanceRecord.number", INSTANCE),
    ("ListRunsRequest.limit", INSTANCE),
    ("MassLoss.number", MILLIS),
    ("Mark.control", WHOLE),
    ("Member.sidecar", INSTANCE),
    ("NamedClass.ports", PORT),
    ("PlacedHolder.cluster", INSTANCE),
    ("PlacedRange.cluster", INSTANCE),
    ("PlacedReleasing.to", INSTANCE),
    ("PlannedRequest.hash", HASH),
    ("Port.name", INSTANCE),
    ("Port.number", PORT),
    ("PriorityBounds.default", INSTANCE),
    ("PriorityBounds.max", INSTANCE),
    ("PriorityBounds.min", INSTANCE),
    ("QuotaLimit.limit", AMOUNT),
    ("QuotaLimit.one_host", AMOUNT),
    ("QuotaLimit.ours", AMOUNT),
    ("ReadLogRequest.instance", INSTANCE),
    ("ReadLogRequest.offset", STAMP),
    ("ReadLogRequest.tail_bytes", STAMP),
    ("ReadLogResponse.offset", STAMP),
    ("ReleasedNumbers.cluster", INSTANCE),
    ("RoleState.epoch", NO_EPOCH),
    ("ShardSigns.master_hash", HASH),
    ("Rollout.number", COUNTER),
    ("RolloutProgress.number", COUNTER),
    ("SpecDigest.version", COUNTER),
    ("Run.number", COUNTER),
    ("StartBan.number", SEQUENCE),
    ("StartsReport.left_out", WHOLE),
    ("StreamChangesRequest.epoch", NO_EPOCH),
    ("Tail.size", STAMP),
];

/// Numbers of rows and streams by the name of their field.
const BY_NAME: &[(&str, Range)] = &[
    ("active", WHOLE),
    ("adopted", NO_EPOCH),
    ("alive_until_ms", MILLIS),
    ("answer_age_ms", MILLIS),
    ("as_of_ms", MILLIS),
    ("attempt", INSTANCE),
    ("attempts", INSTANCE),
    ("attributes_left_out", INSTANCE),
    ("avoid", INSTANCE),
    ("back", CODE),
    ("base", COUNTER),
    ("batch", INSTANCE),
    ("between_runs", WHOLE),
    ("by_state", WHOLE),
    ("class", INSTANCE),
    ("code", CODE),
    ("commit_age_ms", MILLIS),
    ("count", WHOLE),
    ("cpus", AMOUNT),
    ("crash_looping", WHOLE),
    ("disk", AMOUNT),
    ("displaced", WHOLE),
    ("change", SEQUENCE),
    ("doublings", DOUBLINGS),
    ("doubted_ms", MILLIS),
    ("ended_version", WHOLE),
    ("epoch", EPOCH),
    ("event_age_ms", MILLIS),
    ("exit_code", EXIT),
    ("failed", WHOLE),
    ("failed_version", COUNTER),
    ("fault", CODE),
    ("first", INSTANCE),
    ("first_behind", INSTANCE),
    ("forgiven", WHOLE),
    ("gang_try", COUNTER),
    ("generation", COUNTER),
    ("gpus", AMOUNT),
    ("grant_number", STAMP),
    ("granted", WHOLE),
    ("have", HASH),
    ("head_version", WHOLE),
    ("heartbeat_at_ms", MILLIS),
    ("held", CODE),
    ("host", INSTANCE),
    ("hostname", INSTANCE),
    ("hosts", INSTANCE),
    ("instances", WHOLE),
    ("last", INSTANCE),
    ("last_loss", MILLIS),
    ("left", WHOLE),
    ("limit", WHOLE),
    ("live", WHOLE),
    ("loss", MILLIS),
    ("lost", WHOLE),
    ("max_instances", WHOLE),
    ("max_jobs", WHOLE),
    ("max_unavailable", INSTANCE),
    ("memory", AMOUNT),
    ("missing", WHOLE),
    ("most", WHOLE),
    ("need", HASH),
    ("obeyed", NO_EPOCH),
    ("observed_at_ms", MILLIS),
    ("observed_ms", MILLIS),
    ("open", WHOLE),
    ("others", WHOLE),
    ("outdated", WHOLE),
    ("part_number", STAMP),
    ("pieces", COUNTER),
    ("platform_failures", SHORT),
    ("preempted", WHOLE),
    ("preempting", WHOLE),
    ("proof", DRAWN),
    ("recovery_ms", AGENT_TIME),
    ("restarting", WHOLE),
    ("restarts", COUNTER),
    ("resumed", NO_EPOCH),
    ("returned_at_ms", MILLIS),
    ("revision", COUNTER),
    ("roles_left_out", INSTANCE),
    ("run", COUNTER),
    ("running", WHOLE),
    ("runs", WHOLE),
    ("sequence", SEQUENCE),
    ("settled", NO_EPOCH),
    ("silence", WHOLE),
    ("shutdown_ms", AGENT_TIME),
    ("size_mib", AMOUNT),
    ("spec_version", COUNTER),
    ("state", CODE),
    ("stopped", WHOLE),
    ("subscription_age_ms", MILLIS),
    ("succeeded", WHOLE),
    ("superseded", EPOCH),
    ("taken", WHOLE),
    ("taken_over", WHOLE),
    ("tasks", INSTANCE),
    ("unanswered", INSTANCE),
    ("unavailable", WHOLE),
    ("unstarted", WHOLE),
    ("update_below", INSTANCE),
    ("update_failures", WHOLE),
    ("updated", WHOLE),
    ("version", WHOLE),
    ("volumes_left_out", INSTANCE),
    ("waited_ms", MILLIS),
    ("why", CODE),
    ("written", STAMP),
];

/// Numbers of rows and streams that are keys or values of maps, by the map.
const BY_MAP: &[(&str, Range)] = &[
    ("Assignment.holders", COUNTER),
    ("SliceRow.grants", COUNTER),
    ("SliceRow.own", COUNTER),
    ("SliceRow.released", COUNTER),
    ("SliceRow.taken_over", COUNTER),
];

/// Resources of which every number says "no bound" when it is the largest there is.
const UNBOUNDED: &[&str] = &[
    "Pool.controller_limit",
    "Pool.limit",
    "Pool.max_instance",
    "Pool.revocable_limit",
    "Quota.left",
];
const RESOURCES: &str = "echelon.storage.v1.Resources";
const UNBOUNDED_RESOURCES: &str = "echelon.storage.v1.Resources without bounds";

/// Packages whose numbers all stand in the tables above. What users send has the ranges of its types here,
/// and narrower ones by the rules of specs and pools.
const CHECKED: [&str; 2] = ["echelon.storage.v1", "echelon.shard.v1"];

/// How a number stands in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Unsigned,
    Signed,
    ZigZag,
    /// Fixed length.
    Fixed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number(Range, Coding),
    Message(usize),
    /// Bytes or text.
    Other,
}

/// A field of a message.
#[derive(Debug, Clone)]
struct Field {
    name: String,
    kind: Kind,
    repeated: bool,
    /// It says 0 when it is left out, and 0 is out of its range.
    needed: bool,
}

/// The fields of a message by their tags.
#[derive(Debug, Clone, Default)]
struct Fields(BTreeMap<u32, Field>);

/// A number that stands in a message, for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// The full name of the message.
    pub message: String,
    /// The field.
    pub field: String,
    /// Its tag.
    pub tag: u32,
    /// Its range.
    pub range: Range,
    /// What its type can hold.
    pub of_type: Range,
}

struct Tables {
    by_name: BTreeMap<String, usize>,
    all: Vec<Fields>,
    numbers: Vec<Number>,
    /// Fields that no table names.
    forgotten: Vec<String>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::new);

/// All numbers of all messages of ours.
#[must_use]
pub fn numbers() -> &'static [Number] {
    &TABLES.numbers
}

/// Numbers of rows and streams that no table names. There are none, or a field was added without a range.
#[must_use]
pub fn without_range() -> &'static [String] {
    &TABLES.forgotten
}

/// Compares every number in the bytes of a message with its range.
///
/// # Errors
/// The first number that is out of its range, with the path of its field.
pub fn check<M: Name>(bytes: &[u8]) -> Result<(), FieldError> {
    check_named(&M::full_name(), bytes)
}

/// The same of a message that is named.
///
/// # Errors
/// The same.
pub fn check_named(message: &str, bytes: &[u8]) -> Result<(), FieldError> {
    match TABLES.by_name.get(message) {
        Some(index) => TABLES.check(*index, bytes),
        None => Ok(()),
    }
}

impl Tables {
    fn new() -> Self {
        let mut out = Self {
            by_name: BTreeMap::new(),
            all: Vec::new(),
            numbers: Vec::new(),
            forgotten: Vec::new(),
        };
        // The set is made by the build of this crate.
        let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap_or_default();
        let mut messages = Vec::new();
        for file in &set.file {
            let package = file.package();
            if package.starts_with("echelon.") || package == "google.protobuf" {
                for message in &file.message_type {
                    collect(package, message, &mut messages);
                }
            }
        }
        for (index, (name, _)) in messages.iter().enumerate() {
            out.by_name.insert(name.clone(), index);
        }
        let unbounded = messages.len();
        for (name, message) in &messages {
            let fields = out.fields(name, message, unbounded);
            out.all.push(fields);
        }
        if let Some(resources) = out.by_name.get(RESOURCES) {
            let mut fields = out.all.get(*resources).cloned().unwrap_or_default();
            for field in fields.0.values_mut() {
                field.kind = Kind::Number(HASH, Coding::Unsigned);
            }
            out.by_name.insert(UNBOUNDED_RESOURCES.to_owned(), out.all.len());
            out.all.push(fields);
        }
        out
    }

    fn fields(&mut self, name: &str, message: &DescriptorProto, unbounded: usize) -> Fields {
        let fields = message.field.iter().filter_map(|field| {
            let tag = u32::try_from(field.number()).ok()?;
            let kind = match field.r#type() {
                Type::Message => {
                    let short = format!("{}.{}", short_name(name), field.name());
                    let of = field.type_name().trim_start_matches('.');
                    let known = self.by_name.get(of).copied();
                    let index = if UNBOUNDED.contains(&short.as_str()) {
                        Some(unbounded)
                    } else {
                        known
                    };
                    index.map_or(Kind::Other, Kind::Message)
                }
                kind => match coding(kind) {
                    Some((coding, of_type)) => {
                        let range = self.range(name, message, field, of_type);
                        self.numbers.push(Number {
                            message: name.to_owned(),
                            field: field.name().to_owned(),
                            tag,
                            range,
                            of_type,
                        });
                        Kind::Number(range, coding)
                    }
                    None => Kind::Other,
                },
            };
            let repeated = field.label() == Label::Repeated;
            let may_lack = repeated || field.proto3_optional() || field.oneof_index.is_some();
            let needed = match kind {
                Kind::Number(range, _) => !range.holds(0) && !may_lack,
                Kind::Message(_) | Kind::Other => false,
            };
            let field = Field {
                name: field.name().to_owned(),
                kind,
                repeated,
                needed,
            };
            Some((tag, field))
        });
        Fields(fields.collect())
    }

    fn range(
        &mut self,
        name: &str,
        message: &DescriptorProto,
        field: &FieldDescriptorProto,
        of_type: Range,
    ) -> Range {
        if matches!(field.r#type(), Type::Enum | Type::Bool) {
            return of_type;
        }
        match (name, field.name()) {
            ("google.protobuf.Timestamp", "seconds") => return Range::up_to(WHOLE.last / 1000),
            ("google.protobuf.Timestamp", "nanos") => return Range::up_to(999_999_999),
            ("google.protobuf.Duration", "seconds") => return symmetric(315_576_000_000),
            ("google.protobuf.Duration", "nanos") => return symmetric(999_999_999),
            _ => {}
        }
        if !CHECKED.iter().any(|package| name.starts_with(package)) {
            return of_type;
        }
        let is_entry = message.options.as_ref().is_some_and(|o| o.map_entry());
        let found = if is_entry {
            let map = map_name(name);
            let range = BY_MAP.iter().find(|(of, _)| *of == map);
            // The keys of all of these maps are generations.
            range.map(|(_, r)| if field.name() == "key" { COUNTER } else { *r })
        } else {
            let short = format!("{}.{}", short_name(name), field.name());
            let exact = BY_FIELD.iter().find(|(of, _)| *of == short);
            let by_name = || BY_NAME.iter().find(|(of, _)| *of == field.name());
            let by_unit = field.name().ends_with("_ms").then_some(MILLIS);
            exact.or_else(by_name).map(|(_, r)| *r).or(by_unit)
        };
        let found = found.unwrap_or_else(|| {
            self.forgotten.push(format!("{name}.{}", field.name()));
            of_type
        });
        Range {
            first: found.first.max(of_type.first),
            last: found.last.min(of_type.last),
        }
    }

    fn check(&self, index: usize, bytes: &[u8]) -> Result<(), FieldError> {
        let Some(fields) = self.all.get(index) else {
            return Ok(());
        };
        let mut rest = bytes;
        let mut missing: Vec<u32> = Vec::new();
        missing.extend(fields.0.iter().filter(|(_, f)| f.needed).map(|(tag, _)| *tag));
        while !rest.is_empty() {
            let at = bytes.len() - rest.len();
            let (tag, wire) = key(&mut rest).ok_or_else(malformed)?;
            missing.retain(|needed| *needed != tag);
            let value = Value::read(wire, &mut rest).ok_or_else(malformed)?;
            let Some(field) = fields.0.get(&tag) else {
                continue;
            };
            self.check_value(field, value).map_err(|error| {
                let index = index_of(bytes.get(..at).unwrap_or_default(), tag);
                error.at(field, index)
            })?;
        }
        match missing.first().and_then(|tag| fields.0.get(tag)) {
            Some(Field {
                name,
                kind: Kind::Number(range, _),
                ..
            }) => Err(FieldError::new(name, outside(0, *range))),
            _ => Ok(()),
        }
    }

    fn check_value(&self, field: &Field, value: Value<'_>) -> Result<(), Wrong> {
        match (field.kind, value) {
            (Kind::Number(range, coding), Value::Number(raw)) => within(range, coding.number(raw)),
            (Kind::Number(range, coding), Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    let raw = match coding {
                        Coding::Fixed => Value::read(1, &mut packed),
                        _ => Value::read(0, &mut packed),
                    };
                    let Some(Value::Number(raw)) = raw else {
                        return Err(Wrong::Within(malformed()));
                    };
                    within(range, coding.number(raw))?;
                }
                Ok(())
            }
            (Kind::Message(index), Value::Bytes(inner)) => self.check(index, inner).map_err(Wrong::Within),
            _ => Ok(()),
        }
    }
}

/// What is wrong with a value.
enum Wrong {
    Number(FieldProblem),
    Within(FieldError),
}

impl Wrong {
    fn at(self, field: &Field, index: usize) -> FieldError {
        match self {
            Self::Number(problem) => FieldError::new(&field.name, problem),
            Self::Within(inner) if field.repeated => inner.within_item(&field.name, index),
            Self::Within(inner) => inner.within(&field.name),
        }
    }
}

fn within(range: Range, number: i128) -> Result<(), Wrong> {
    if range.holds(number) {
        Ok(())
    } else {
        Err(Wrong::Number(outside(number, range)))
    }
}

const fn outside(number: i128, range: Range) -> FieldProblem {
    FieldProblem::OutOfRange {
        number,
        first: range.first,
        last: range.last,
    }
}

pub(super) fn malformed() -> FieldError {
    FieldError::new("bytes", FieldProblem::Malformed)
}

/// A value as it stands in the bytes.
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// `None`: the bytes end too early, or have a form that our messages do not have.
    pub(super) fn read(wire: u8, rest: &mut &'a [u8]) -> Option<Self> {
        match wire {
            0 => varint(rest).map(Self::Number),
            1 => {
                let (number, after) = rest.split_first_chunk::<8>()?;
                *rest = after;
                Some(Self::Number(u64::from_le_bytes(*number)))
            }
            2 => {
                let length = usize::try_from(varint(rest)?).ok()?;
                let (inner, after) = rest.split_at_checked(length)?;
                *rest = after;
                Some(Self::Bytes(inner))
            }
            5 => {
                let (number, after) = rest.split_first_chunk::<4>()?;
                *rest = after;
                Some(Self::Number(u32::from_le_bytes(*number).into()))
            }
            _ => None,
        }
    }
}

impl Coding {
    fn number(self, raw: u64) -> i128 {
        match self {
            Self::Unsigned | Self::Fixed => raw.into(),
            Self::Signed => raw.cast_signed().into(),
            Self::ZigZag => ((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()).into(),
        }
    }
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut out: u64 = 0;
    for shift in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        out |= u64::from(byte & 0x7f) << (7 * shift);
        if byte & 0x80 == 0 {
            // The tenth byte has room for one bit.
            return (shift < 9 || *byte < 2).then_some(out);
        }
    }
    None
}

/// The tag of a field and how its value is written.
pub(super) fn key(rest: &mut &[u8]) -> Option<(u32, u8)> {
    let key = varint(rest)?;
    let wire = u8::try_from(key & 7).ok()?;
    Some((u32::try_from(key >> 3).ok()?, wire))
}

/// How many items of a field stand before, of a message's bytes that were read already.
fn index_of(mut before: &[u8], tag: u32) -> usize {
    let mut n = 0;
    while let Some((found, wire)) = key(&mut before) {
        if Value::read(wire, &mut before).is_none() {
            break;
        }
        n += usize::from(found == tag);
    }
    n
}

/// How numbers of a type stand in the bytes, and what the type can hold.
fn coding(of: Type) -> Option<(Coding, Range)> {
    let whole = |last: u64| Range::up_to(last.into());
    Some(match of {
        Type::Uint64 => (Coding::Unsigned, whole(u64::MAX)),
        Type::Uint32 => (Coding::Unsigned, whole(u32::MAX.into())),
        Type::Bool => (Coding::Unsigned, whole(1)),
        Type::Fixed64 => (Coding::Fixed, whole(u64::MAX)),
        Type::Int64 => (Coding::Signed, wide(i64::MIN, i64::MAX)),
        Type::Int32 => (Coding::Signed, wide(i32::MIN.into(), i32::MAX.into())),
        Type::Enum => (Coding::Signed, wide(0, i32::MAX.into())),
        Type::Sint64 => (Coding::ZigZag, wide(i64::MIN, i64::MAX)),
        Type::Sint32 => (Coding::ZigZag, wide(i32::MIN.into(), i32::MAX.into())),
        _ => return None,
    })
}

fn wide(first: i64, last: i64) -> Range {
    Range {
        first: first.into(),
        last: last.into(),
    }
}

const fn symmetric(last: i128) -> Range {
    Range { first: -last, last }
}

pub(super) fn collect<'a>(
    within: &str,
    message: &'a DescriptorProto,
    out: &mut Vec<(String, &'a DescriptorProto)>,
) {
    let name = format!("{within}.{}", message.name());
    for nested in &message.nested_type {
        collect(&name, nested, out);
    }
    out.push((name, message));
}

/// The name of a message without its package.
pub(super) fn short_name(name: &str) -> &str {
    name.rsplit_once(".v1.").map_or(name, |(_, short)| short)
}

/// The map that an entry belongs to: `Message.MapNameEntry` is of `Message.map_name`.
fn map_name(entry: &str) -> String {
    let short = short_name(entry);
    let (message, entry) = short.rsplit_once('.').unwrap_or_default();
    let mut out = format!("{message}.");
    for (i, letter) in entry.trim_end_matches("Entry").chars().enumerate() {
        if letter.is_uppercase() && i > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}
