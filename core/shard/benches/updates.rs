//! Updates decoded and reduced by the core alone: bytes of an event stream become events, and each is a step of a shard that
//! knows the task. No sockets, no storage: commits are asked for and never answered.
//!
//! `cargo bench -p echelon-core-shard`
#![expect(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the world of the tests, of which a part is used"
)]

#[path = "../tests/shard/cluster.rs"]
mod cluster;
#[path = "../tests/shard/trace.rs"]
mod trace;
#[path = "../tests/shard/world.rs"]
mod world;

use cluster::Cluster;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use echelon_core_hosts::TaskState;
use echelon_core_shard::Event;
use echelon_core_testkit::build::{JobBuilder, shape};
use echelon_proto::convert::mesos::event_from_wire;
use echelon_proto::mesos::v1::scheduler::{self, event};
use echelon_proto::mesos::v1::{AgentId, TaskId, TaskState as WireState, TaskStatus};
use echelon_proto::recordio::{self, Decoder};
use prost::Message as _;
use world::{World, range, seconds};

const TASKS: u32 = 2_000;

/// A shard whose tasks all run.
fn running() -> World {
    let mut w = World::new();
    w.cluster = Cluster::of(20, shape(100, 1_000_000));
    w.elect();
    w.run(seconds(1));
    w.connect();
    w.store_job(&JobBuilder::batch("many", TASKS).build());
    w.order(&[range(0, TASKS - 1)], u64::from(TASKS));
    w.run(seconds(5));
    assert_eq!(w.cluster.live().len(), TASKS as usize);
    w
}

/// An update for every task, as the bytes of a stream.
fn stream(w: &World) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (n, (task, at)) in w.cluster.tasks.iter().enumerate() {
        let status = TaskStatus {
            task_id: TaskId { value: task.clone() },
            state: WireState::TaskFinished.into(),
            agent_id: Some(AgentId {
                value: at.host.as_str().to_owned(),
            }),
            uuid: Some((n as u128 + 1).to_be_bytes().to_vec()),
            timestamp: Some(1.0),
            ..TaskStatus::default()
        };
        assert_eq!(at.state, TaskState::Running);
        let wire = scheduler::Event {
            r#type: Some(event::Type::Update.into()),
            update: Some(event::Update { status }),
            ..scheduler::Event::default()
        };
        bytes.extend(recordio::encode(&wire.encode_to_vec()));
    }
    bytes
}

fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("updates");
    group.throughput(Throughput::Elements(u64::from(TASKS)));
    group.sample_size(10);
    group.bench_function("decoded and reduced", |b| {
        b.iter_batched(
            || {
                let w = running();
                let bytes = stream(&w);
                (w, bytes)
            },
            |(mut w, bytes)| {
                let (mut records, mut effects) = (Vec::new(), Vec::new());
                Decoder::new(1 << 20).push(&bytes, &mut records).unwrap();
                for record in records {
                    let wire = scheduler::Event::decode(record.as_slice()).unwrap();
                    for event in event_from_wire(&wire) {
                        w.shard.step(Event::Cluster(event), w.now, &mut effects);
                    }
                }
                (w, effects)
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, updates);
criterion_main!(benches);
