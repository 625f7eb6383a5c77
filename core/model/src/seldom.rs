//! A part that most of its owners have nothing of.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A type with a value that says nothing.
pub trait Nothing: Clone + PartialEq + 'static {
    /// That value.
    const NOTHING: &'static Self;
}

/// A part of something of which there are very many. It takes a pointer while it says nothing, and memory of
/// its own from the first change on.
#[derive(Clone)]
pub struct Seldom<T>(Option<Box<T>>);

impl<T> Seldom<T> {
    /// With nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// The part, where it has memory of its own.
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// The part, to change it, where it has memory of its own. Else there is nothing to take away.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Nothing> From<T> for Seldom<T> {
    fn from(part: T) -> Self {
        Self((part != *T::NOTHING).then(|| Box::new(part)))
    }
}

impl<T: Nothing> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

impl<T: Nothing> DerefMut for Seldom<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::NOTHING.clone()))
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Nothing> PartialEq for Seldom<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Nothing + Eq> Eq for Seldom<T> {}

impl<T: Nothing + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Names {
        listed: Vec<&'static str>,
    }

    impl Nothing for Names {
        const NOTHING: &'static Self = &Self { listed: Vec::new() };
    }

    #[test]
    fn it_takes_a_pointer_until_there_is_something() {
        let mut names: Seldom<Names> = Names { listed: Vec::new() }.into();
        assert_eq!(size_of_val(&names), size_of::<usize>());
        assert!(names.listed.is_empty() && names.get_mut().is_none());
        names.listed.push("a");
        assert_eq!(names, Names { listed: vec!["a"] }.into());
        names.listed.pop();
        assert_eq!(names, Seldom::new());
        assert!(names.get_mut().is_some());
    }
}
