//! Tables of text, a row for each of a list.

use lastuse::report::table::aligned;

/// Returns a text with its control characters replaced: any program may have given a name.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// The columns of a table, each row of which is an `R`.
pub struct Table<'a, R>(Vec<Column<'a, R>>);

struct Column<'a, R> {
    title: &'a str,
    /// The least number of letters.
    width: usize,
    is_left: bool,
    cell: Box<dyn Fn(&R) -> String + 'a>,
}

impl<'a, R> Table<'a, R> {
    /// Returns a table without columns.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a column of texts.
    pub fn texts(mut self, title: &'a str, width: usize, cell: impl Fn(&R) -> String + 'a) -> Self {
        self.0.push(Column { title, width, is_left: true, cell: Box::new(cell) });
        self
    }

    /// Adds a column of numbers, which end below one another.
    pub fn numbers(mut self, title: &'a str, width: usize, cell: impl Fn(&R) -> String + 'a) -> Self {
        self.0.push(Column { title, width, is_left: false, cell: Box::new(cell) });
        self
    }

    /// Formats a line of titles and one for each row.
    pub fn text(&self, rows: &[R]) -> String {
        let titles = self.0.iter().map(|column| column.title.to_owned()).collect();
        let cells = |row| self.0.iter().map(|column| (column.cell)(row)).collect();
        let lines: Vec<Vec<String>> = std::iter::once(titles).chain(rows.iter().map(cells)).collect();
        let widths: Vec<usize> = self.0.iter().map(|column| column.width).collect();
        aligned(&lines, &widths, |column| self.0[column].is_left)
    }
}
