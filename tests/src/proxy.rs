//! A TCP proxy between a client and a server, which a test orders to delay, to fall silent, to cut, or to drop answers.
//!
//! It has threads of its own and depends on no async runtime, so one proxy serves tests with paused time as well.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rustix::net::sockopt::set_socket_linger;

/// Size of one piece that is passed on: larger than most messages, so that a message is seldom split.
const PIECE: usize = 64 * 1024;

/// What the proxy does with what it receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything.
    Pass,
    /// Passes each piece this much later.
    Delay(Duration),
    /// Passes nothing and closes nothing; what was sent meanwhile is passed afterwards, as after a lost link.
    Silence,
    /// Resets all connections, and every new one.
    Cut,
    /// Passes requests and drops their answers: the client never learns what happened. A connection that lost an answer
    /// is reset when the mode changes, since the rest of its stream would make no sense.
    DropAnswers,
}

/// Listens on a free port of 127.0.0.1 and passes to one server. Dropping it resets its connections.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Towards {
    Server,
    Client,
}

struct Shared {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    /// Counts mode changes, so that a connection knows that the mode it lost an answer under is over.
    changes: u64,
    closed: bool,
    /// Both ends of every connection under way, to wake the threads that read from them.
    open: Vec<Arc<Link>>,
}

struct Link {
    client: TcpStream,
    server: TcpStream,
    was_reset: AtomicBool,
}

impl Proxy {
    /// Starts one in front of `server`, passing everything.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(server: impl Into<SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = State {
            mode: Mode::Pass,
            changes: 0,
            closed: false,
            open: Vec::new(),
        };
        let shared = Arc::new(Shared {
            server: server.into(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// Where clients connect instead of to the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Orders what happens from now on, for the connections under way as well.
    pub fn set(&self, mode: Mode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        state.changes += 1;
        if mode == Mode::Cut {
            state.reset_all();
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.changes += 1;
        state.reset_all();
        drop(state);
        self.shared.changed.notify_all();
        // the accepting thread sees `closed` at its next connection: this one
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the mode is silence; the mode then, none when the proxy is gone.
    fn mode_after_silence(&self) -> Option<(Mode, u64)> {
        let state = self.lock();
        let waited = self
            .changed
            .wait_while(state, |state| state.mode == Mode::Silence && !state.closed);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        (!state.closed).then_some((state.mode, state.changes))
    }

    /// Waits until the mode changes from the one of `seen`.
    fn wait_for_change(&self, seen: u64) {
        let state = self.lock();
        let waited = self
            .changed
            .wait_while(state, |state| state.changes == seen && !state.closed);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn reset_all(&mut self) {
        for link in self.open.drain(..) {
            link.reset();
        }
    }
}

impl Link {
    /// Wakes both threads; the sockets close with a reset once the last of them lets go.
    fn reset(&self) {
        self.was_reset.store(true, Ordering::SeqCst);
        for socket in [&self.client, &self.server] {
            // refused for a peer that is gone already, which is what is wanted
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let Ok(client) = client else { continue };
        let mode = {
            let state = shared.lock();
            if state.closed {
                return;
            }
            state.mode
        };
        if mode == Mode::Cut {
            let _ = set_socket_linger(&client, Some(Duration::ZERO));
            continue;
        }
        // in silence the connection stands, since the kernel accepts it, and nothing comes through
        let shared = Arc::clone(shared);
        thread::spawn(move || connect(client, &shared));
    }
}

fn connect(client: TcpStream, shared: &Arc<Shared>) {
    if shared.mode_after_silence().is_none() {
        return;
    }
    // no server: the client's connection closes, as a refused one would
    let Ok(server) = TcpStream::connect(shared.server) else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let link = Arc::new(Link {
        client,
        server,
        was_reset: AtomicBool::new(false),
    });
    {
        let mut state = shared.lock();
        if state.closed || state.mode == Mode::Cut {
            link.reset();
            return;
        }
        state.open.push(Arc::clone(&link));
    }
    let (answers, answers_shared) = (Arc::clone(&link), Arc::clone(shared));
    let answering = thread::spawn(move || pass(&answers, Towards::Client, &answers_shared));
    pass(&link, Towards::Server, shared);
    let _ = answering.join();
    shared.lock().open.retain(|open| !Arc::ptr_eq(open, &link));
}

/// Passes one direction until it ends, then ends that direction only: the other may still have something to say.
fn pass(link: &Link, towards: Towards, shared: &Shared) {
    let (mut from, mut to) = match towards {
        Towards::Server => (&link.client, &link.server),
        Towards::Client => (&link.server, &link.client),
    };
    let mut piece = vec![0; PIECE];
    loop {
        let length = match from.read(&mut piece) {
            // an orderly end would hide the reset from the other side
            Ok(0) if link.was_reset.load(Ordering::SeqCst) => return,
            Ok(0) => break,
            Ok(length) => length,
            Err(_) => return link.reset(),
        };
        let Some((mode, changes)) = shared.mode_after_silence() else {
            return link.reset();
        };
        match mode {
            Mode::Cut => return link.reset(),
            Mode::DropAnswers if towards == Towards::Client => {
                shared.wait_for_change(changes);
                return link.reset();
            }
            Mode::Delay(by) => thread::sleep(by),
            Mode::Pass | Mode::Silence | Mode::DropAnswers => {}
        }
        if to.write_all(piece.get(..length).unwrap_or_default()).is_err() {
            return link.reset();
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests;
