//! Looks at the frames of an HTTP/2 connection as they pass, whole or in pieces: enough to tell a head that was begun and
//! not ended, bytes of bodies, and streams that were refused.

/// What an HTTP/2 client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: u32 = 7;

/// Bytes before the payload of a frame.
const FRAME_HEAD: usize = 9;

/// Where in its frames one direction of a connection is.
#[derive(Debug, Clone)]
pub(super) struct FrameScan {
    /// The bytes of the present frame's head.
    head: Vec<u8>,
    /// Bytes of its payload that are missing.
    missing: usize,
    kind: u8,
    /// The last four bytes of its payload.
    tail: u32,
    /// A head was begun, and its last frame has not begun.
    open: bool,
}

/// What bytes were about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SeenFrames {
    /// They were of a body.
    pub(super) body: bool,
    /// So many streams were refused.
    pub(super) refused: u64,
}

impl FrameScan {
    /// Before the first frame.
    pub(super) const fn new() -> Self {
        Self {
            head: Vec::new(),
            missing: 0,
            kind: DATA,
            tail: 0,
            open: false,
        }
    }

    /// Goes on by bytes.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) -> SeenFrames {
        let mut seen = SeenFrames::default();
        while !bytes.is_empty() {
            if self.missing == 0 {
                let wanted = FRAME_HEAD.saturating_sub(self.head.len());
                let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
                self.head.extend_from_slice(taken);
                bytes = rest;
                // Part of a frame's head may be that of a body.
                seen.body |= !self.begin() || self.kind == DATA;
                continue;
            }
            let (taken, rest) = bytes.split_at(self.missing.min(bytes.len()));
            self.missing -= taken.len();
            bytes = rest;
            match self.kind {
                DATA => seen.body = true,
                RESET => {
                    self.tail = taken.iter().fold(self.tail, |tail, b| tail << 8 | u32::from(*b));
                    seen.refused += u64::from(self.missing == 0 && self.tail == REFUSED_STREAM);
                }
                _ => {}
            }
        }
        seen
    }

    /// Begins a frame when its head is whole. Returns whether it is.
    fn begin(&mut self) -> bool {
        let [a, b, c, kind, flags, ..] = *self.head.as_slice() else {
            return false;
        };
        if self.head.len() < FRAME_HEAD {
            return false;
        }
        self.head.clear();
        self.missing = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        (self.kind, self.tail) = (kind, 0);
        if matches!(kind, HEADERS | CONTINUATION) {
            self.open = flags & END_HEADERS == 0;
        }
        true
    }

    /// A head was begun and is not whole.
    pub(super) fn is_in_head(&self) -> bool {
        self.open || (self.missing > 0 && matches!(self.kind, HEADERS | CONTINUATION))
    }

    /// A frame was begun and is not whole.
    pub(super) fn is_in_frame(&self) -> bool {
        self.missing > 0 || !self.head.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut out = length.get(1..).unwrap().to_vec();
        out.extend([kind, flags, 0, 0, 0, 1]);
        out.extend(payload);
        out
    }

    #[test]
    fn a_head_is_open_until_its_last_byte_however_it_is_cut() {
        let parts = [
            (frame(HEADERS, 0, b"abc"), true),
            (frame(CONTINUATION, 0, b""), true),
            (frame(CONTINUATION, END_HEADERS, b"abcd"), false),
            (frame(DATA, 1, b"abcd"), false),
            (frame(HEADERS, END_HEADERS, b"x"), false),
        ];
        for step in 1..16 {
            let mut scan = FrameScan::new();
            for (part, open) in &parts {
                for piece in part.chunks(step) {
                    scan.pass(piece);
                }
                assert_eq!((scan.is_in_head(), scan.is_in_frame()), (*open, false));
            }
        }
        let mut scan = FrameScan::new();
        let whole = frame(HEADERS, END_HEADERS, b"abcd");
        for (i, byte) in whole.iter().enumerate() {
            scan.pass(std::slice::from_ref(byte));
            assert_eq!(scan.is_in_head(), (8..12).contains(&i), "{i}");
            assert_eq!(scan.is_in_frame(), i < 12);
        }
    }

    #[test]
    fn bodies_and_refused_streams_are_seen() {
        let mut scan = FrameScan::new();
        let mut bytes = frame(RESET, 0, &7u32.to_be_bytes());
        bytes.extend(frame(RESET, 0, &8u32.to_be_bytes()));
        let seen = scan.pass(&bytes);
        assert_eq!(
            seen,
            SeenFrames {
                body: false,
                refused: 1
            }
        );
        assert!(scan.pass(&frame(DATA, 0, b"x")).body);
        assert!(!scan.pass(&frame(6, 0, &[0; 8])).body);
        let slow = frame(DATA, 0, b"x");
        assert!(slow.iter().all(|byte| scan.pass(std::slice::from_ref(byte)).body));
    }
}
