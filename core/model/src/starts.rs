//! How many starts a cluster has begun of late, and how many of them failed by the platform. A shard counts
//! them by group, and the resource manager compares the groups of all clusters.

use crate::bucket::fnv1a;
use crate::id::HostId;
use crate::platform::PlatformCause;
use crate::runtime::Runtime;
use crate::time::Span;

/// A start counts for this long.
pub const START_WINDOW: Span = Span::minutes(5);
/// A run that ends by the platform within this time after it began to run has failed to start.
pub const START_PROVEN: Span = Span::seconds(30);
/// Most groups in a report: about 3 KiB.
pub const MOST_START_GROUPS: usize = 64;
/// Hosts with a failed start that a report names of each group. So many different ones are enough evidence,
/// so no more need to be known.
pub const MOST_FAILED_HOSTS: usize = 3;

/// Starts of one kind: those of one pool with the same image and the same files to fetch. A hash of them,
/// which is the same at each cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartGroup(pub u64);

impl StartGroup {
    /// Of a pool's path and of what the tasks of an instance are made of.
    #[must_use]
    pub fn of<'a>(pool: &str, tasks: impl IntoIterator<Item = &'a Runtime>) -> Self {
        let mut bytes = Vec::new();
        // Each text is followed by a byte that no text contains, so that neighbours are told apart.
        let mut add = |text: &str| {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0xff);
        };
        add(pool);
        for task in tasks {
            add(task.container.as_ref().map_or("", |c| c.image.as_str()));
            task.uris.iter().for_each(|file| add(&file.uri));
            add("");
        }
        Self(fnv1a(&bytes))
    }
}

/// A host, as a hash of its agent's id: only whether two are the same one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostHash(pub u64);

impl HostHash {
    /// Of an agent.
    #[must_use]
    pub fn of(host: &HostId) -> Self {
        Self(fnv1a(host.as_str().as_bytes()))
    }
}

/// The starts of one group within [`START_WINDOW`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStarts {
    /// The group.
    pub group: StartGroup,
    /// Launches that were sent to Mesos.
    pub begun: u32,
    /// Runs that ended by the platform before they were proven to run.
    pub failed: u32,
    /// The cause of most of these; `None`: nothing failed.
    pub cause: Option<PlatformCause>,
    /// The hosts on which something failed last, at most [`MOST_FAILED_HOSTS`], each once, in order.
    pub hosts: Vec<HostHash>,
}

/// The starts of a cluster within [`START_WINDOW`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartCounts {
    /// Those with most starts, at most [`MOST_START_GROUPS`], each once.
    pub groups: Vec<GroupStarts>,
    /// Starts of other groups, which are not named.
    pub left_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Container, Uri};

    fn runtime(image: &str, files: &[&str]) -> Runtime {
        let uris = files.iter().map(|uri| Uri {
            uri: (*uri).to_owned(),
            extract: false,
            executable: false,
            cache: false,
            output_file: String::new(),
        });
        Runtime {
            container: (!image.is_empty()).then(|| Container {
                image: image.to_owned(),
                ..Container::default()
            }),
            uris: uris.collect(),
            ..Runtime::default()
        }
    }

    #[test]
    fn a_group_is_one_pool_one_image_and_the_same_files() {
        let of = |pool, tasks: &[Runtime]| StartGroup::of(pool, tasks);
        let one = of("/a", &[runtime("web:1", &["x.tar"])]);
        let other_command = Runtime {
            command: "sleep 9".to_owned(),
            ..runtime("web:1", &["x.tar"])
        };
        assert_eq!(of("/a", &[other_command]), one);
        let different = [
            of("/b", &[runtime("web:1", &["x.tar"])]),
            of("/a", &[runtime("web:2", &["x.tar"])]),
            of("/a", &[runtime("web:1", &["y.tar"])]),
            of("/a", &[runtime("web:1", &[])]),
            of("/a", &[runtime("web:1", &["x.t", "ar"])]),
            of("/a", &[runtime("", &["web:1", "x.tar"])]),
            of("/a", &[runtime("web:1", &["x.tar"]), runtime("log:1", &[])]),
            of("/a", &[runtime("web:1", &[]), runtime("", &["x.tar"])]),
        ];
        let mut all = different.to_vec();
        all.push(one);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), different.len() + 1);
    }

    #[test]
    fn a_group_has_the_same_number_in_each_build() {
        let group = StartGroup::of("/a", &[runtime("web:1", &["x.tar"])]);
        assert_eq!(group, StartGroup(0x0d51_386e_7425_30c9));
    }
}
