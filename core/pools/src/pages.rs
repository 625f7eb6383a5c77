//! A list in parts. Copies share a part until one of them changes it.

use std::sync::Arc;

/// Items of one part.
const PAGE: usize = 16;

/// A list of a fixed length. A copy costs as much as it has parts, and a change as much as a part has items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pages<T> {
    pages: Vec<Arc<[T; PAGE]>>,
    len: usize,
}

impl<T: Copy + Default> Pages<T> {
    /// So many items, each with its default. They take the memory of one part.
    pub(crate) fn new(len: usize) -> Self {
        let page = Arc::new([T::default(); PAGE]);
        Self {
            pages: vec![page; len.div_ceil(PAGE)],
            len,
        }
    }

    /// An item.
    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        let page = self.pages.get(at / PAGE).filter(|_| at < self.len)?;
        page.get(at % PAGE)
    }

    /// An item, to change it.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let page = self.pages.get_mut(at / PAGE).filter(|_| at < self.len)?;
        Arc::make_mut(page).get_mut(at % PAGE)
    }

    /// Each item that may differ between two lists, with its place. `O(parts that they do not share)`.
    pub(crate) fn differences<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (usize, &'a T, &'a T)> {
        let pages = self.pages.iter().zip(&other.pages).enumerate();
        let pages = pages.filter(|(_, (a, b))| !Arc::ptr_eq(a, b));
        pages.flat_map(|(page, (a, b))| {
            let pairs = a.iter().zip(b.iter()).enumerate();
            pairs.map(move |(i, (a, b))| (page * PAGE + i, a, b))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_what_neither_has_changed() {
        let mut list: Pages<u64> = Pages::new(200);
        let before = list.clone();
        assert_eq!(before.differences(&list).count(), 0);
        *list.get_mut(130).unwrap() = 7;
        assert_eq!((list.get(130), before.get(130)), (Some(&7), Some(&0)));
        assert_eq!((list.get(199), list.get(200)), (Some(&0), None));
        assert!(list.get_mut(200).is_none());
        let differ: Vec<_> = before.differences(&list).filter(|(_, a, b)| a != b).collect();
        assert_eq!(differ, [(130, &0, &7)]);
        assert_eq!(before.differences(&list).count(), PAGE);
        assert_ne!(before, list);
    }
}
