//! Tables of text.

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
