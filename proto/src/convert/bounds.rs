//! How many entries each list and map of a request may have, in one table. They are counted in the bytes, before a
//! message is made of them: two bytes of a request are enough for a part that takes a kilobyte.
//!
//! Requests of users are weighed, too: what all their parts would take in memory, without their text, stays in
//! proportion to their size.

use super::ranges::{Value, collect, key, malformed, short_name};
use super::{FieldError, FieldProblem};
use crate::FILE_DESCRIPTOR_SET;
use echelon_core_model::class::MAX_CLASSES;
use echelon_core_model::cluster_choice::MAX_SELECTORS;
use echelon_core_model::cluster_labels::MAX_CLUSTER_LABELS;
use echelon_core_model::forgotten::ForgottenHosts;
use echelon_core_model::gang::MAX_TOPOLOGY;
use echelon_core_model::health::HealthCause;
use echelon_core_model::limits::{
    ARGUMENTS, AWAITED, ENDED_RANGES, EXIT_CODES, FILTERS, GROUPS, LABELS, NAMED_HOSTS, NAMED_JOBS,
    OVERRIDE_RANGES, PARTS_BYTES, PARTS_BYTES_PER_BYTE, RULE_VALUES, URIS, VARIABLES, VOLUMES,
};
use echelon_core_model::overrides::MAX_OVERRIDES;
use echelon_core_model::pod::MAX_SIDECARS;
use echelon_core_model::pool::MAX_POOLS;
use echelon_core_model::restart::RESTART_RANGES;
use echelon_core_model::runtime::MAX_PORTS;
use echelon_core_model::sharing::Sharing;
use echelon_core_model::siting::MAX_RULES;
use prost::{Message as _, Name};
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What a client sends back of a job that it has read: as many as an answer may have.
const ECHOED: usize = 4_096;
/// What one leader sends another in one message about all that one cluster has.
const BETWEEN_LEADERS: usize = 1 << 20;

/// The most entries by `Message.field`, for each list and map of a request.
pub const MOST_ENTRIES: &[(&str, usize)] = &[
    ("Affinity.labels", LABELS),
    ("ApplyPoolsRequest.pools", MAX_POOLS),
    ("Arguments.values", ARGUMENTS),
    ("Claim.parts", BETWEEN_LEADERS),
    ("Claim.victims", BETWEEN_LEADERS),
    ("ClaimsOrder.claims", BETWEEN_LEADERS),
    ("ClassesOrder.classes", MAX_CLASSES),
    ("Cluster.health_causes", HealthCause::MOST),
    ("Cluster.labels", MAX_CLUSTER_LABELS),
    ("Cluster.other_roles", Sharing::MOST_ROLES),
    ("Cluster.quota_limits", Sharing::MOST_LIMITS),
    ("ClusterChoice.fail_over_only", MAX_SELECTORS),
    ("ClusterChoice.near", LABELS),
    ("ClusterChoice.only", MAX_SELECTORS),
    ("ClusterChoice.prefer", MAX_SELECTORS),
    ("ClusterChoice.prefer_weights", MAX_SELECTORS),
    ("ClusterChoice.weights", MAX_SELECTORS),
    ("Constraint.values", RULE_VALUES),
    ("Container.volumes", VOLUMES),
    ("DescribeClusterWorkRequest.labels", MAX_CLUSTER_LABELS),
    ("DescribeProgressRequest.jobs", NAMED_JOBS),
    ("DrainHostsRequest.attributes", LABELS),
    ("DrainHostsRequest.hosts", NAMED_HOSTS),
    ("Drains.hosts", NAMED_HOSTS),
    ("EndInstancesRequest.numbers", ENDED_RANGES),
    ("ForgottenHosts.hosts", ForgottenHosts::MOST),
    ("Gang.topology", MAX_TOPOLOGY),
    ("GroupSpec.affinity", MAX_RULES),
    ("GroupSpec.anti_affinity", MAX_RULES),
    ("GroupSpec.constraints", MAX_RULES),
    ("GroupSpec.env", VARIABLES),
    ("GroupSpec.max_per", MAX_RULES),
    ("GroupSpec.overrides", MAX_OVERRIDES),
    ("GroupSpec.ports", MAX_PORTS),
    ("GroupSpec.preferences", MAX_RULES),
    ("GroupSpec.secrets", VARIABLES),
    ("GroupSpec.sidecars", MAX_SIDECARS),
    ("GroupSpec.spread_over", MAX_RULES),
    ("GroupSpec.uris", URIS),
    ("GroupStatus.counts", FILTERS),
    ("HostMoves.hosts", NAMED_HOSTS),
    ("Job.awaited_clusters", ECHOED),
    ("Job.groups", GROUPS),
    ("Job.labels", LABELS),
    ("Job.parts", ECHOED),
    ("Job.past_rollouts", FILTERS),
    ("Job.waiting", ECHOED),
    ("Job.warnings", ECHOED),
    ("JobOrigin.replaces", ECHOED),
    ("JobRestart.instances", RESTART_RANGES),
    ("JobSpec.after", AWAITED),
    ("JobSpec.groups", GROUPS),
    ("JobSpec.labels", LABELS),
    ("JobSpec.withdrawn", GROUPS),
    ("ListInstancesRequest.states", FILTERS),
    ("ListJobsRequest.labels", FILTERS),
    ("ListJobsRequest.states", FILTERS),
    ("MoveHostsRequest.hosts", NAMED_HOSTS),
    ("NamedClass.constraints", MAX_RULES),
    ("NamedClass.ports", MAX_PORTS),
    ("Override.env", VARIABLES),
    ("Override.instances", OVERRIDE_RANGES),
    ("Override.uris", URIS),
    ("PlanHostMovesRequest.attributes", LABELS),
    ("PlanHostMovesRequest.hosts", NAMED_HOSTS),
    ("PoolTree.pools", MAX_POOLS),
    ("RangeSet.ranges", BETWEEN_LEADERS),
    ("RestartJobRequest.instances", RESTART_RANGES),
    ("Retry.no_retry_exit_codes", EXIT_CODES),
    ("ScheduleStatus.next_times", FILTERS),
    ("Sidecar.env", VARIABLES),
    ("Sidecar.secrets", VARIABLES),
    ("Sidecar.uris", URIS),
    ("SliceOrder.grants", BETWEEN_LEADERS),
    ("SliceOrder.ranges", BETWEEN_LEADERS),
    ("SliceOrder.restarts", BETWEEN_LEADERS),
    ("SlicesOrder.slices", BETWEEN_LEADERS),
    ("UndoHostMovesRequest.hosts", NAMED_HOSTS),
    ("UndrainHostsRequest.attributes", LABELS),
    ("UndrainHostsRequest.hosts", NAMED_HOSTS),
    ("VolumesOrder.volumes", BETWEEN_LEADERS),
    ("google.protobuf.FieldMask.paths", FILTERS),
    ("Withdrawn.ranges", ENDED_RANGES),
];

/// The package whose requests are weighed: users send them.
const WEIGHED: &str = "echelon.v1.";

/// A request about a whole tree. It may have very many small pools, so that counts alone bound it.
const TREE: &str = "echelon.v1.ApplyPoolsRequest";

/// Bytes that our messages take in memory, without what they point to.
const SIZES: &[(&str, usize)] = include!(concat!(env!("OUT_DIR"), "/sizes.rs"));

/// Bytes of a message of `google.protobuf` of which ours hold some.
const FOREIGN_SIZE: usize = 32;
/// Bytes of a text, without its characters, and of the least piece of memory that those take.
const TEXT_SIZE: usize = 24 + 8;
const NUMBER_SIZE: usize = 8;
/// A list begins with room for so many, and doubles it.
const FIRST_ROOM: usize = 4;
/// Entries of one node of a map; a map begins with one, and its nodes are half full or more.
const NODE_ENTRIES: usize = 11;
const NODE_SIZE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bytes that one takes where they are packed; 0: as many as it needs.
    Number(usize),
    Text,
    Message(Option<usize>),
    Map(Option<usize>),
}

#[derive(Debug, Clone)]
struct BoundedField {
    name: String,
    kind: Kind,
    /// Of one entry.
    size: usize,
    /// The most entries of a list or map.
    most: Option<usize>,
}

#[derive(Debug, Default)]
struct BoundTables {
    by_name: BTreeMap<String, usize>,
    all: Vec<BTreeMap<u32, BoundedField>>,
    requests: BTreeSet<String>,
    /// Lists and maps of requests that the table does not name.
    forgotten: BTreeSet<String>,
}

static TABLES: LazyLock<BoundTables> = LazyLock::new(BoundTables::new);

/// Lists and maps of requests that have no bound. There are none, or a field was added without one.
#[must_use]
pub fn without_bound() -> Vec<String> {
    TABLES.forgotten.iter().cloned().collect()
}

/// Names of the messages that are requests.
#[must_use]
pub fn requests() -> &'static BTreeSet<String> {
    &TABLES.requests
}

/// Counts every list and map of a request in its bytes. Other messages pass.
///
/// # Errors
/// The first that is out of bounds, with the path of its field.
pub fn check<M: Name>(bytes: &[u8]) -> Result<(), FieldError> {
    let name = M::full_name();
    if TABLES.requests.contains(&name) {
        check_named(&name, bytes)
    } else {
        Ok(())
    }
}

/// The same of a message that is named, whether it is a request or stands in one.
///
/// # Errors
/// The same.
pub fn check_named(message: &str, bytes: &[u8]) -> Result<(), FieldError> {
    let Some(index) = TABLES.by_name.get(message) else {
        return Ok(());
    };
    let mut room = if message.starts_with(WEIGHED) && message != TREE {
        PARTS_BYTES.saturating_add(bytes.len().saturating_mul(PARTS_BYTES_PER_BYTE))
    } else {
        usize::MAX
    };
    TABLES.check(*index, bytes, &mut room)
}

impl BoundTables {
    fn new() -> Self {
        let mut out = Self::default();
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
            for method in file.service.iter().flat_map(|service| &service.method) {
                out.requests
                    .insert(method.input_type().trim_start_matches('.').to_owned());
            }
        }
        for (index, (name, _)) in messages.iter().enumerate() {
            out.by_name.insert(name.clone(), index);
        }
        for (name, message) in &messages {
            let fields = out.fields(name, message, &messages);
            out.all.push(fields);
        }
        out.forget();
        out
    }

    fn fields(
        &self,
        name: &str,
        message: &DescriptorProto,
        messages: &[(String, &DescriptorProto)],
    ) -> BTreeMap<u32, BoundedField> {
        let fields = message.field.iter().filter_map(|field| {
            let tag = u32::try_from(field.number()).ok()?;
            let short = format!("{}.{}", short_name(name), field.name());
            let of = field.type_name().trim_start_matches('.');
            let index = self.by_name.get(of).copied();
            let entry = index.and_then(|i| messages.get(i)).map(|(_, message)| *message);
            let entry = entry.filter(|m| m.options.as_ref().is_some_and(|o| o.map_entry()));
            let (kind, size) = match (field.r#type(), entry) {
                (_, Some(entry)) => (Kind::Map(index), entry.field.iter().map(size_of_field).sum()),
                (Type::Message, None) => (Kind::Message(index), size_of_field(field)),
                (Type::String | Type::Bytes, None) => (Kind::Text, size_of_field(field)),
                (of, None) => (Kind::Number(packed_size(of)), size_of_field(field)),
            };
            let found = MOST_ENTRIES.iter().find(|(of, _)| *of == short);
            let repeated = field.label() == Label::Repeated;
            let field = BoundedField {
                name: field.name().to_owned(),
                kind,
                size,
                most: repeated.then(|| found.map_or(usize::MAX, |(_, most)| *most)),
            };
            Some((tag, field))
        });
        fields.collect()
    }

    /// Notes the lists and maps below the requests that have no bound.
    fn forget(&mut self) {
        let mut waiting: Vec<usize> = self
            .requests
            .iter()
            .filter_map(|r| self.by_name.get(r).copied())
            .collect();
        let mut seen = BTreeSet::new();
        while let Some(index) = waiting.pop() {
            if !seen.insert(index) {
                continue;
            }
            let name = self
                .by_name
                .iter()
                .find(|(_, i)| **i == index)
                .map_or("", |(name, _)| name);
            for field in self.all.get(index).into_iter().flat_map(BTreeMap::values) {
                if field.most == Some(usize::MAX) {
                    self.forgotten
                        .insert(format!("{}.{}", short_name(name), field.name));
                }
                if let Kind::Message(Some(inner)) | Kind::Map(Some(inner)) = field.kind {
                    waiting.push(inner);
                }
            }
        }
    }

    fn check(&self, index: usize, bytes: &[u8], room: &mut usize) -> Result<(), FieldError> {
        let Some(fields) = self.all.get(index) else {
            return Ok(());
        };
        let mut rest = bytes;
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        while !rest.is_empty() {
            let (tag, wire) = key(&mut rest).ok_or_else(malformed)?;
            let value = Value::read(wire, &mut rest).ok_or_else(malformed)?;
            let Some(field) = fields.get(&tag) else {
                continue;
            };
            let before = counts.get(&tag).copied().unwrap_or_default();
            let more = field.entries(&value);
            field.admit(before, more, room)?;
            counts.insert(tag, before + more);
            let (Kind::Message(Some(inner)) | Kind::Map(Some(inner)), Value::Bytes(bytes)) =
                (field.kind, value)
            else {
                continue;
            };
            self.check(inner, bytes, room).map_err(|error| match field.most {
                Some(_) => error.within_item(&field.name, before),
                None => error.within(&field.name),
            })?;
        }
        Ok(())
    }
}

impl BoundedField {
    /// How many entries a value is.
    fn entries(&self, value: &Value<'_>) -> usize {
        match (self.kind, value) {
            (Kind::Number(0), Value::Bytes(packed)) => packed.iter().filter(|b| **b & 0x80 == 0).count(),
            (Kind::Number(size), Value::Bytes(packed)) => packed.len() / size,
            _ => 1,
        }
    }

    /// Adds entries to those before.
    fn admit(&self, before: usize, more: usize, room: &mut usize) -> Result<(), FieldError> {
        let wrong = |problem| Err(FieldError::new(&self.name, problem));
        let Some(most) = self.most else {
            // Parts of one message in several pieces would escape the counts.
            return match (self.kind, before) {
                (Kind::Message(_), 1..) => wrong(FieldProblem::Twice),
                _ => Ok(()),
            };
        };
        let all = before.saturating_add(more);
        if all > most {
            return wrong(FieldProblem::TooMany { most });
        }
        let weight = self.weight(all) - self.weight(before);
        match room.checked_sub(weight) {
            Some(left) => {
                *room = left;
                Ok(())
            }
            None => wrong(FieldProblem::TooDense),
        }
    }

    /// The most bytes that so many entries take, without their text.
    fn weight(&self, entries: usize) -> usize {
        match self.kind {
            _ if entries == 0 => 0,
            Kind::Map(_) => NODE_SIZE + self.size * entries.saturating_mul(2).max(NODE_ENTRIES),
            _ => {
                self.size
                    * entries
                        .checked_next_power_of_two()
                        .unwrap_or(entries)
                        .max(FIRST_ROOM)
            }
        }
    }
}

/// Bytes of a number that is packed without a length of its own.
const fn packed_size(of: Type) -> usize {
    match of {
        Type::Fixed64 | Type::Sfixed64 | Type::Double => 8,
        Type::Fixed32 | Type::Sfixed32 | Type::Float => 4,
        _ => 0,
    }
}

/// Bytes of one entry of a field.
fn size_of_field(field: &prost_types::FieldDescriptorProto) -> usize {
    match field.r#type() {
        Type::Message => {
            let of = field.type_name().trim_start_matches('.');
            let known = SIZES.iter().find(|(name, _)| *name == of);
            known.map_or(FOREIGN_SIZE, |(_, size)| *size)
        }
        Type::String | Type::Bytes => TEXT_SIZE,
        _ => NUMBER_SIZE,
    }
}
