//! The proxy's modes, each between a client and an echoing server.

use std::io::ErrorKind;
use std::sync::mpsc;

use super::*;

/// Long enough for a busy machine: a test that passes never waits for it.
const LIMIT: Duration = Duration::from_secs(20);
/// How long "nothing comes" is watched.
const NOTHING: Duration = Duration::from_millis(200);

/// A server that sends back what it gets, and tells the test what it got.
fn echo() -> (SocketAddr, mpsc::Receiver<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, got) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, told) = (stream.unwrap(), told.clone());
            thread::spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    let _ = told.send(byte[0]);
                    let _ = stream.write_all(&byte);
                }
            });
        }
    });
    (address, got)
}

struct Case {
    proxy: Proxy,
    got: mpsc::Receiver<u8>,
    client: TcpStream,
}

/// A client whose first byte has gone through and come back.
fn connected() -> Case {
    let (server, got) = echo();
    let proxy = Proxy::start(server).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    let mut case = Case { proxy, got, client };
    case.send(1);
    assert_eq!(case.server_gets(), Some(1));
    assert_eq!(case.receive(LIMIT).unwrap(), 1);
    case
}

impl Case {
    fn send(&mut self, byte: u8) {
        self.client.write_all(&[byte]).unwrap();
    }

    fn server_gets(&self) -> Option<u8> {
        self.got.recv_timeout(LIMIT).ok()
    }

    fn receive(&mut self, limit: Duration) -> std::io::Result<u8> {
        self.client.set_read_timeout(Some(limit)).unwrap();
        let mut byte = [0];
        self.client.read_exact(&mut byte).map(|()| byte[0])
    }

    fn receives_nothing(&mut self) {
        assert_eq!(self.receive(NOTHING).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    fn is_reset(&mut self) {
        let error = self.receive(LIMIT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
}

#[test]
fn silence_holds_back_and_then_delivers() {
    let mut case = connected();
    case.proxy.set(Mode::Silence);
    case.send(2);
    case.receives_nothing();
    assert_eq!(
        case.got.try_recv().ok(),
        None,
        "the server got what was sent in silence"
    );
    case.proxy.set(Mode::Pass);
    assert_eq!(case.receive(LIMIT).unwrap(), 2);
}

#[test]
fn a_cut_resets_now_and_later_connections() {
    let mut case = connected();
    case.proxy.set(Mode::Cut);
    case.is_reset();
    case.client = TcpStream::connect(case.proxy.address()).unwrap();
    case.is_reset();
    case.proxy.set(Mode::Pass);
    case.client = TcpStream::connect(case.proxy.address()).unwrap();
    case.send(3);
    assert_eq!(case.receive(LIMIT).unwrap(), 3);
}

#[test]
fn dropped_answers_leave_the_request_done() {
    let mut case = connected();
    case.proxy.set(Mode::DropAnswers);
    case.send(4);
    assert_eq!(case.server_gets(), Some(4));
    case.receives_nothing();
    case.proxy.set(Mode::Pass);
    case.is_reset();
}

#[test]
fn a_delayed_piece_arrives_whole() {
    let mut case = connected();
    case.proxy.set(Mode::Delay(Duration::from_millis(20)));
    case.send(5);
    assert_eq!(case.receive(LIMIT).unwrap(), 5);
}

#[test]
fn a_dropped_proxy_resets() {
    let mut case = connected();
    let (other, _) = echo();
    case.proxy = Proxy::start(other).unwrap();
    case.is_reset();
}

#[test]
fn no_server_closes_the_client() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(gone).unwrap();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_closed_client_is_told_to_the_server() {
    let case = connected();
    case.client.shutdown(Shutdown::Write).unwrap();
    let mut client = &case.client;
    client.set_read_timeout(Some(LIMIT)).unwrap();
    // the echo ends with its client, and that end comes back through the proxy
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}
