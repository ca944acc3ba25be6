//! One picture as a file of its own, for a page of documentation: title, names and drawing in one `<svg>` that carries its
//! colours, light and dark, and fetches nothing.

use super::document::{Block, Document, Figure};
use super::html::escape;
use super::plot;
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");
/// Text and distances in units of the drawings, which are shown at half their size.
const TEXT: usize = 30;
const LINE: usize = 46;
const MARGIN: usize = 24;
/// Width that a letter takes on an average.
const LETTER: usize = 17;

/// File names and texts of all pictures of a report.
pub fn files(document: &Document) -> Vec<(String, String)> {
    let mut names = BTreeSet::new();
    let mut files = Vec::new();
    for block in &document.blocks {
        let Block::Figure(figure) = block else {
            continue;
        };
        let stem = file_stem(&figure.title);
        let mut name = format!("{stem}.svg");
        for again in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{stem}-{again}.svg");
        }
        files.extend(render(figure).map(|text| (name, text)));
    }
    files
}

/// `Ns 1k dependent over memory` as `ns-1k-dependent-over-memory`.
fn file_stem(title: &str) -> String {
    let words: Vec<String> = title
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}

/// `None` where the drawing does not say how large it is.
fn render(figure: &Figure) -> Option<String> {
    let width: usize = attribute(&figure.svg, "width")?.parse().ok()?;
    let height: usize = attribute(&figure.svg, "height")?.parse().ok()?;
    let legend = legend(figure, width);
    let top = MARGIN + LINE + legend.lines * LINE;
    let whole = top + height + MARGIN;
    let title = escape(&figure.title);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\" width=\"{}\" height=\"{}\" \
         viewBox=\"0 0 {width} {whole}\">\n",
        width / 2,
        whole / 2
    );
    let _ = writeln!(out, "<style>\n{}{}</style>", colours(), plot::stylesheet());
    let _ = writeln!(
        out,
        "<rect width=\"100%\" height=\"100%\" style=\"fill:var(--card)\"/>"
    );
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{}\" font-family=\"sans-serif\" font-size=\"{}\" font-weight=\"600\" \
         style=\"fill:var(--ink)\">{title}</text>",
        MARGIN + TEXT,
        TEXT + 4
    );
    out += &legend.text;
    let placed = format!("<svg y=\"{top}\" ");
    out += &figure.svg.replacen("<svg ", &placed, 1);
    out += "</svg>\n";
    Some(out)
}

struct Legend {
    text: String,
    lines: usize,
}

/// The series' names beside a dot of their colour, as many on a line as fit.
fn legend(figure: &Figure, width: usize) -> Legend {
    let mut legend = Legend {
        text: String::new(),
        lines: 0,
    };
    if figure.legend.len() < 2 {
        return legend;
    }
    let (mut x, mut line) = (MARGIN, 1);
    for (at, name) in figure.legend.iter().enumerate() {
        let wide = TEXT + name.chars().count() * LETTER + MARGIN;
        if x > MARGIN && x + wide > width {
            (x, line) = (MARGIN, line + 1);
        }
        let y = MARGIN + line * LINE + TEXT;
        let _ = writeln!(
            legend.text,
            "<circle cx=\"{}\" cy=\"{}\" r=\"11\" style=\"fill:var(--s{})\"/><text x=\"{}\" y=\"{y}\" \
             font-family=\"sans-serif\" font-size=\"{TEXT}\" style=\"fill:var(--ink)\">{}</text>",
            x + 11,
            y - 10,
            at % plot::SERIES,
            x + TEXT + 4,
            escape(name)
        );
        x += wide;
    }
    legend.lines = line;
    legend
}

/// The page's variables, which its style sheet begins with: for light screens and dark ones.
fn colours() -> &'static str {
    let end = STYLE.find("*{").unwrap_or(0);
    &STYLE[..end]
}

fn attribute<'a>(svg: &'a str, name: &str) -> Option<&'a str> {
    let tag = svg.split_once('>')?.0;
    let value = tag.split_once(&format!(" {name}=\""))?.1;
    Some(value.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::Scale;
    use crate::report::plot::{arms, ArmRow};

    fn figure(legend: Vec<String>) -> Figure {
        let row = ArmRow {
            group: String::new(),
            name: "one".into(),
            series: 0,
            values: vec![5.0, 6.0],
            interval: Some((5.5, 5.0, 6.0)),
        };
        Figure {
            title: "Ops & <more> at 1".into(),
            svg: arms(&[row], "ops", Scale::of("ops", 5.0)).unwrap(),
            caption: String::new(),
            legend,
        }
    }

    fn document(figures: Vec<Figure>) -> Document {
        Document {
            title: String::new(),
            facts: Vec::new(),
            blocks: figures.into_iter().map(Block::Figure).collect(),
        }
    }

    #[test]
    fn a_picture_stands_alone_and_names_are_told_apart() {
        let names: Vec<String> = (0..30).map(|n| format!("policy number {n}")).collect();
        let files = files(&document(vec![figure(names.clone()), figure(Vec::new())]));
        let of: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(of, ["ops-more-at-1.svg", "ops-more-at-1-2.svg"]);
        let text = &files[0].1;
        assert!(text.contains("Ops &amp; &lt;more&gt;"), "{text}");
        for wanted in [
            "--s0:",
            "var(--s7)",
            "prefers-color-scheme:dark",
            "policy number 29",
        ] {
            assert!(text.contains(wanted), "no {wanted}");
        }
        // Nothing is fetched: the only address is the name of the language.
        assert_eq!(
            text.matches("http").count(),
            text.matches("http://www.w3.org/2000/svg").count()
        );
        let height = |text: &str| attribute(text, "height").unwrap().parse::<usize>().unwrap();
        assert!(height(text) > height(&files[1].1), "the names have room");
        assert_eq!(text.matches("<svg").count(), text.matches("</svg>").count());
    }
}
