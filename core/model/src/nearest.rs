//! The word that was probably meant: what a message about an unknown field or name offers first.

/// The known word that looks most like what was written, unless more than a third of it, and one letter, is different. Case
/// does not count.
#[must_use]
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let far = |word: &str| strsim::damerau_levenshtein(&written, &word.to_lowercase());
    let near = known.into_iter().map(|word| (far(word), word));
    near.filter(|(distance, word)| *distance <= 1 + word.len() / 3)
        .min()
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_likest_word_is_offered_and_none_that_is_another() {
        let known = ["pool", "kind", "instances", "max_running"];
        for (written, meant) in [
            ("pol", Some("pool")),
            ("Pool", Some("pool")),
            ("knid", Some("kind")),
            ("instance", Some("instances")),
            ("maxRunning", Some("max_running")),
            ("volumes", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), meant, "{written}");
        }
        assert_eq!(nearest("pool", []), None);
    }
}
