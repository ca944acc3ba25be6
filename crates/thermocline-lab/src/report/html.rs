//! The document as one page that needs nothing else: style and pictures inside, no script, nothing fetched.

use super::document::{Block, Cell, Document, Figure, Sheet, Tone};
use super::plot;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

pub fn render(document: &Document) -> String {
    let mut out =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    out += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    let _ = writeln!(out, "<title>{}</title>", escape(&document.title));
    let _ = writeln!(
        out,
        "<style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>",
        plot::stylesheet()
    );
    let _ = writeln!(out, "<header><h1>{}</h1>", escape(&document.title));
    for fact in &document.facts {
        let _ = writeln!(out, "<p class=\"fact\">{}</p>", inline(fact));
    }
    out += "</header>\n";
    for block in &document.blocks {
        render_block(block, &mut out);
    }
    out += "</main>\n</body>\n</html>\n";
    out
}

fn render_block(block: &Block, out: &mut String) {
    let _ = match block {
        Block::Heading(text) => writeln!(out, "<h2>{}</h2>", escape(text)),
        Block::Paragraph(text) => writeln!(out, "<p>{}</p>", inline(text)),
        Block::Warning(text) => writeln!(out, "<p class=\"warning\">{}</p>", inline(text)),
        Block::Note(text) => writeln!(out, "<p class=\"note\">{}</p>", inline(text)),
        Block::Table(sheet) => {
            table(sheet, out);
            Ok(())
        }
        Block::Figure(picture) => {
            figure(picture, out);
            Ok(())
        }
    };
}

fn table(sheet: &Sheet, out: &mut String) {
    if let Some(name) = &sheet.folded {
        let _ = writeln!(out, "<details><summary>{}</summary>", escape(name));
    }
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    for (column, head) in sheet.head.iter().enumerate() {
        let tone = sheet
            .rows
            .first()
            .map_or(Tone::Plain, |row| row[column].tone);
        let _ = write!(out, "<th{}>{}</th>", class(tone, true), escape(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &sheet.rows {
        out.push_str("<tr>");
        for Cell { text, tone } in row {
            let body = match tone {
                Tone::Plain | Tone::Number => inline(text),
                _ => format!("<span>{}</span>", inline(text)),
            };
            let _ = write!(out, "<td{}>{body}</td>", class(*tone, false));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if sheet.folded.is_some() {
        out.push_str("</details>\n");
    }
}

fn class(tone: Tone, head: bool) -> &'static str {
    match (tone, head) {
        (Tone::Number, _) => " class=\"number\"",
        (_, true) | (Tone::Plain, _) => "",
        (Tone::Good, _) => " class=\"verdict good\"",
        (Tone::Bad, _) => " class=\"verdict bad\"",
        (Tone::Even, _) => " class=\"verdict even\"",
        (Tone::Doubt, _) => " class=\"verdict doubt\"",
    }
}

fn figure(figure: &Figure, out: &mut String) {
    let title = escape(&figure.title);
    let _ = writeln!(out, "<figure>\n<h3>{title}</h3>");
    if figure.legend.len() > 1 {
        out.push_str("<ul class=\"legend\">");
        for (at, name) in figure.legend.iter().enumerate() {
            let _ = write!(
                out,
                "<li><i class=\"{}\"></i>{}</li>",
                plot::swatch(at),
                escape(name)
            );
        }
        out.push_str("</ul>\n");
    }
    // The library draws; the role and the name for readers that do not see are added here.
    let named = format!("<svg role=\"img\" aria-label=\"{title}\" ");
    let _ = writeln!(out, "{}", figure.svg.replacen("<svg ", &named, 1));
    let _ = writeln!(
        out,
        "<figcaption>{}</figcaption>\n</figure>",
        inline(&figure.caption)
    );
}

/// Text with `code` in back quotes.
fn inline(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = escape(parts.next().unwrap_or_default());
    let mut code = true;
    for part in parts {
        let part = escape(part);
        out += &if code {
            format!("<code>{part}</code>")
        } else {
            part
        };
        code = !code;
    }
    out
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::text;

    #[test]
    fn names_stay_text_and_nothing_is_fetched() {
        let mut sheet = Sheet::new(["arm"]);
        sheet.row([text("<script>alert(1)</script> & `code`")]);
        let page = render(&Document {
            title: "a < b".into(),
            facts: vec![],
            blocks: vec![Block::Table(sheet)],
        });
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("a &lt; b") && page.contains("<code>code</code>"));
        for reference in ["src=", "href=", "url(", "@import", "http"] {
            assert!(!page.contains(reference), "the page refers to {reference}");
        }
    }
}
