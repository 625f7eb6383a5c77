//! Addresses for servers under test: loopback networks of their own, so that runs side by side never meet.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

use anyhow::{Result, bail};

/// Port at which a [`LoopbackNet`] is held; any fixed one that no server uses.
const HOLD_PORT: u16 = 19_999;

/// A network 127.X.Y.0/24 that is nobody else's while this value lives. All of 127/8 answers on Linux' loopback without
/// set-up, so servers in it may use their usual ports, and no outgoing connection ever takes one of them.
pub struct LoopbackNet {
    prefix: [u8; 3],
    _held: TcpListener,
}

impl LoopbackNet {
    /// Takes a random free network; a listener at its address 254 tells other runs that it is taken.
    ///
    /// # Errors
    /// A hundred networks in a row were taken, or this system does not answer on all of 127/8 (only Linux does).
    pub fn take() -> Result<Self> {
        let mut refused = None;
        for attempt in 0..100_u32 {
            let [x, y, ..] = RandomState::new().hash_one(attempt).to_le_bytes();
            // 127.0 is everybody's, 127.1 belongs to some resolvers
            let prefix = [127, x.clamp(2, 254), y];
            match TcpListener::bind((address(prefix, 254), HOLD_PORT)) {
                Ok(held) => return Ok(Self { prefix, _held: held }),
                Err(error) => refused = Some(error),
            }
        }
        bail!("found no free network in 127/8 in 100 attempts, the last one failed with: {refused:?}")
    }

    /// Address `host` (1 to 253) of this network.
    #[must_use]
    pub fn address(&self, host: u8) -> Ipv4Addr {
        address(self.prefix, host)
    }

    /// `host` and `port` of this network, as a server's argument.
    #[must_use]
    pub fn socket(&self, host: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(host), port)
    }
}

fn address([a, b, c]: [u8; 3], host: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_networks_are_two() {
        let (one, two) = (LoopbackNet::take().unwrap(), LoopbackNet::take().unwrap());
        assert_ne!(one.address(1), two.address(1));
        // the same port of both can be listened at
        let _one = TcpListener::bind(one.socket(1, 9042)).unwrap();
        let _two = TcpListener::bind(two.socket(1, 9042)).unwrap();
    }
}
