//! Ports of simulated hosts. All hosts of all simulated clusters on a machine are that machine, so each host has a block of
//! ports that no other offers. The lowest port of a block is never offered: while it is served the block is taken, so that
//! processes that know nothing of each other take different blocks.

use crate::config::ServeError;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Ports of a block, the lowest one included.
const BLOCK: u16 = 50;

/// Blocks are taken from here up to what Linux gives to outgoing connections, then from below.
const FIRST: u16 = 31_000;
const END: u16 = 32_750;
const LOWEST: u16 = 10_000;

/// The blocks that a cluster's hosts have.
#[derive(Debug, Default)]
pub(crate) struct HostPorts(Mutex<Vec<TcpListener>>);

impl HostPorts {
    /// Takes a free block: the first and the last port that its host offers.
    ///
    /// # Errors
    /// Every block is taken.
    pub(crate) fn take(&self) -> Result<(u16, u16), ServeError> {
        let above = (FIRST..END).step_by(BLOCK.into());
        let below = (LOWEST..FIRST).step_by(BLOCK.into());
        let mut blocks = above.chain(below);
        let lowest = blocks.find(|lowest| self.hold(*lowest).is_ok());
        let lowest = lowest.ok_or(ServeError::NoPorts)?;
        Ok((lowest + 1, lowest + BLOCK - 1))
    }

    /// Takes the block of a host again, which is that of the first port that it offers.
    ///
    /// # Errors
    /// It is taken.
    pub(crate) fn take_again(&self, first: u16) -> Result<(), ServeError> {
        let taken = |source| ServeError::PortsTaken { first, source };
        self.hold(first.saturating_sub(1)).map_err(taken)
    }

    /// Lets others have all of them.
    pub(crate) fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn hold(&self, lowest: u16) -> std::io::Result<()> {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, lowest))?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(held);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_taken_twice_and_a_released_one_is_free() {
        let (one, other) = (HostPorts::default(), HostPorts::default());
        let (first, last) = one.take().unwrap();
        assert_eq!(last - first + 2, BLOCK);
        let (next, _) = other.take().unwrap();
        assert_ne!(first, next);
        let refused = other.take_again(first).unwrap_err().to_string();
        assert!(refused.contains(&first.to_string()), "{refused}");
        one.release();
        other.take_again(first).unwrap();
    }
}
