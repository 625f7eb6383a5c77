//! Which partition a stored fact lies in. The hash is pinned (FNV-1a, 64 bit) because the answer is stored: it must be
//! the same for ever, on every machine and with every compiler.

use crate::id::{GroupName, JobId, Version};

/// Heads and progress of jobs lie in this many buckets.
pub const JOB_BUCKETS: u16 = 1024;
/// Assignments lie in this many partitions.
pub const ASSIGNMENT_PARTITIONS: u16 = 64;
/// Instance blocks of a cluster lie in this many buckets.
pub const BLOCK_BUCKETS: u16 = 256;
/// Instances of a block. Their largest records stay below [`MOST_BLOCK_BYTES`], so that no block has to be split.
pub const BLOCK_SIZE: u32 = 16;
/// Consecutive blocks of a group that share a bucket, so that one read of one partition gives all of them.
pub const BLOCKS_A_RUN: u32 = 16;
/// Most bytes of a block whose runs are of one version of the job: half of what storage takes as one row. The other
/// half is for the names of ports of other versions.
pub const MOST_BLOCK_BYTES: usize = 256 * 1024;

/// FNV-1a over bytes, 64 bits.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// FNV's upper bits mix better than its lower ones, so the bucket comes from a fold of both.
fn pick(hash: u64, n: u16) -> u16 {
    u16::try_from((hash ^ (hash >> 32)) % u64::from(n)).unwrap_or_default()
}

/// The bucket of a job's head and progress.
#[must_use]
pub fn job_bucket(job: JobId) -> u16 {
    pick(fnv1a(&job.0.to_be_bytes()), JOB_BUCKETS)
}

/// The partition of a job's assignments.
#[must_use]
pub fn assignment_partition(job: JobId) -> u16 {
    pick(fnv1a(&job.0.to_be_bytes()), ASSIGNMENT_PARTITIONS)
}

/// The buckets of the heads of the jobs of a partition of assignments: one number is picked from the same
/// hash for each.
pub fn job_buckets(partition: u16) -> impl Iterator<Item = u16> {
    (partition..JOB_BUCKETS).step_by(ASSIGNMENT_PARTITIONS.into())
}

/// What a bucket of heads is tagged with when a head is written in it: another number than by any other
/// write, as far as 64 bits tell. It is stored, so it is pinned like the buckets.
#[must_use]
pub fn head_tag(job: JobId, version: Version) -> i64 {
    let bytes = [&job.0.to_be_bytes()[..], &version.0.to_be_bytes()[..]].concat();
    i64::from_be_bytes(fnv1a(&bytes).to_be_bytes())
}

/// The bucket of a block of instances: that of its run of blocks. Block `u32::MAX` stands for the group's slice row.
#[must_use]
pub fn block_bucket(job: JobId, group: &GroupName, block: u32) -> u16 {
    let mut bytes = job.0.to_be_bytes().to_vec();
    bytes.extend_from_slice(group.as_str().as_bytes());
    bytes.extend_from_slice(&(block / BLOCKS_A_RUN).to_be_bytes());
    pick(fnv1a(&bytes), BLOCK_BUCKETS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_never_change() {
        let main = GroupName::new("main");
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        let job = JobId(0x0192_3456_789a_bcde_f012_3456_789a_bcde);
        assert_eq!((job_bucket(job), assignment_partition(job)), (83, 19));
        assert_eq!(
            [0, 15, 16, 31, u32::MAX].map(|n| block_bucket(job, &main, n)),
            [89, 89, 150, 150, 171]
        );
    }

    #[test]
    fn each_bucket_of_heads_is_of_the_partition_of_its_jobs() {
        let all: std::collections::BTreeSet<u16> = (0..ASSIGNMENT_PARTITIONS).flat_map(job_buckets).collect();
        assert_eq!(all.len(), usize::from(JOB_BUCKETS));
        for i in 0..1_000u128 {
            let job = JobId(i << 60 | i);
            assert!(job_buckets(assignment_partition(job)).any(|bucket| bucket == job_bucket(job)));
        }
        assert_ne!(head_tag(JobId(1), Version(1)), head_tag(JobId(1), Version(2)));
        assert_ne!(head_tag(JobId(1), Version(1)), head_tag(JobId(2), Version(1)));
    }

    #[test]
    fn buckets_are_evenly_filled() {
        let mut counts = vec![0u32; usize::from(JOB_BUCKETS)];
        for i in 0..102_400u128 {
            counts[usize::from(job_bucket(JobId(i << 60)))] += 1;
        }
        assert!(counts.iter().all(|n| (40..200).contains(n)), "{counts:?}");
    }
}
