//! Tables of names and numbers, as text and as HTML.

use std::fmt::Write;

use lastuse::placement::Bytes;
use lastuse::report::table::aligned;

use crate::report::sizes::fixed;
use crate::report::table::printable;
use crate::report::xml::escaped;

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The text, in which control characters are replaced.
    text: String,
    /// On a page: what is shown instead, and the text to be seen when the pointer is on the cell.
    on_page: Option<[String; 2]>,
}

impl Cell {
    /// Creates a cell with a name or a number.
    pub fn new(text: &str) -> Self {
        Self { text: printable(text), on_page: None }
    }

    /// Creates a cell with a name or a number, or a dash.
    pub fn maybe(value: Option<impl ToString>) -> Self {
        value.map_or_else(|| Self::new("-"), |value| Self::new(&value.to_string()))
    }

    /// Creates a cell with bytes, which a page shows in their largest unit.
    pub fn bytes(bytes: Bytes) -> Self {
        Self { text: bytes.to_string(), on_page: Some([fixed(bytes), format!("{bytes} bytes")]) }
    }

    /// Adds the text to be seen when the pointer is on the cell.
    pub fn with_title(self, title: &str) -> Self {
        Self { on_page: Some([self.text.clone(), title.to_owned()]), ..self }
    }

    fn html(&self) -> String {
        match &self.on_page {
            Some([shown, title]) => format!(" title=\"{}\">{}</td>", escaped(title), escaped(shown)),
            None => format!(">{}</td>", escaped(&self.text)),
        }
    }
}

/// A table. The first columns are names, which are aligned to the left, the others are numbers.
#[derive(Clone, Debug)]
pub struct Grid {
    names: usize,
    rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// Creates a table whose columns have these titles.
    pub fn new(names: &[&str], numbers: &[&str]) -> Self {
        let titles = names.iter().chain(numbers).map(|title| Cell::new(title)).collect();
        Self { names: names.len(), rows: vec![titles] }
    }

    /// Adds a row with a cell for each column.
    pub fn add(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Formats the table as text.
    pub fn text(&self) -> String {
        let texts = |row: &Vec<Cell>| row.iter().map(|cell| cell.text.clone()).collect::<Vec<_>>();
        aligned(&self.rows.iter().map(texts).collect::<Vec<_>>(), &[], |column| column < self.names)
    }

    /// Formats the table as HTML. `last` returns a further cell of each row.
    pub fn html(&self, last: impl Fn(usize) -> Option<String>) -> String {
        let mut html = "<table>\n".to_owned();
        for (number, row) in self.rows.iter().enumerate() {
            html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let class = if column < self.names { "" } else { " class=\"n\"" };
                let _ = write!(html, "<td{class}{}", cell.html());
            }
            if let Some(cell) = number.checked_sub(1).and_then(&last) {
                let _ = write!(html, "<td>{cell}</td>");
            }
            html.push_str("</tr>\n");
        }
        html + "</table>\n"
    }
}
