//! The known name nearest to one nobody knows, for errors that suggest what was meant.

/// Letters two names may differ by, of any length; short names may differ by a third of theirs.
const EDITS_MAX: usize = 4;

/// The candidate that takes the fewest edits (a letter put in, left out, changed, or two swapped), letters' case
/// apart; `None` if nothing is near. Costs length x length a candidate.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (edits(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|&(edits, candidate)| {
            edits <= EDITS_MAX.min(1 + name.len().max(candidate.len()) / 3)
        })
        .min_by_key(|&(edits, _)| edits)
        .map(|(_, candidate)| candidate)
}

/// ` (did you mean X?)`, or nothing.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, candidates).map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"))
}

/// Edits between two names; names over 64 bytes are compared by their first 64.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (cut(a), cut(b));
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            next[j] = change.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                next[j] = next[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

fn cut(name: &str) -> &[u8] {
    &name.as_bytes()[..name.len().min(64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_are_understood() {
        let known = [
            "recordcount",
            "readproportion",
            "requestdistribution",
            "table",
        ];
        for (written, meant) in [
            ("recordcuont", "recordcount"),
            ("RecordCount", "recordcount"),
            ("readpropotion", "readproportion"),
            ("tabel", "table"),
        ] {
            assert_eq!(nearest(written, known), Some(meant), "{written}");
        }
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(did_you_mean("tabel", known), " (did you mean `table`?)");
        assert_eq!(did_you_mean("zzz", known), "");
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, count) in [
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(edits(a, b), count, "{a} {b}");
        }
    }
}
