//! How much a request may hold, in one place. What is read from bytes (`proto/src/convert/bounds.rs`) and the rules of
//! specs use the same numbers, and `docs/limits.md` prints them.

/// Groups of a job: far more than the parts of any program, far fewer than instances.
pub const GROUPS: usize = 64;
/// Labels of a job, or of one that it is near to.
pub const LABELS: usize = 64;
/// Jobs that a job waits for.
pub const AWAITED: usize = 64;
/// Variables, or secrets, of one task.
pub const VARIABLES: usize = 1_024;
/// Bytes of `NAME=value` with its end, after references are replaced: Linux starts no program with a longer one.
pub const VARIABLE_BYTES: usize = 128 * 1024;
/// Arguments of one program.
pub const ARGUMENTS: usize = 1_024;
/// Files to fetch for one task.
pub const URIS: usize = 64;
/// Folders mounted into one container.
pub const VOLUMES: usize = 32;
/// Values of one rule about hosts.
pub const RULE_VALUES: usize = 1_000;
/// Exit statuses after which nothing is tried again: all there are.
pub const EXIT_CODES: usize = 256;
/// Ranges of instances of one override.
pub const OVERRIDE_RANGES: usize = 1_024;
/// Ranges of ended numbers of a group. Numbers that follow each other are one range. Each cuts the assignment of the
/// job once more, and the slice of the group, which is one row.
pub const ENDED_RANGES: usize = 1_000;
/// The same of a job.
pub const ENDED_RANGES_OF_JOB: usize = 2_000;
/// Hosts that one request names.
pub const NAMED_HOSTS: usize = 2_000;
/// States or labels that a list is filtered by.
pub const FILTERS: usize = 64;
/// Jobs that one question between processes names: a page of a list.
pub const NAMED_JOBS: usize = 1_000;

/// Problems that one answer names.
pub const VIOLATIONS: usize = 32;
/// Bytes of the path of a field, as an answer names it.
pub const VIOLATION_FIELD_BYTES: usize = 256;
/// Bytes of what is wrong with a field.
pub const VIOLATION_PROBLEM_BYTES: usize = 1_024;
/// Bytes of all of them together: an answer's status travels in a header, of which clients read 16 KiB.
pub const VIOLATIONS_BYTES: usize = 5 * 1024;
/// Bytes of an error's message.
pub const MESSAGE_BYTES: usize = 3 * 1024;

/// Bytes of a request: four times the largest spec.
pub const REQUEST_BYTES: usize = 1 << 20;
/// Bytes of a request about a whole tree of pools: 10,000 pools with all fields and paths of 1 KiB. Deeper trees are
/// made pool by pool.
pub const TREE_REQUEST_BYTES: usize = 16 << 20;

/// Bytes that the parts of a request may take beside the text in it, whatever its size.
pub const PARTS_BYTES: usize = 512 * 1024;
/// The same for each byte of the request.
pub const PARTS_BYTES_PER_BYTE: usize = 3;

/// Cuts a text to at most `most` bytes, at the end of a character, and says that it did.
#[must_use]
pub fn shortened(mut text: String, most: usize) -> String {
    const MARK: &str = "...";
    if text.len() <= most {
        return text;
    }
    let mut end = most.saturating_sub(MARK.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str(MARK);
    text.shrink_to_fit();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_the_end_of_a_character() {
        assert_eq!(shortened("abcdef".to_owned(), 6), "abcdef");
        assert_eq!(shortened("abcdefg".to_owned(), 6), "abc...");
        assert_eq!(shortened("ab\u{e4}\u{e4}\u{e4}".to_owned(), 6), "ab...");
        assert_eq!(shortened("abcdefg".to_owned(), 2), "...");
    }
}
