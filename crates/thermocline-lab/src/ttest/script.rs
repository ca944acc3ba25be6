//! Reads what the document of seed 000 says in R: a vector of figures with a comment over each group, the array
//! laid over it, and loops around `t.test`. That subset is understood and nothing more; it may stand alone in a
//! file or amid the document's prose, also when all line breaks were lost on the way.
//!
//! What must hold: any text gives tests or an error that names the place; nothing is guessed.

use super::scan::{self, Statement};
use anyhow::{bail, ensure, Context, Result};

/// Figures in one vector: a million runs is no hand-written file.
const VALUES_MAX: usize = 1_000_000;
/// Tests all loops together may ask for.
const TESTS_MAX: usize = 10_000;

/// One `t.test`, its loops resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// Which statement of the script it came from, from 0: a table each.
    pub statement: usize,
    /// As the script's own `sprintf` would call it, or by its loop variables: `swap1 dist2`.
    pub name: String,
    /// The two arguments as they are written.
    pub written: (String, String),
    pub x: Side,
    pub y: Side,
}

/// One side of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    pub values: Vec<f64>,
    /// The words of the comments over these figures, last dimension first: `baseline swapoff exp`.
    pub words: Vec<String>,
}

/// The script's data and tests, in the order R would run them.
pub fn read(text: &str) -> Result<Vec<Test>> {
    let data = scan::vector(text)?;
    let (array_name, dims) = scan::array(&data)?;
    let count = dims.iter().try_fold(1usize, |all, d| all.checked_mul(*d));
    ensure!(
        count == Some(data.values.len()) && data.values.len() <= VALUES_MAX,
        "`{}` holds {} figures, but its array has dim {dims:?}",
        data.name,
        data.values.len()
    );
    let array = Array {
        name: array_name,
        groups: groups(&data, dims[0]),
        dims,
        values: data.values,
    };
    let mut tests = Vec::new();
    for (number, statement) in scan::statements(data.rest, data.broken)?.iter().enumerate() {
        array.run(number, statement, &mut tests)?;
    }
    ensure!(!tests.is_empty(), "no t.test(..) after the array");
    Ok(tests)
}

/// The comment's words over each group, where every group is one run of the first dimension; else none.
fn groups(data: &scan::Vector, runs: usize) -> Vec<Vec<String>> {
    let even = data
        .labels
        .iter()
        .enumerate()
        .all(|(i, (at, _))| *at == i * runs);
    if !even || data.labels.len() * runs != data.values.len() {
        return Vec::new();
    }
    data.labels
        .iter()
        .map(|(_, label)| label.split_whitespace().map(str::to_string).collect())
        .collect()
}

struct Array {
    name: String,
    dims: Vec<usize>,
    values: Vec<f64>,
    groups: Vec<Vec<String>>,
}

impl Array {
    /// Every turn of the statement's loops, the outermost slowest.
    fn run(&self, number: usize, statement: &Statement, tests: &mut Vec<Test>) -> Result<()> {
        let mut at: Vec<usize> = statement.loops.iter().map(|l| l.from).collect();
        loop {
            ensure!(tests.len() < TESTS_MAX, "more than {TESTS_MAX} tests");
            let bound = |name: &str| {
                let place = statement.loops.iter().rposition(|l| l.variable == name)?;
                Some(at[place])
            };
            let (x, y) = &statement.arguments;
            tests.push(Test {
                statement: number,
                name: statement.name(&bound),
                written: (x.clone(), y.clone()),
                x: self.slice(x, &bound)?,
                y: self.slice(y, &bound)?,
            });
            // Count up, the innermost loop fastest.
            let Some(turn) = (0..at.len()).rev().find(|&i| at[i] < statement.loops[i].to) else {
                return Ok(());
            };
            at[turn] += 1;
            for (i, l) in statement.loops.iter().enumerate().skip(turn + 1) {
                at[i] = l.from;
            }
        }
    }

    /// `a[, dist, swap, 1]`: the first dimension whole, every other at one place.
    fn slice(&self, written: &str, bound: &impl Fn(&str) -> Option<usize>) -> Result<Side> {
        let inside = written
            .strip_prefix(self.name.as_str())
            .and_then(|rest| rest.trim().strip_prefix('[')?.strip_suffix(']'))
            .with_context(|| format!("`{written}` is not a part of `{}`", self.name))?;
        let indices: Vec<&str> = inside.split(',').map(str::trim).collect();
        if indices.len() != self.dims.len() || !indices[0].is_empty() {
            bail!(
                "`{written}`: write an empty index for the runs and one for each of the other {} dimensions",
                self.dims.len() - 1
            );
        }
        let (mut offset, mut stride) = (0, self.dims[0]);
        for (index, dim) in indices.iter().zip(&self.dims).skip(1) {
            let place = match index.parse() {
                Ok(number) => number,
                Err(_) => bound(index)
                    .with_context(|| format!("`{written}`: `{index}` is no loop's variable"))?,
            };
            ensure!(
                (1..=*dim).contains(&place),
                "`{written}`: index {place} is outside 1..{dim}"
            );
            offset += (place - 1) * stride;
            stride *= dim;
        }
        Ok(Side {
            values: self.values[offset..offset + self.dims[0]].to_vec(),
            words: self
                .groups
                .get(offset / self.dims[0])
                .cloned()
                .unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str =
        "v <- c(\n# low off\n1, 2,\n# low on\n3, 4,\n# high off\n5, 6,\n# high on\n7, 8\n)\n\
        a <- array(v, dim = c(2, 2, 2))\nfor (s in 1:2) { r <- t.test(a[, s, 1], a[, s, 2]) }";

    #[test]
    fn loops_choose_the_slices_that_r_would() {
        for text in [SMALL.to_string(), SMALL.replace('\n', " ")] {
            let tests = read(&text).unwrap();
            assert_eq!(tests.len(), 2, "{text}");
            assert_eq!(tests[0].x.values, [1.0, 2.0]);
            assert_eq!(tests[0].y.values, [5.0, 6.0]);
            assert_eq!(tests[1].x.words, ["low", "on"]);
            assert_eq!(tests[1].y.words, ["high", "on"]);
            assert_eq!(tests[1].name, "s2");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |from: &str, to: &str| {
            let text = SMALL.replacen(from, to, 1);
            assert_ne!(text, SMALL);
            format!("{:#}", read(&text).unwrap_err())
        };
        assert!(error("3, 4", "3, x4").contains("`x4`"));
        assert!(error("c(2, 2, 2)", "c(2, 2, 3)").contains("8 figures"));
        assert!(error("a[, s, 1]", "a[, q, 1]").contains("`q`"));
        assert!(error("a[, s, 1]", "a[, s, 3]").contains("outside 1..2"));
        assert!(error("a[, s, 1]", "b[, s, 1]").contains("`b[, s, 1]`"));
        assert!(error("a[, s, 1]", "a[s, 1]").contains("empty index"));
        assert!(error("t.test", "u.test").contains("no t.test"));
        assert!(read("nothing here").is_err());
    }

    #[test]
    fn damaged_scripts_never_panic() {
        let mut random = crate::workload::Random::new(5);
        for _ in 0..5000 {
            let mut bytes = SMALL.as_bytes().to_vec();
            for _ in 0..=random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = b"(){}[],:#\"%9 "[random.below(13) as usize],
                    1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(bytes.len().max(2) - 1),
                }
            }
            let _ = read(&String::from_utf8_lossy(&bytes));
        }
    }
}
