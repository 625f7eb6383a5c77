//! Ports of simulated hosts. All hosts of all simulated clusters on a machine are that machine, so each host
//! has a block of ports that no other offers. The lowest port of a block is never offered: while it is bound
//! the block is taken, so that processes that know nothing of each other take different blocks.

use crate::config::ServeError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use tokio::net::TcpSocket;

/// Ports of a block, the lowest one included.
const BLOCK: u16 = 50;

/// Blocks are taken from here up to what Linux gives to outgoing connections, then from below.
const FIRST: u16 = 31_000;
const END: u16 = 32_750;
const LOWEST: u16 = 10_000;

/// The blocks that a cluster's hosts have.
#[derive(Debug)]
pub(crate) struct HostPorts {
    held: Mutex<Vec<TcpSocket>>,
    /// Where it begins to look for free blocks. Clusters begin at different places, so that the blocks of one
    /// that is away for a moment are still free when it is back.
    place: usize,
}

impl HostPorts {
    /// Those of the cluster that has this name in this folder.
    pub(crate) fn of(cluster: &str, folder: Option<&Path>) -> Self {
        let mut hasher = DefaultHasher::new();
        (cluster, folder).hash(&mut hasher);
        Self {
            held: Mutex::default(),
            place: usize::try_from(hasher.finish() % 256).unwrap_or_default(),
        }
    }

    /// Takes a free block: the first and the last port that its host offers.
    ///
    /// # Errors
    /// Every block is taken.
    pub(crate) fn take(&self) -> Result<(u16, u16), ServeError> {
        let rotated = |blocks: Range<u16>| {
            let blocks: Vec<u16> = blocks.step_by(BLOCK.into()).collect();
            let begin = self.place % blocks.len().max(1);
            blocks
                .into_iter()
                .cycle()
                .skip(begin)
                .take(usize::from(END / BLOCK))
        };
        let mut blocks = rotated(FIRST..END).chain(rotated(LOWEST..FIRST));
        let lowest = blocks.find(|lowest| self.hold(*lowest).is_ok());
        let lowest = lowest.ok_or(ServeError::NoPorts)?;
        Ok((lowest + 1, lowest + BLOCK - 1))
    }

    /// Takes the block of a host again, which is that of the first port that it offers. The host keeps its
    /// ports also where another process has taken them meanwhile: its tasks may use them.
    pub(crate) fn take_again(&self, first: u16) {
        if let Err(error) = self.hold(first.saturating_sub(1)) {
            tracing::warn!(
                first,
                %error,
                "another process has taken the ports of a host while this simulated cluster was away; tasks that are given the same port fail"
            );
        }
    }

    /// Lets others have all of them.
    pub(crate) fn release(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn hold(&self, lowest: u16) -> std::io::Result<()> {
        // Bound and not served: a caller is refused at once instead of waiting for an answer.
        let held = TcpSocket::new_v4()?;
        held.bind((Ipv4Addr::LOCALHOST, lowest).into())?;
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(held);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_taken_twice_and_a_released_one_is_free() {
        let (one, other) = (HostPorts::of("east", None), HostPorts::of("east", None));
        let (first, last) = one.take().unwrap();
        assert_eq!(last - first + 2, BLOCK);
        let (next, _) = other.take().unwrap();
        assert_ne!(first, next);
        assert!(other.hold(first - 1).is_err());
        one.release();
        assert!(other.hold(first - 1).is_ok());
    }
}
