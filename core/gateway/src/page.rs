//! Pages of lists: sizes, and tokens that say where the page before ended. A token is text that only we read: the position
//! with a sum over it and over what was asked, so that a token of another list, or an invented one, is refused.

use crate::error::{ApiError, ErrorReason};
use echelon_core_model::bucket::fnv1a;
use std::collections::BinaryHeap;

/// Items of a page when nobody says.
const DEFAULT: u32 = 100;
/// Most items of a page (law 12).
pub const LARGEST: u32 = 1000;

/// Which page is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRequest {
    /// Most items; 0: the default.
    pub size: i32,
    /// Where the page before ended; empty: the first page.
    pub token: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// For the next page; `None`: this was the last.
    pub next: Option<String>,
    /// How many there are on all pages, where that was counted.
    pub total: Option<u64>,
    /// Rows that would belong to it and cannot be understood, in words.
    pub unread: Vec<String>,
}

impl PageRequest {
    /// The number of items; more than the largest page is the largest page.
    ///
    /// # Errors
    /// When it is negative.
    pub fn limit(&self) -> Result<u32, ApiError> {
        match u32::try_from(self.size) {
            Ok(0) => Ok(DEFAULT),
            Ok(n) => Ok(n.min(LARGEST)),
            Err(_) => Err(ApiError::field(
                "page_size",
                "must be 1 to 1000, or 0 for the default of 100",
            )),
        }
    }

    /// That the token is none of this list.
    #[must_use]
    pub fn wrong_token() -> ApiError {
        ApiError::field(
            "page_token",
            "is not a token of this list; begin again without one and keep all other fields as they were",
        )
        .because(ErrorReason::TokenInvalid)
    }

    /// What the position in the token says, `None` for the first page.
    ///
    /// # Errors
    /// When the token was not given for the same list, or says nothing that is understood.
    pub fn place<T>(&self, asked: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ApiError> {
        match self.position(asked)? {
            None => Ok(None),
            Some(position) => read(&position).map(Some).ok_or_else(Self::wrong_token),
        }
    }

    /// The position in the token, `None` for the first page.
    ///
    /// # Errors
    /// When the token was not given for the same list.
    pub fn position(&self, asked: &str) -> Result<Option<String>, ApiError> {
        if self.token.is_empty() {
            return Ok(None);
        }
        let open = open(asked, &self.token);
        open.map(Some).ok_or_else(Self::wrong_token)
    }
}

fn sum(asked: &str, position: &str) -> u64 {
    fnv1a(format!("{asked}\n{position}").as_bytes())
}

/// Seals a position for a list.
#[must_use]
pub fn seal(asked: &str, position: &str) -> String {
    let mut out = format!("{:016x}", sum(asked, position));
    for byte in position.bytes() {
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

/// The position in a token of that list.
#[must_use]
pub fn open(asked: &str, token: &str) -> Option<String> {
    let (head, body) = token.split_at_checked(16)?;
    let given = u64::from_str_radix(head, 16).ok()?;
    if body.len() % 2 != 0 || !body.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> = (0..body.len() / 2)
        .map(|i| u8::from_str_radix(body.get(2 * i..2 * i + 2)?, 16).ok())
        .collect();
    let position = String::from_utf8(bytes?).ok()?;
    (sum(asked, &position) == given).then_some(position)
}

/// The first items of a list in its order, of however many are looked at: no more are kept than a page needs.
pub struct First<T> {
    keep: usize,
    kept: BinaryHeap<T>,
    seen: u64,
}

impl<T: Ord> First<T> {
    /// Keeps a page and one more, so that it is known whether another one follows.
    #[must_use]
    pub fn page(limit: u32) -> Self {
        Self {
            keep: usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1),
            kept: BinaryHeap::new(),
            seen: 0,
        }
    }

    /// Looks at an item; `wanted` says whether it belongs on this page or a later one.
    pub fn look(&mut self, item: T, wanted: bool) {
        self.seen += 1;
        if !wanted {
            return;
        }
        self.kept.push(item);
        if self.kept.len() > self.keep {
            self.kept.pop();
        }
    }

    /// The page with the number of all items that were looked at.
    #[must_use]
    pub fn cut(self, limit: u32, asked: &str, position: impl Fn(&T) -> String) -> Page<T> {
        Page {
            total: Some(self.seen),
            ..cut(self.kept.into_sorted_vec(), limit, asked, position)
        }
    }
}

/// Cuts a list that was read with one item more than the page holds.
#[must_use]
pub fn cut<T>(mut items: Vec<T>, limit: u32, asked: &str, position: impl Fn(&T) -> String) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items
        .last()
        .filter(|_| more)
        .map(|last| seal(asked, &position(last)));
    Page {
        items,
        next,
        total: None,
        unread: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_open_only_where_they_were_sealed(asked in ".{0,9}", other in ".{0,9}", position in ".{0,30}") {
            let token = seal(&asked, &position);
            prop_assert_eq!(open(&asked, &token), Some(position));
            prop_assume!(asked != other);
            prop_assert_eq!(open(&other, &token), None);
        }

        #[test]
        fn invented_tokens_are_refused(token in ".{0,40}") {
            let page = PageRequest { size: 0, token: token.clone() };
            prop_assume!(!token.is_empty());
            let refused = page.position("jobs").unwrap_err();
            prop_assert_eq!(refused.violations[0].field.as_str(), "page_token");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let limit = |size| {
            PageRequest {
                size,
                token: String::new(),
            }
            .limit()
            .ok()
        };
        assert_eq!(
            [0, 1, 1000, 5000, -1].map(limit),
            [Some(100), Some(1), Some(1000), Some(1000), None]
        );
    }

    proptest! {
        #[test]
        fn the_first_of_any_list_are_those_of_the_sorted_one(list in prop::collection::vec(0_u16..50, 0..40), limit in 1_u32..9, from in 0_u16..50) {
            let mut first = First::page(limit);
            list.iter().for_each(|n| first.look(*n, *n >= from));
            let page = first.cut(limit, "x", ToString::to_string);
            let mut sorted: Vec<u16> = list.iter().copied().filter(|n| *n >= from).collect();
            sorted.sort_unstable();
            prop_assert_eq!(page.next.is_some(), sorted.len() > limit as usize);
            sorted.truncate(limit as usize);
            prop_assert_eq!(page.items, sorted);
            prop_assert_eq!(page.total, Some(list.len() as u64));
        }
    }

    #[test]
    fn a_page_has_a_next_one_only_when_more_was_read() {
        let position = |n: &u32| n.to_string();
        assert_eq!(cut(vec![1, 2], 2, "x", position).next, None);
        let page = cut(vec![1, 2, 3], 2, "x", position);
        assert_eq!((page.items, page.next), (vec![1, 2], Some(seal("x", "2"))));
    }
}
