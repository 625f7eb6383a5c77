//! Rows that cannot be understood, and codes that this build does not know.

use super::Case;
use super::blocks::group_blocks;
use super::facts::{block, job, key, main_group, shard};
use crate::StoreError;
use echelon_core_model::instance::{BlockKey, SliceRow};
use echelon_core_model::store::{
    Answer, Consistency, Query, RawKey, Reading, RowSubject, ShardKey, ShardRow, Write,
};
use echelon_core_model::{ClusterId, HostId, JobId, Reason, ReasonCode, VolumeId};
use echelon_proto::convert::Wire as _;
use prost::Message as _;

/// No message begins like that.
const GARBAGE: &[u8] = &[0xff, 0xff, 0xff, 0xff, 0x07];

fn raw(key: BlockKey) -> Write {
    Write::Raw(RawKey::Block(key), GARBAGE.to_vec())
}

async fn bucket(case: &Case, of: JobId) -> Reading {
    let query = Query::BlockBucket(ClusterId::new("c1"), key(of, 0).bucket());
    case.store.read(query, Consistency::Quorum).await.unwrap()
}

fn slice_key(of: JobId) -> BlockKey {
    BlockKey {
        job: of,
        group: main_group(),
        number: SliceRow::BLOCK,
    }
}

/// A reason that this build does not know is kept as its number.
pub async fn an_unknown_code_is_kept_as_a_number(case: &Case) {
    let newer = Reason::new(ReasonCode::from_number(412));
    let mut written = block(job(1), 0, "h");
    for record in written.instances.values_mut() {
        for run in record.run.iter_mut() {
            run.reason = newer.clone();
        }
    }
    case.commits(&shard("c1"), (1, 1), vec![Write::Block(written.clone())])
        .await;
    let there = Answer::Blocks(vec![written], Vec::new());
    assert_eq!(case.read(group_blocks("c1", job(1), 0..=0)).await, there);
    assert_eq!(newer.to_string(), "a reason of a newer version (412)");
}

/// Of a state that this build does not know nobody can tell what follows from it: its row is named, and its bytes are all there.
pub async fn an_unknown_state_is_kept_in_its_row(case: &Case) {
    let mut message = block(job(2), 0, "h").to_wire();
    let runs = message
        .instances
        .iter_mut()
        .filter_map(|record| record.run.as_mut());
    runs.for_each(|run| run.state = 99);
    let bytes = message.encode_to_vec();
    let write = Write::Raw(RawKey::Block(key(job(2), 0)), bytes.clone());
    case.commits(&shard("c1"), (1, 1), vec![write]).await;
    let read = bucket(case, job(2)).await;
    assert_eq!(read.unread.len(), 1, "{read:?}");
    let row = &read.unread[0];
    // The model of the simulation decodes no bytes, so it cannot say what is wrong with them.
    let says_why = row.why.contains("state") || row.why == "it is raw";
    assert!(row.bytes == bytes && says_why, "{row:?}");
}

/// A row that cannot be understood is named with its bytes, and hides no other row.
pub async fn an_unreadable_row_hides_no_other(case: &Case) {
    let (c1, other) = (shard("c1"), block(job(1), 0, "other"));
    let bad = job(2);
    let writes = vec![Write::Block(other.clone()), raw(key(bad, 0)), raw(slice_key(bad))];
    case.commits(&c1, (1, 1), writes).await;
    for (at, of) in [(key(bad, 0), bad), (key(job(1), 0), job(1))] {
        let read = bucket(case, of).await;
        let named: Vec<_> = read.unread.iter().map(|r| (&r.subject, r.table)).collect();
        let Answer::Blocks(blocks, _) = &read.answer else {
            panic!("{read:?}")
        };
        if of == bad {
            assert!(named.contains(&(&RowSubject::Block(at), "instances")), "{read:?}");
            assert!(read.unread.iter().all(|row| row.bytes == GARBAGE));
            assert!(!read.unread.iter().any(|row| row.why.is_empty()));
        } else {
            assert!(blocks.contains(&other), "{read:?}");
        }
    }
    let read = case
        .store
        .read(group_blocks("c1", bad, 0..=3), Consistency::Quorum)
        .await;
    let read = read.unwrap();
    assert_eq!(read.answer, Answer::Blocks(Vec::new(), Vec::new()));
    let named: Vec<_> = read.unread.iter().map(|r| r.subject.clone()).collect();
    let both = [slice_key(bad), key(bad, 0)].map(RowSubject::Block);
    assert!(
        named.len() == 2 && both.iter().all(|b| named.contains(b)),
        "{named:?}"
    );
}

/// A bad row among those that a shard remembers is named alone, and stays when the shard writes it back before its seal. Its own
/// row is the exception: without it nothing of the others is known to be new.
pub async fn an_unreadable_row_of_a_shard_hides_no_other(case: &Case) {
    let c1 = shard("c1");
    let bad = [
        ShardKey::Host("bad".to_owned()),
        ShardKey::Agent(HostId::new("bad")),
        ShardKey::Volume(VolumeId::new("bad")),
    ];
    let good = ShardRow {
        framework: Some("f".to_owned()),
        drained_agents: [HostId::new("good")].into(),
        ..ShardRow::default()
    };
    let raw = |key: &ShardKey| Write::Raw(RawKey::Shard(key.clone()), GARBAGE.to_vec());
    let whole = || good.writes().into_iter().chain(bad.iter().map(raw));
    case.commits(&c1, (1, 1), whole().collect()).await;
    case.commits(&c1, (2, 1), whole().chain([Write::SealShard]).collect())
        .await;
    let read = || {
        case.store
            .read(Query::Shard(ClusterId::new("c1")), Consistency::Quorum)
    };
    let found = read().await.unwrap();
    assert_eq!(found.answer, Answer::Shard(good.clone()));
    let mut named: Vec<_> = found
        .unread
        .iter()
        .map(|r| (r.subject.clone(), r.bytes.clone()))
        .collect();
    let mut all: Vec<_> = bad.map(|key| (RowSubject::Shard(key), GARBAGE.to_vec())).into();
    named.sort();
    all.sort();
    assert_eq!(named, all);
    case.commits(&c1, (2, 2), vec![raw(&ShardKey::Own)]).await;
    let refused = read().await;
    assert!(
        matches!(&refused, Err(StoreError::Unread(row)) if row.subject == RowSubject::Shard(ShardKey::Own)),
        "{refused:?}"
    );
}

/// A seal hides what is not written back: raw bytes that are written back under the new stamp stay.
pub async fn a_seal_keeps_raw_rows_that_are_written_back(case: &Case) {
    let c1 = shard("c1");
    let at = key(job(2), 0);
    let raw = |bytes: &[u8]| Write::Raw(RawKey::Block(at.clone()), bytes.to_vec());
    case.commits(&c1, (1, 1), vec![raw(GARBAGE)]).await;
    let seal = Write::Seal(at.bucket());
    case.commits(&c1, (2, 1), vec![raw(GARBAGE), seal.clone()]).await;
    let read = bucket(case, job(2)).await;
    assert_eq!(read.unread.len(), 1, "{read:?}");
    assert_eq!(read.unread[0].bytes, GARBAGE);
    // A build that understands it writes it as a block again.
    case.commits(&c1, (2, 2), vec![Write::Block(block(job(2), 0, "h"))])
        .await;
    assert_eq!(bucket(case, job(2)).await.unread, []);
    case.commits(&c1, (2, 3), vec![raw(GARBAGE)]).await;
    case.commits(&c1, (3, 1), vec![seal]).await;
    let read = bucket(case, job(2)).await;
    assert_eq!(
        read,
        Answer::Blocks(Vec::new(), Vec::new()).into(),
        "not written back"
    );
}

/// Whoever wrote a row may have had larger limits: to refuse its bytes would hide them for good.
pub async fn large_raw_rows_are_written_back(case: &Case) {
    let large = vec![0xff; 700 * 1024];
    let raw = Write::Raw(RawKey::Block(key(job(2), 0)), large.clone());
    case.commits(&shard("c1"), (1, 1), vec![raw]).await;
    let read = bucket(case, job(2)).await;
    assert_eq!(read.unread[0].bytes, large);
}
