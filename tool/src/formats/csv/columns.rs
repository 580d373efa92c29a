//! The meaning of a file's columns.

use std::fmt;

use csv::StringRecord;

/// The meaning of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Any text, a different one in each row.
    Id,
    /// First step at which the block is live.
    Lower,
    /// First step at which the block is dead.
    Upper,
    /// Last step at which the block is live; in place of `Upper`.
    End,
    /// Bytes.
    Size,
    /// The offset is a multiple of this power of two.
    Alignment,
    /// A preferred offset; not used.
    Hint,
    /// When the block, or a part of it, is not needed; must be empty.
    Gaps,
    /// The offset of the block.
    Offset,
}

impl Column {
    const ALL: [Self; 9] = [
        Self::Id,
        Self::Lower,
        Self::Upper,
        Self::End,
        Self::Size,
        Self::Alignment,
        Self::Hint,
        Self::Gaps,
        Self::Offset,
    ];

    /// Returns its names in headers, the usual one first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Id => &["id", "buffer", "buffer_id"],
            Self::Lower => &["lower", "begin", "start"],
            Self::Upper => &["upper"],
            Self::End => &["end"],
            Self::Size => &["size"],
            Self::Alignment => &["alignment"],
            Self::Hint => &["hint"],
            Self::Gaps => &["gaps"],
            Self::Offset => &["offset"],
        }
    }

    /// Returns its usual name.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.names().contains(&name))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The positions of the columns of a file.
#[derive(Clone, Debug)]
pub struct CsvColumns([Option<usize>; Column::ALL.len()]);

impl CsvColumns {
    /// Reads the header.
    ///
    /// # Errors
    /// The first defect.
    pub fn find(header: &StringRecord) -> Result<Self, String> {
        let mut columns = Self([None; Column::ALL.len()]);
        for (place, name) in header.iter().enumerate() {
            let name = name.trim();
            let column = Column::of(name).ok_or_else(|| unknown(name))?;
            if let Some(first) = columns.0[column as usize].replace(place) {
                return Err(format!("the columns {:?} and {name:?} have the same meaning", header[first].trim()));
            }
        }
        if columns.get(Column::Upper).is_some() && columns.get(Column::End).is_some() {
            return Err("the columns \"upper\" and \"end\" have the same meaning".to_owned());
        }
        for column in [Column::Id, Column::Lower, Column::Size] {
            columns.get(column).ok_or_else(|| missing(column.names()))?;
        }
        columns.get(Column::Upper).or(columns.get(Column::End)).ok_or_else(|| missing(&["upper", "end"]))?;
        Ok(columns)
    }

    /// Returns its position, counted from 0.
    pub fn get(&self, column: Column) -> Option<usize> {
        self.0[column as usize]
    }

    /// Returns the field of a row in a column; empty if there is no such column.
    pub fn text<'r>(&self, row: &'r StringRecord, column: Column) -> &'r str {
        self.get(column).map_or("", |place| &row[place])
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = Column::ALL.iter().flat_map(|column| column.names()).copied().collect();
    format!("unknown column {name:?}; the columns are {}", names.join(", "))
}

fn missing(names: &[&str]) -> String {
    format!("the header has no column {}; the first line names the columns", names.join(" or "))
}
