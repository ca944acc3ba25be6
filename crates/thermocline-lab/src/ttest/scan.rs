//! The pieces of the R script, found in its text: the vector, the array, the loops around each `t.test`.
//! Leaves their meaning to `script`.

use anyhow::{bail, ensure, Context, Result};

/// Loops around one test.
const LOOPS_MAX: usize = 8;

/// `v <- c(..)`.
pub(super) struct Vector<'a> {
    pub name: String,
    pub values: Vec<f64>,
    /// The comments, each with the number of figures before it.
    pub labels: Vec<(usize, String)>,
    /// The text after the closing parenthesis.
    pub rest: &'a str,
    /// Whether the text has line breaks, at which comments end.
    pub broken: bool,
}

/// `for (variable in from:to)`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loop {
    pub variable: String,
    pub from: usize,
    pub to: usize,
}

/// One `t.test` and what stands around it.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    pub arguments: (String, String),
    /// Outermost first.
    pub loops: Vec<Loop>,
    /// The first `sprintf` after it: format up to its colon, and the variables.
    pub format: Option<(String, Vec<String>)>,
}

impl Statement {
    /// The format with its variables filled in, or each loop variable with its value.
    pub fn name(&self, bound: &impl Fn(&str) -> Option<usize>) -> String {
        let value = |name: &str| bound(name).map_or("?".to_string(), |v| v.to_string());
        match &self.format {
            Some((format, variables)) => {
                let mut variables = variables.iter();
                let mut parts = format.split("%d");
                let mut name = parts.next().unwrap_or_default().to_string();
                for part in parts {
                    name += &variables.next().map_or("?".to_string(), |v| value(v));
                    name += part;
                }
                name
            }
            None => {
                let each = |l: &Loop| format!("{}{}", l.variable, value(&l.variable));
                let names: Vec<String> = self.loops.iter().map(each).collect();
                names.join(" ")
            }
        }
    }
}

/// The first assignment of a vector: `NAME <- c(` with figures and comments inside.
pub(super) fn vector(text: &str) -> Result<Vector<'_>> {
    let at = text
        .find("<- c(")
        .context("no vector: `NAME <- c(figures)` is not in the file")?;
    let name = last_word(&text[..at]);
    ensure!(!name.is_empty(), "the vector `<- c(` has no name before it");
    let inside = &text[at + "<- c(".len()..];
    let end = inside
        .find(')')
        .with_context(|| format!("the vector `{name}` is not closed with `)`"))?;
    let (body, rest) = (&inside[..end], &inside[end + 1..]);
    // Without line breaks a comment has no end of its own: it ends before the next figure.
    let broken = body.contains('\n');
    let mut vector = Vector {
        name,
        values: Vec::new(),
        labels: Vec::new(),
        rest,
        broken,
    };
    for line in body.lines() {
        let mut comment = false;
        for word in line.split([' ', '\t', ',', '\r']).filter(|w| !w.is_empty()) {
            let figure = word.parse::<f64>().ok().filter(|v| v.is_finite());
            match (figure, word.strip_prefix('#')) {
                (_, Some(first)) => {
                    comment = true;
                    vector.labels.push((vector.values.len(), first.to_string()));
                }
                (Some(value), None) if !(comment && broken) => {
                    comment = false;
                    vector.values.push(value);
                }
                _ if comment => {
                    if let Some((_, label)) = vector.labels.last_mut() {
                        *label += " ";
                        *label += word;
                    }
                }
                _ => bail!("`{word}` in the vector `{}` is not a figure", vector.name),
            }
        }
    }
    Ok(vector)
}

/// `a <- array(v, dim = c(..))` after the vector: the array's name and its dimensions.
pub(super) fn array(vector: &Vector<'_>) -> Result<(String, Vec<usize>)> {
    let call = format!("<- array({}, dim = c(", vector.name);
    let at = vector.rest.find(&call).with_context(|| {
        format!("no `NAME {call}..))` after the vector: the figures have no layout")
    })?;
    let inside = &vector.rest[at + call.len()..];
    let end = inside.find(')').context("dim = c( is not closed")?;
    let dims = inside[..end]
        .split(',')
        .map(|d| d.trim().parse::<usize>().ok().filter(|d| *d > 0))
        .collect::<Option<Vec<usize>>>()
        .with_context(|| format!("dim = c({}): write whole numbers", &inside[..end]))?;
    ensure!(
        dims.len() >= 2,
        "the array needs runs and one dimension more"
    );
    Ok((last_word(&vector.rest[..at]), dims))
}

/// Every `t.test(..)` with the loops whose braces are open around it. In a text without line breaks (`broken` is
/// false) comments have no end, so their words are read as code that says nothing.
pub(super) fn statements(text: &str, broken: bool) -> Result<Vec<Statement>> {
    let mut statements: Vec<Statement> = Vec::new();
    // What each open brace closes: a loop, or something else (`if`).
    let mut open: Vec<Option<Loop>> = Vec::new();
    let mut pending = None;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("for (") {
            let (head, after) = after.split_once(')').context("`for (` is not closed")?;
            pending = Some(loop_head(head)?);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("t.test(") {
            let loops: Vec<Loop> = open.iter().flatten().cloned().collect();
            ensure!(loops.len() <= LOOPS_MAX, "more than {LOOPS_MAX} loops");
            let (arguments, after) = arguments(after)?;
            statements.push(Statement {
                arguments,
                loops,
                format: None,
            });
            rest = after;
        } else if first == '#' && broken {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(after) = rest.strip_prefix("sprintf(\"") {
            let (format, after) = after.split_once('"').context("a string is not closed")?;
            let (variables, after) = after.split_once(')').context("sprintf( is not closed")?;
            if let Some(Statement {
                format: slot @ None,
                ..
            }) = statements.last_mut()
            {
                let name = format.split(':').next().unwrap_or_default().to_string();
                let variables = variables.split(',').map(|v| v.trim().to_string());
                *slot = Some((name, variables.filter(|v| !v.is_empty()).collect()));
            }
            rest = after;
        } else {
            match first {
                '{' => open.push(pending.take()),
                '}' => drop(open.pop()),
                _ => {}
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(statements)
}

/// `swap in 1:2`.
fn loop_head(head: &str) -> Result<Loop> {
    let parsed = head.split_once(" in ").and_then(|(variable, range)| {
        let (from, to) = range.split_once(':')?;
        let (from, to) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        Some(Loop {
            variable: variable.trim().to_string(),
            from,
            to,
        })
    });
    let parsed = parsed.with_context(|| format!("`for ({head})`: write `for (NAME in 1:N)`"))?;
    ensure!(parsed.from <= parsed.to, "`for ({head})` counts down");
    Ok(parsed)
}

/// The two arguments up to the call's closing parenthesis; commas inside brackets belong to them.
fn arguments(text: &str) -> Result<((String, String), &str)> {
    let mut depth = 0usize;
    let mut comma = None;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && comma.is_none() => comma = Some(at),
            ')' if depth == 0 => {
                let comma = comma.context("t.test( needs two samples")?;
                let part = |s: &str| s.trim().to_string();
                return Ok((
                    (part(&text[..comma]), part(&text[comma + 1..at])),
                    &text[at + 1..],
                ));
            }
            _ => {}
        }
    }
    bail!("t.test( is not closed")
}

fn last_word(text: &str) -> String {
    text.split_whitespace()
        .last()
        .unwrap_or_default()
        .to_string()
}
