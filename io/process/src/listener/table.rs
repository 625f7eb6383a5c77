//! The connections of a port: how many there are, and which has been idle for longest.

use super::activity::{ConnectionActivity, ConnectionVerdict};
use super::limits::ConnectionLimits;
use super::refusals::{ConnectionRefusals, RefusalCause};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What is true after a panic elsewhere is still true.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, as all its parts know it.
#[derive(Debug)]
pub(super) struct ConnectionState {
    activity: Mutex<ConnectionActivity>,
    /// Its time may be over earlier than it was.
    pub(super) changed: Notify,
    /// It makes room for another one.
    pub(super) displaced: CancellationToken,
    pub(super) refusals: ConnectionRefusals,
}

impl ConnectionState {
    pub(super) fn opened(refusals: ConnectionRefusals) -> Arc<Self> {
        Arc::new(Self {
            activity: Mutex::new(ConnectionActivity::opened(Instant::now())),
            changed: Notify::new(),
            displaced: CancellationToken::new(),
            refusals,
        })
    }

    pub(super) fn read(&self, bytes: &[u8]) {
        lock(&self.activity).read(bytes, Instant::now());
        self.changed.notify_one();
    }

    pub(super) fn wrote<'a>(&self, bytes: impl Iterator<Item = &'a [u8]>) {
        let mut activity = lock(&self.activity);
        let refused: u64 = bytes.map(|bytes| activity.wrote(bytes)).sum();
        drop(activity);
        if refused > 0 {
            self.refusals.add(RefusalCause::Streams, refused);
        }
    }

    pub(super) fn write_waits(&self) {
        lock(&self.activity).write_waits(Instant::now());
        self.changed.notify_one();
    }

    pub(super) fn body_at(&self) -> Option<Instant> {
        lock(&self.activity).body_at()
    }

    pub(super) fn verdict(&self, limits: &ConnectionLimits) -> ConnectionVerdict {
        lock(&self.activity).verdict(limits, Instant::now())
    }

    fn idle_since(&self) -> Option<Instant> {
        lock(&self.activity).idle_since()
    }
}

/// A request in hand, until it is dropped.
#[derive(Debug)]
pub(super) struct RequestInHand(Arc<ConnectionState>);

impl RequestInHand {
    pub(super) fn begins(on: &Arc<ConnectionState>) -> Self {
        lock(&on.activity).request_begins();
        Self(Arc::clone(on))
    }
}

impl Drop for RequestInHand {
    fn drop(&mut self) {
        lock(&self.0.activity).request_ends(Instant::now());
        self.0.changed.notify_one();
    }
}

/// The connections of a port.
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    open: Mutex<BTreeMap<u64, Arc<ConnectionState>>>,
}

impl ConnectionTable {
    pub(super) fn add(&self, number: u64, state: Arc<ConnectionState>) {
        lock(&self.open).insert(number, state);
    }

    pub(super) fn remove(&self, number: u64) {
        lock(&self.open).remove(&number);
    }

    /// Those without a request, the longest idle one first.
    fn idle(&self) -> VecDeque<(Instant, u64)> {
        let open = lock(&self.open);
        let idle = open
            .iter()
            .filter_map(|(number, state)| Some((state.idle_since()?, *number)));
        let mut idle: Vec<(Instant, u64)> = idle.collect();
        idle.sort_unstable();
        idle.into()
    }
}

/// Chooses the connections that make room. What was found in one look is used up before the next look: connections that
/// become idle meanwhile have been idle for less time.
#[derive(Debug, Default)]
pub(super) struct LongestIdle(VecDeque<(Instant, u64)>);

impl LongestIdle {
    /// Asks the longest idle connection to end. Returns whether there was one.
    pub(super) fn displace(&mut self, table: &ConnectionTable) -> bool {
        self.displace_known(table) || {
            self.0 = table.idle();
            self.displace_known(table)
        }
    }

    fn displace_known(&mut self, table: &ConnectionTable) -> bool {
        while let Some((since, number)) = self.0.pop_front() {
            let state = lock(&table.open).get(&number).cloned();
            let still =
                state.filter(|state| state.idle_since() == Some(since) && !state.displaced.is_cancelled());
            if let Some(state) = still {
                state.displaced.cancel();
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn the_longest_idle_connection_goes_first_and_one_with_a_request_never() {
        let table = ConnectionTable::default();
        let mut states = Vec::new();
        for number in 0..4 {
            let state = ConnectionState::opened(ConnectionRefusals::unmeasured());
            table.add(number, Arc::clone(&state));
            states.push(state);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let [zero, one, two, three] = <[_; 4]>::try_from(states).unwrap();
        let request = RequestInHand::begins(&zero);
        let mut idle = LongestIdle::default();
        assert!(idle.displace(&table));
        assert!(one.displaced.is_cancelled() && !two.displaced.is_cancelled());
        // It has answered one meanwhile, so another one is idle for longer.
        drop(RequestInHand::begins(&two));
        assert!(idle.displace(&table));
        assert!(three.displaced.is_cancelled() && !two.displaced.is_cancelled());
        drop(request);
        tokio::time::advance(Duration::from_secs(1)).await;
        table.remove(1);
        table.remove(3);
        assert!(idle.displace(&table) && idle.displace(&table));
        assert!(two.displaced.is_cancelled() && zero.displaced.is_cancelled());
        assert!(!idle.displace(&table));
    }
}
