//! Every list and map of every request has a bound, which is found in the bytes: at the bound it passes, above it the
//! request is refused by the name of the field.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use echelon_proto::FILE_DESCRIPTOR_SET;
use echelon_proto::convert::bounds::{MOST_ENTRIES, check, check_named, requests, without_bound};
use echelon_proto::convert::{FieldError, FieldProblem};
use echelon_proto::echelon::v1;
use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::BTreeMap;

#[test]
fn every_list_and_map_of_every_request_has_a_bound() {
    assert_eq!(without_bound(), Vec::<String>::new());
    assert!(requests().len() > 60, "{}", requests().len());
}

/// The message and field of `Message.field`, in whichever package they are.
fn find(pool: &DescriptorPool, short: &str) -> Vec<(MessageDescriptor, FieldDescriptor)> {
    let (message, field) = short.rsplit_once('.').unwrap();
    let packages = ["echelon.v1.", "echelon.shard.v1.", "echelon.storage.v1.", ""];
    let found = packages.iter().filter_map(|package| {
        let message = pool.get_message_by_name(&format!("{package}{message}"))?;
        let field = message
            .get_field_by_name(field)
            .filter(|f| f.is_list() || f.is_map())?;
        Some((message, field))
    });
    found.collect()
}

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap());
}

/// So many entries of a field, each as short as it can be.
fn entries(field: &FieldDescriptor, n: usize) -> Vec<u8> {
    let wire = match field.kind() {
        Kind::Message(_) | Kind::String | Kind::Bytes => 2,
        Kind::Fixed64 => 1,
        _ => 0,
    };
    let mut one = Vec::new();
    varint(u64::from(field.number()) << 3 | wire, &mut one);
    one.extend(if wire == 1 { vec![0; 8] } else { vec![0] });
    one.repeat(n)
}

#[test]
fn each_list_passes_with_its_most_entries_and_is_refused_by_its_name_with_one_more() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    for (short, most) in MOST_ENTRIES {
        let found = find(&pool, short);
        assert!(!found.is_empty(), "{short} is nowhere");
        for (message, field) in found {
            let judge = |n| check_named(message.full_name(), &entries(&field, n));
            if *most > 20_000 {
                // A message between leaders: one look is long enough.
                assert_eq!(judge(most + 1).unwrap_err().path, field.name(), "{short}");
                continue;
            }
            // So many empty parts may be too many for so short a request; then that is said.
            let at = judge(*most).err().map(|e| e.problem);
            assert!(
                matches!(at, None | Some(FieldProblem::TooDense)),
                "{short}: {at:?}"
            );
            if *most <= 64 && short.starts_with("GroupSpec.") {
                assert_eq!(at, None, "{short}");
            }
            let above = judge(most + 1).unwrap_err();
            assert_eq!(above.path, field.name(), "{short}");
            let problem = FieldProblem::TooMany { most: *most };
            assert!(
                above.problem == problem || above.problem == FieldProblem::TooDense,
                "{above}"
            );
        }
    }
}

#[test]
fn packed_numbers_are_counted() {
    let codes = |n| v1::Retry {
        no_retry_exit_codes: vec![300; n],
        ..v1::Retry::default()
    };
    let judge = |n| check_named("echelon.v1.Retry", &codes(n).encode_to_vec());
    assert_eq!(judge(256), Ok(()));
    assert_eq!(judge(257).unwrap_err().path, "no_retry_exit_codes");
}

fn create(spec: v1::JobSpec) -> Vec<u8> {
    let job = v1::Job {
        spec: Some(spec),
        ..v1::Job::default()
    };
    let request = v1::CreateJobRequest {
        job: Some(job),
        ..v1::CreateJobRequest::default()
    };
    request.encode_to_vec()
}

fn judged(bytes: &[u8]) -> Result<(), FieldError> {
    check::<v1::CreateJobRequest>(bytes)
}

#[test]
fn groups_without_anything_are_counted_before_they_are_made() {
    let groups = |n| v1::JobSpec {
        groups: vec![v1::GroupSpec::default(); n],
        ..v1::JobSpec::default()
    };
    assert_eq!(judged(&create(groups(64))), Ok(()));
    let refused = judged(&create(groups(65))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "field `job.spec.groups` has more than 64 entries, which is the most there may be"
    );
}

#[test]
fn a_message_in_several_pieces_does_not_escape_its_bounds() {
    let mut bytes = create(v1::JobSpec::default());
    bytes.extend(create(v1::JobSpec::default()));
    let refused = judged(&bytes).unwrap_err();
    assert_eq!(
        (refused.path.as_str(), refused.problem),
        ("job", FieldProblem::Twice)
    );
}

fn sidecar(i: usize) -> v1::Sidecar {
    v1::Sidecar {
        name: format!("sidecar-{i}"),
        command: "exec /usr/bin/collect --every 10s --to http://collector.example.org".to_owned(),
        env: BTreeMap::from([("LEVEL".to_owned(), "info".to_owned())]),
        ..v1::Sidecar::default()
    }
}

fn group(i: usize) -> v1::GroupSpec {
    let rule = |i| v1::Constraint {
        attribute: format!("attribute-{i}"),
        values: vec!["value".to_owned()],
        ..v1::Constraint::default()
    };
    v1::GroupSpec {
        name: format!("group-{i}"),
        instances: 3,
        command: "exec /usr/bin/serve --port $PORT0 --data /var/lib/service".to_owned(),
        env: (0..8)
            .map(|i| (format!("NAME_OF_{i}"), "some value of it".to_owned()))
            .collect(),
        constraints: (0..16).map(rule).collect(),
        sidecars: (0..2).map(sidecar).collect(),
        ..v1::GroupSpec::default()
    }
}

#[test]
fn many_small_parts_are_weighed_together_and_a_full_job_is_not_too_dense() {
    let full = v1::JobSpec {
        groups: (0..64).map(group).collect(),
        ..v1::JobSpec::default()
    };
    assert_eq!(judged(&create(full)), Ok(()));
    let rule = v1::Constraint {
        values: vec![String::new(); 1_000],
        ..v1::Constraint::default()
    };
    let dense = v1::JobSpec {
        groups: vec![
            v1::GroupSpec {
                constraints: vec![rule; 64],
                ..v1::GroupSpec::default()
            };
            8
        ],
        ..v1::JobSpec::default()
    };
    let refused = judged(&create(dense)).unwrap_err();
    assert_eq!(refused.problem, FieldProblem::TooDense);
    assert!(
        refused.path.starts_with("job.spec.groups[") && refused.path.ends_with("].values"),
        "{refused}"
    );
}
