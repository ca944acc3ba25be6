//! The document as Markdown, for a repository: pictures are in the page beside it.

use super::document::{Block, Document, Sheet, Tone};
use std::fmt::Write;

pub fn render(document: &Document) -> String {
    let mut out = format!("# {}\n\n", escape(&document.title));
    for fact in &document.facts {
        let _ = writeln!(out, "- {}", escape(fact));
    }
    let mut pictures_named = false;
    for block in &document.blocks {
        match block {
            Block::Heading(text) => drop(writeln!(out, "\n## {}\n", escape(text))),
            Block::Paragraph(text) => drop(writeln!(out, "{}\n", escape(text))),
            Block::Warning(text) => drop(writeln!(out, "- **{}**", escape(text))),
            Block::Note(text) => drop(writeln!(out, "- {}", escape(text))),
            Block::Table(sheet) => table(sheet, &mut out),
            Block::Figure(_) if pictures_named => {}
            Block::Figure(_) => {
                pictures_named = true;
                out += "They are in report.html beside this file.\n\n";
            }
        }
    }
    out
}

fn table(sheet: &Sheet, out: &mut String) {
    if let Some(name) = &sheet.folded {
        let _ = writeln!(out, "\n<details><summary>{}</summary>", escape(name));
    }
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let head: Vec<String> = sheet.head.iter().map(|head| escape(head)).collect();
    let _ = writeln!(out, "\n{}", line(&head));
    let numeric = |column: usize| {
        sheet
            .rows
            .first()
            .is_some_and(|r| r[column].tone == Tone::Number)
    };
    let rules =
        (0..head.len()).map(|column| if numeric(column) { "--:" } else { "---" }.to_string());
    let _ = writeln!(out, "{}", line(&rules.collect::<Vec<_>>()));
    for row in &sheet.rows {
        let cells: Vec<String> = row.iter().map(|cell| escape(&cell.text)).collect();
        let _ = writeln!(out, "{}", line(&cells));
    }
    let _ = writeln!(
        out,
        "{}",
        if sheet.folded.is_some() {
            "\n</details>\n"
        } else {
            ""
        }
    );
}

/// Whatever a name may hold stays text: no cell ends early, no tag is opened.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('<', "&lt;")
        .replace(['\n', '\r'], " ")
}
