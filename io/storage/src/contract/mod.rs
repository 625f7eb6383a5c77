//! What every storage is held to, as functions over the trait. `storage_contract!` makes a test of each; a backend's
//! tests give it a function that makes a [`Case`]: an empty, migrated storage and a way to lose answers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests, shared by crates through a feature"
)]

mod blocks;
mod decisions;
mod epochs;
pub mod facts;
mod limits;
mod lists;
mod logs;
mod owned;
mod seals;
mod unknown;
mod unread;

pub use blocks::*;
pub use decisions::*;
pub use epochs::*;
pub use limits::*;
pub use lists::*;
pub use logs::*;
pub use owned::*;
pub use seals::*;
pub use unknown::*;
pub use unread::*;

use crate::Store;
use async_trait::async_trait;
use echelon_core_model::ClusterId;
use echelon_core_model::Epoch;
use echelon_core_model::cluster::Cluster;
use echelon_core_model::store::{Answer, Batch, Consistency, Decided, Decision, Query, Role, Stamp, Write};
use std::any::Any;
use std::sync::Arc;

/// What a test can do to a storage's answers.
#[async_trait]
pub trait Faults: Send + Sync {
    /// From now on what is asked is done and its answer is lost.
    async fn lose_answers(&self);

    /// From now on answers come again.
    async fn answer(&self);
}

/// A storage under test: empty and migrated.
pub struct Case {
    /// The storage.
    pub store: Arc<dyn Store>,
    /// How to lose its answers.
    pub faults: Arc<dyn Faults>,
    /// What must live as long: a folder, a server.
    pub keep: Box<dyn Any + Send + Sync>,
}

impl Case {
    /// What is read for display.
    pub async fn read(&self, query: Query) -> Answer {
        let read = self.store.read(query, Consistency::Quorum).await.unwrap();
        assert_eq!(read.unread, [], "rows that cannot be read");
        read.answer
    }

    /// What is read to settle something.
    pub async fn settled(&self, query: Query) -> Answer {
        let read = self.store.read(query, Consistency::Serial).await.unwrap();
        assert_eq!(read.unread, [], "rows that cannot be read");
        read.answer
    }

    /// Decides something that is neither refused nor unknown.
    pub async fn decide(&self, decision: Decision) -> Decided {
        self.store.decide(decision).await.unwrap()
    }

    /// Decides something that must hold.
    pub async fn decides(&self, decision: Decision) {
        assert_eq!(
            self.decide(decision.clone()).await,
            Decided::Applied,
            "{decision:?}"
        );
    }

    /// Commits as an owner at `(epoch, sequence)`.
    pub async fn commits(&self, owner: &Role, stamp: (u64, u64), writes: Vec<Write>) {
        self.store.commit(batch(owner, stamp, writes)).await.unwrap();
    }

    /// Adds clusters of these ids.
    pub async fn with_clusters(&self, ids: &[&str]) {
        for id in ids {
            let cluster = Cluster {
                mesos: format!("{id}:5050"),
                ..Cluster::new(ClusterId::new(id), &format!("name of {id}"))
            };
            let expected = None;
            self.decides(Decision::PutCluster { cluster, expected }).await;
        }
    }
}

/// A batch at `(epoch, sequence)`.
#[must_use]
pub fn batch(owner: &Role, (epoch, sequence): (u64, u64), writes: Vec<Write>) -> Batch {
    Batch {
        owner: owner.clone(),
        stamp: Stamp {
            epoch: Epoch(epoch),
            sequence,
        },
        writes,
    }
}

/// Makes a test of every function of the contract. `$fresh` is an async function without arguments that makes a `Case`.
#[macro_export]
macro_rules! storage_contract {
    ($fresh:path) => {
        $crate::storage_contract!($fresh:
            a_head_is_inserted_once
            the_assignment_of_an_ended_job_is_read_by_job_alone
            a_head_changes_only_from_its_version
            a_removed_head_stays_removed
            changes_tell_of_each_write
            specs_never_change
            a_name_has_one_holder
            a_request_has_one_plan
            clusters_change_by_version
            a_cluster_with_many_drains_is_kept_whole
            switches_change_by_version
            an_older_leader_forbids_and_allows_no_starts
            start_bans_are_bounded_and_grow
            every_decision_is_idempotent
            of_many_writers_one_wins_each_version
            many_names_are_taken_at_once
            a_pool_tree_is_replaced_whole
            the_largest_pool_tree_is_changed_pool_by_pool
            of_many_changes_of_the_tree_none_is_lost
            an_epoch_is_taken_once
            leaderships_do_not_mix
            an_older_epoch_assigns_nothing
            a_partition_keeps_what_the_newest_epoch_wrote
            a_late_write_of_the_same_epoch_changes_nothing
            a_large_assignment_is_stored_in_several_rows
            a_single_assignment_is_read_alone
            the_larger_stamp_stays
            a_newer_epoch_hides_older_writes_in_any_order
            a_sealed_bucket_hides_what_nobody_wrote_back
            a_seal_keeps_what_its_own_epoch_wrote
            a_seal_touches_no_other_bucket_and_no_archive
            a_large_seal_loses_nothing
            an_unknown_code_is_kept_as_a_number
            an_unknown_state_is_kept_in_its_row
            an_unreadable_row_hides_no_other
            an_unreadable_row_of_a_shard_hides_no_other
            a_seal_keeps_raw_rows_that_are_written_back
            large_raw_rows_are_written_back
            deletions_obey_stamps_too
            the_last_write_of_a_batch_counts
            the_same_batch_again_is_harmless
            decided_facts_ignore_stamps
            owned_facts_read_back
            marks_are_kept_by_role
            what_a_shard_remembers_has_small_rows
            a_bucket_holds_its_blocks_and_slices
            blocks_of_a_group_are_ranges
            archived_blocks_are_found_and_not_loaded
            clusters_do_not_share_blocks
            large_batches_are_taken
            jobs_are_paged_in_order
            jobs_are_found_by_what_they_are
            hosts_are_paged
            events_are_paged_in_the_order_of_their_lanes
            ends_of_events_are_closed_for_good
            logs_read_back_whatever_was_written
            kept_runs_are_listed_by_cluster
            logs_that_are_taken_out_are_gone
            logs_have_one_owner_and_a_bound
            what_is_too_large_is_refused
            a_refusal_names_every_row_that_is_refused
            what_is_not_the_owners_is_refused
            numbers_out_of_range_are_refused
            events_without_a_place_are_refused
            a_lost_answer_is_settled_by_the_same_decision
            a_lost_answer_of_a_beaten_decision_is_a_conflict
            a_lost_commit_is_repeated_unchanged
            migrating_again_changes_nothing
        );
    };
    ($fresh:path: $($name:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::contract::$name(&$fresh().await).await;
            }
        )+
    };
}
