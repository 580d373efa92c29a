//! Tables in Markdown that can be read as they are.

use std::fmt::Write;

/// A table whose first row is the heading. The first `names` columns are text; the others are numbers.
pub fn aligned_table(rows: &[Vec<String>], names: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        text.push('|');
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column < names { write!(text, " {cell:<width$} |") } else { write!(text, " {cell:>width$} |") };
        }
        text.push('\n');
        if number == 0 {
            text.push('|');
            for (column, width) in widths.iter().enumerate() {
                let (dashes, end) = if column < names { (width + 2, "|") } else { (width + 1, ":|") };
                let _ = write!(text, "{}{end}", "-".repeat(dashes));
            }
            text.push('\n');
        }
    }
    text
}
