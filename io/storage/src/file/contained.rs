//! A panic of the file's library says that the file is not what it should be. It becomes an error here, and
//! ends nothing.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread becomes an error: a panic hook then neither prints it nor ends the process.
#[must_use]
pub fn panics_are_contained() -> bool {
    CONTAINED.get()
}

/// Does what may panic because of what a file holds.
///
/// # Errors
/// It panicked; the error is what the panic said.
pub(super) fn contained<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    let before = CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(before);
    done.map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "its library gave up".to_owned());
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let inside = contained(panics_are_contained);
        assert_eq!((inside, panics_are_contained()), (Ok(true), false));
        let n = 7;
        let error = contained(|| panic!("page {n} is wrong\nleft: 1")).unwrap_err();
        assert_eq!(
            (error.as_str(), panics_are_contained()),
            ("page 7 is wrong", false)
        );
    }
}
