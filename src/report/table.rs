//! Tables of text.

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

/// Makes all cells of a column as wide as the widest, and at least as wide as `widths` says, with two spaces in between.
/// All lines have the same number of cells.
pub fn aligned(lines: &[Vec<String>], widths: &[usize], is_left: impl Fn(usize) -> bool) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let widest = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let width = |column: usize| widest(column).max(widths.get(column).copied().unwrap_or(0));
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let cell = |(column, (cell, &width)): (usize, (&String, &usize))| {
        if is_left(column) { format!("{cell:width$}") } else { format!("{cell:>width$}") }
    };
    let padded = |line: &Vec<String>| line.iter().zip(&widths).enumerate().map(cell).collect::<Vec<_>>().join("  ");
    lines.iter().map(|line| padded(line).trim_end().to_owned() + "\n").collect()
}
