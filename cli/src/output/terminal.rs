//! The only writer of standard output and standard error. When the reader closes its end, as in
//! `echelon job list | head -1`, the program ends quietly, as it would by SIGPIPE. `println!` would panic.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// The exit status when the reader has closed its end: 128 and the number of SIGPIPE.
pub const READER_GONE: i32 = 141;

/// Prints text to standard output as it is.
pub fn print(text: impl Display) {
    bytes(text.to_string().as_bytes());
}

/// Prints a line to standard output.
pub fn line(text: impl Display) {
    print(format_args!("{text}\n"));
}

/// Prints bytes to standard output at once.
pub fn bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_all(bytes).and_then(|()| out.flush()) else {
        return;
    };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(READER_GONE);
    }
    remark(format_args!("echelon: cannot write the output: {error}"));
    std::process::exit(1);
}

/// Prints a line beside the output, to standard error. Without a reader there it is dropped.
pub fn remark(text: impl Display) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
