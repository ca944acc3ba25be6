//! A report as a list of blocks, without any form: `terminal`, `markdown` and `html` give it one.

/// A piece of a report, in reading order.
pub enum Block {
    Heading(String),
    Paragraph(String),
    /// What the reader must not miss.
    Warning(String),
    Note(String),
    Table(Sheet),
    Figure(Figure),
}

/// A table of the report.
#[derive(Default)]
pub struct Sheet {
    pub head: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
    /// Long tables that a page may fold away; the text names them.
    pub folded: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
}

/// How a cell is meant; a page may colour it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Number,
    Good,
    Bad,
    Even,
    Doubt,
}

/// A picture; its text forms are the tables around it.
pub struct Figure {
    pub title: String,
    /// A whole `<svg>` element.
    pub svg: String,
    /// How to read it.
    pub caption: String,
    /// Names of the series, in the order of the palette.
    pub legend: Vec<String>,
}

pub struct Document {
    pub title: String,
    /// Under the title, small: when, where, with what.
    pub facts: Vec<String>,
    pub blocks: Vec<Block>,
}

pub fn text(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        tone: Tone::Plain,
    }
}

pub fn number(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        tone: Tone::Number,
    }
}

impl Sheet {
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Sheet {
        Sheet {
            head: head.into_iter().map(Into::into).collect(),
            ..Sheet::default()
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.head.len(), "a cell for each column");
        self.rows.push(cells);
    }
}
