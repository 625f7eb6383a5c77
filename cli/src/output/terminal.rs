//! The only writer of standard output and standard error. A reader that goes (`echelon job list | head -1`) ends the
//! program quietly, as the signal SIGPIPE would: `println!` would panic.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// The exit status of a program whose reader went: 128 and the number of SIGPIPE.
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
