//! The known word nearest to a mistyped one.

/// The candidate that needs the fewest edits, if it needs few enough to be a likely typing error.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.len() / 3).max(2);
    known
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, _)| *edits <= allowed)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, one row kept.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let known = ["memory", "memory_max", "threads"];
        assert_eq!(nearest("memmory", known), Some("memory"));
        assert_eq!(nearest("thread", known), Some("threads"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
    }
}
