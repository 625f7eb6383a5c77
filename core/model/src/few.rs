//! A map of few entries: a sorted vector behind a map's interface. A tree takes room for eleven entries as soon as it has one; most
//! jobs have one group, one cluster and one grant, and there are very many of them.

use std::fmt;
use thin_vec::ThinVec;

/// A map for a few entries, in order of key, in no more room than they take: a pointer while there are none. Look-ups are
/// binary searches; putting in and taking out are `O(entries)`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Few<K, V>(ThinVec<(K, V)>);

impl<K, V> Few<K, V> {
    /// Without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self(ThinVec::new())
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All entries, in order of key.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + Clone {
        self.into_iter()
    }

    /// All entries, to change their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(k, v)| (&*k, v))
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.0.iter().map(|(k, _)| k)
    }

    /// The values, in order of key.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.0.iter().map(|(_, v)| v)
    }

    /// The values, to change them, in order of key.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, v)| v)
    }

    /// The entry with the largest key.
    #[must_use]
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.0.last().map(|(k, v)| (k, v))
    }

    /// Takes out the entry with the largest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        self.0.pop()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.0 = ThinVec::new();
    }

    /// Keeps the entries for which this holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
        if self.0.is_empty() {
            self.clear();
        }
    }
}

impl<K: Ord, V> Few<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.cmp(key))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        let at = self.find(key).ok()?;
        self.0.get(at).map(|(_, v)| v)
    }

    /// The value of a key, to change it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.find(key).ok()?;
        self.0.get_mut(at).map(|(_, v)| v)
    }

    /// Whether there is such a key.
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Puts an entry in; gives back the value that was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, v)| std::mem::replace(v, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.find(key).ok()?;
        let (_, value) = self.0.remove(at);
        if self.0.is_empty() {
            self.clear();
        }
        Some(value)
    }

    /// The value of a key, put in by `make` where there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (key, make()));
                at
            }
        };
        #[expect(clippy::indexing_slicing, reason = "it was found or put in there")]
        let (_, value) = &mut self.0[at];
        value
    }

    /// The value of a key, the default where there is none.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.get_or_insert_with(key, V::default)
    }
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Entries by reference, in order of key.
type Iter<'a, K, V> = std::iter::Map<std::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

impl<'a, K, V> IntoIterator for &'a Few<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(k, v)| (k, v))
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Few<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for Few<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut out = Self::new();
        for (key, value) in entries {
            out.insert(key, value);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u8, u8),
        Remove(u8),
        Raise(u8),
        Keep(u8),
        PopLast,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = 0..12u8;
        prop_oneof![
            8 => (key.clone(), any::<u8>()).prop_map(|(k, v)| Step::Insert(k, v)),
            4 => key.clone().prop_map(Step::Remove),
            4 => key.clone().prop_map(Step::Raise),
            1 => key.prop_map(Step::Keep),
            1 => Just(Step::PopLast),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn it_is_the_map_that_it_stands_for(steps in proptest::collection::vec(step(), 0..60)) {
            let (mut few, mut map) = (Few::new(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(k, v) => prop_assert_eq!(few.insert(k, v), map.insert(k, v)),
                    Step::Remove(k) => prop_assert_eq!(few.remove(&k), map.remove(&k)),
                    Step::Raise(k) => {
                        *few.get_or_default(k) |= 1;
                        *map.entry(k).or_default() |= 1;
                    }
                    Step::Keep(least) => {
                        few.retain(|k, _| *k >= least);
                        map.retain(|k, _| *k >= least);
                    }
                    Step::PopLast => prop_assert_eq!(few.pop_last(), map.pop_last()),
                    Step::Clear => {
                        few.clear();
                        map.clear();
                    }
                }
                prop_assert!(few.iter().eq(map.iter()));
                prop_assert!(few.keys().eq(map.keys()) && few.values().eq(map.values()));
                prop_assert_eq!((few.len(), few.is_empty()), (map.len(), map.is_empty()));
                prop_assert_eq!(few.last_key_value(), map.last_key_value());
                for k in 0..12 {
                    prop_assert_eq!(few.get(&k), map.get(&k));
                    prop_assert_eq!(few.contains_key(&k), map.contains_key(&k));
                    prop_assert_eq!(few.get_mut(&k), map.get_mut(&k));
                }
                prop_assert_eq!(&few, &map.clone().into_iter().rev().collect());
            }
        }
    }
}
