//! The document as plain text: tables with aligned columns, no pictures, and nothing of what a page folds away.

use super::document::{Block, Document, Sheet, Tone};
use std::fmt::Write;

pub fn render(document: &Document) -> String {
    let mut out = format!("{}\n", document.title);
    for fact in &document.facts {
        let _ = writeln!(out, "  {fact}");
    }
    let visible = |block: &Block| match block {
        Block::Table(sheet) => sheet.folded.is_none(),
        block => !matches!(block, Block::Figure(_)),
    };
    let mut blocks = document
        .blocks
        .iter()
        .filter(|block| visible(block))
        .peekable();
    while let Some(block) = blocks.next() {
        // A heading over nothing but pictures says nothing here.
        if matches!(block, Block::Heading(_))
            && blocks
                .peek()
                .is_none_or(|next| matches!(next, Block::Heading(_)))
        {
            continue;
        }
        match block {
            Block::Heading(text) => drop(writeln!(
                out,
                "\n{text}\n{}",
                "-".repeat(text.chars().count())
            )),
            Block::Paragraph(text) => wrap(text, "", &mut out),
            Block::Warning(text) => wrap(text, "! ", &mut out),
            Block::Note(text) => wrap(text, "- ", &mut out),
            Block::Table(sheet) => table(sheet, &mut out),
            Block::Figure(_) => {}
        }
    }
    out
}

/// Lines of at most 110 characters, the later ones under the first one's text.
fn wrap(text: &str, lead: &str, out: &mut String) {
    const WIDTH: usize = 110;
    let indent = " ".repeat(lead.chars().count());
    let mut line = lead.to_string();
    for word in text.split_whitespace() {
        if line.chars().count() + word.chars().count() >= WIDTH && line.trim() != lead.trim() {
            let _ = writeln!(out, "{}", line.trim_end());
            line = indent.clone();
        }
        line += word;
        line += " ";
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

fn table(sheet: &Sheet, out: &mut String) {
    let width = |column: usize| {
        let cells = sheet
            .rows
            .iter()
            .map(|row| row[column].text.chars().count());
        cells
            .max()
            .unwrap_or(0)
            .max(sheet.head[column].chars().count())
    };
    let widths: Vec<usize> = (0..sheet.head.len()).map(width).collect();
    let mut line = String::new();
    for (head, width) in sheet.head.iter().zip(&widths) {
        let _ = write!(line, "{head:<width$}  ");
    }
    let _ = writeln!(out, "\n{}", line.trim_end());
    for row in &sheet.rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = match cell.tone {
                Tone::Number => write!(line, "{:>width$}  ", cell.text),
                _ => write!(line, "{:<width$}  ", cell.text),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}
