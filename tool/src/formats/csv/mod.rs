//! Placement problems in files: the CSV of MiniMalloc, a header and then one line a block.
//!
//! Columns, in any order: `id` (or `buffer`, `buffer_id`), any text, a different one in each row; `lower` (or `begin`,
//! `start`), the first step of the live range; `upper`, the first step after it, or `end`, its last step; `size`, in
//! bytes; and optionally `alignment`, a power of two. What cannot be planned is an error and never silently ignored: a
//! column `gaps` must be empty. Two columns are not used: `hint`, which does not restrict placements, and `offset`, the
//! result of an earlier plan, which the new one replaces.

mod columns;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io::{self, Read, Write};

use columns::{Column, CsvColumns};
use csv::StringRecord;
use lastuse::placement::{Block, BlockId, Bytes, Placement, Problem, Step, padded};

use crate::formats::input::{Malformed, malformed};

/// The most rows: half the number of steps, so that every live range can have two steps for itself.
const MOST_ROWS: usize = 1 << 31;

/// The most bytes of a file: enough for tens of millions of rows.
const MOST_BYTES: u64 = 1 << 31;

/// A problem from a file, and its rows, to be written back with offsets.
#[derive(Clone, Debug)]
pub struct Sheet {
    header: StringRecord,
    rows: Vec<StringRecord>,
    columns: CsvColumns,
    problem: Problem,
    /// By row: its block.
    blocks: Vec<BlockId>,
}

impl Sheet {
    /// Reads a problem.
    ///
    /// Steps that do not fit into 32 bits are renumbered without gaps: only their order decides which blocks overlap.
    /// Sizes are padded to the alignment.
    ///
    /// # Errors
    /// [`Malformed`] with the first defect and its line.
    pub fn read(input: impl Read) -> Result<Self, Malformed> {
        let mut bytes = Vec::new();
        let read = input.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| malformed(1, format!("cannot be read: {error}")))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(malformed(
                1,
                format!("the file is larger than {MOST_BYTES} bytes: no problem of that size can be solved"),
            ));
        }
        let text = Text::new(&bytes)?;
        let mut records = text.records();
        let header = records.next().transpose()?.ok_or_else(|| malformed(1, "the file is empty"))?;
        let columns = CsvColumns::find(&header).map_err(|reason| malformed(text.line_of(&header), reason))?;
        let rows: Vec<StringRecord> = records.collect::<Result<_, _>>()?;
        if rows.len() >= MOST_ROWS {
            return Err(malformed(text.line_of(&rows[MOST_ROWS - 1]), "too many rows"));
        }
        let parsed = parse_rows(&text, &columns, header.len(), &rows)?;
        let alignment = alignment(&text, &rows, &parsed)?;
        let (problem, blocks) = problem(&parsed, alignment);
        check_total(&text, &rows, &problem, &blocks)?;
        Ok(Self { header, rows, columns, problem, blocks })
    }

    /// Returns the blocks, by first step.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Returns, by block, its id in the file.
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![""; self.blocks.len()];
        for (row, &block) in self.rows.iter().zip(&self.blocks) {
            names[block as usize] = self.columns.text(row, Column::Id);
        }
        names
    }

    /// Writes all rows in their order, with the offset of each in the column `offset`.
    ///
    /// # Errors
    /// When `output` cannot be written to.
    pub fn write(&self, placement: &Placement, output: impl Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(output);
        self.write_row(&mut writer, &self.header, Column::Offset.name())?;
        for (row, &block) in self.rows.iter().zip(&self.blocks) {
            self.write_row(&mut writer, row, &placement.locations[block as usize].offset.to_string())?;
        }
        writer.flush()
    }

    fn write_row(&self, writer: &mut csv::Writer<impl Write>, row: &StringRecord, offset: &str) -> io::Result<()> {
        let place = self.columns.get(Column::Offset).unwrap_or(row.len());
        let before = row.iter().take(place);
        writer.write_record(before.chain([offset]).chain(row.iter().skip(place + 1))).map_err(io::Error::from)
    }
}

/// Writes a problem as [`Sheet::read`] reads it: one row per block that has bytes, named by `ids`. Sizes are padded.
/// The format has no shrinking blocks: the row has the full size to the end.
///
/// # Errors
/// When `output` cannot be written to.
pub fn write_blocks(problem: &Problem, ids: &[u64], output: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(output);
    let columns = [Column::Id, Column::Lower, Column::Upper, Column::Size, Column::Alignment];
    writer.write_record(columns.map(Column::name))?;
    for (block, id) in problem.blocks().iter().zip(ids).filter(|(block, _)| block.size > 0) {
        let numbers = [*id, block.first_step.into(), block.end_step.into(), block.size, problem.alignment()];
        writer.write_record(numbers.map(|number| number.to_string()))?;
    }
    writer.flush()
}

/// A row in numbers.
struct CsvRow {
    size: Bytes,
    /// The live range, half-open, in the steps of the file.
    lower: u64,
    upper: u64,
    alignment: Bytes,
}

fn parse_rows(
    text: &Text,
    columns: &CsvColumns,
    fields: usize,
    rows: &[StringRecord],
) -> Result<Vec<CsvRow>, Malformed> {
    let mut first_with: HashMap<&str, &StringRecord> = HashMap::with_capacity(rows.len());
    let mut parsed = Vec::with_capacity(rows.len());
    for row in rows {
        let wrong = |reason: String| malformed(text.line_of(row), reason);
        if row.len() != fields {
            return Err(wrong(format!("the header has {fields} fields, and this row {}", row.len())));
        }
        parsed.push(parse_row(columns, row).map_err(wrong)?);
        let id = columns.text(row, Column::Id);
        if let Some(first) = first_with.insert(id, row) {
            return Err(wrong(format!("{} {id:?} is taken by line {}", Column::Id, text.line_of(first))));
        }
    }
    Ok(parsed)
}

fn parse_row(columns: &CsvColumns, row: &StringRecord) -> Result<CsvRow, String> {
    let number = |column: Column| parse_number(column, columns.text(row, column));
    let (lower, size) = (number(Column::Lower)?, number(Column::Size)?);
    let upper = match columns.get(Column::End) {
        None => number(Column::Upper)?,
        Some(_) => number(Column::End)?.checked_add(1).ok_or("end is too large")?,
    };
    if lower >= upper {
        return Err(format!("the live range is empty: it ends before step {upper}, and starts at {lower}"));
    }
    if !columns.text(row, Column::Gaps).trim().is_empty() {
        return Err("gaps cannot be planned: leave the field empty, which keeps the block throughout its live range, \
                    or make it several blocks"
            .to_owned());
    }
    let alignment = match columns.text(row, Column::Alignment).trim() {
        "" => 1,
        text => parse_number(Column::Alignment, text)?,
    };
    if !alignment.is_power_of_two() {
        return Err(format!("alignment {alignment} is not a power of two"));
    }
    Ok(CsvRow { size, lower, upper, alignment })
}

fn parse_number(column: Column, text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    if digits.is_empty() || digits.bytes().any(|byte| !byte.is_ascii_digit()) {
        return Err(format!("{column} {text:?} is not a whole number"));
    }
    if sign == "-" {
        return Err(format!("{column} {text} is negative"));
    }
    digits.parse().map_err(|_| format!("{column} {text} is too large"))
}

/// Returns the alignment of all blocks: the largest. Where alignments differ, all sizes must be multiples of the
/// largest, so that stacked blocks are aligned without padding.
fn alignment(text: &Text, rows: &[StringRecord], parsed: &[CsvRow]) -> Result<Bytes, Malformed> {
    let Some((largest, strictest)) = parsed.iter().enumerate().rev().max_by_key(|(_, row)| row.alignment) else {
        return Ok(1);
    };
    let largest_alignment = strictest.alignment;
    let other = parsed.iter().position(|row| row.alignment != largest_alignment);
    let is_free = parsed.iter().all(|row| row.size.is_multiple_of(largest_alignment));
    match other {
        Some(other) if !is_free => {
            let (alignment, line) = (parsed[other].alignment, text.line_of(&rows[largest]));
            let reason = format!(
                "alignment {alignment}, and {largest_alignment} on line {line}: different alignments can be planned \
                 only when all sizes are multiples of the largest; round the sizes up to multiples of {largest_alignment}"
            );
            Err(malformed(text.line_of(&rows[other]), reason))
        }
        _ => Ok(largest_alignment),
    }
}

/// Returns the blocks, by first step, and by row its block.
fn problem(rows: &[CsvRow], alignment: Bytes) -> (Problem, Vec<BlockId>) {
    let steps = Steps::of(rows);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&row| rows[row].lower);
    let mut problem = Problem::new(alignment, None);
    let mut blocks = vec![0; rows.len()];
    for row in order {
        let CsvRow { size, lower, upper, .. } = rows[row];
        let (first_step, end_step) = (steps.number(lower), steps.number(upper));
        blocks[row] = problem.add(Block { size: padded(size, alignment), first_step, end_step });
    }
    (problem, blocks)
}

/// The steps of a file that need renumbering, in order; empty if all fit.
struct Steps(Vec<u64>);

impl Steps {
    fn of(rows: &[CsvRow]) -> Self {
        if rows.iter().all(|row| row.upper <= u64::from(Step::MAX)) {
            return Self(Vec::new());
        }
        let mut all: Vec<u64> = rows.iter().flat_map(|row| [row.lower, row.upper]).collect();
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    fn number(&self, step: u64) -> Step {
        let number = if self.0.is_empty() { step } else { self.0.partition_point(|&other| other < step) as u64 };
        Step::try_from(number).unwrap_or(Step::MAX)
    }
}

/// Refuses sizes whose sum overflows, with the line where it does.
fn check_total(text: &Text, rows: &[StringRecord], problem: &Problem, blocks: &[BlockId]) -> Result<(), Malformed> {
    let mut total: Bytes = 0;
    for (row, &block) in rows.iter().zip(blocks) {
        total = total.saturating_add(problem.blocks()[block as usize].size);
        if total > Bytes::MAX / 2 {
            let reason = format!("the sizes up to here add up to more than {} bytes", Bytes::MAX / 2);
            return Err(malformed(text.line_of(row), reason));
        }
    }
    Ok(())
}

/// The whole file.
struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    fn new(bytes: &'t [u8]) -> Result<Self, Malformed> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| malformed(1 + count_newlines(&bytes[..error.valid_up_to()]), "this is not UTF-8 text"))?;
        // Spreadsheets begin UTF-8 with a byte order mark.
        Ok(Self(text.strip_prefix('\u{feff}').unwrap_or(text)))
    }

    /// Returns all lines that are not blank, the header included.
    fn records(&self) -> impl Iterator<Item = Result<StringRecord, Malformed>> {
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(self.0.as_bytes());
        reader.into_records().map(|record| record.map_err(|error| malformed(1, error.to_string())))
    }

    /// Returns the line on which a record starts. The reader's own count is wrong after blank lines.
    fn line_of(&self, record: &StringRecord) -> usize {
        let start = record.position().map_or(0, |position| usize::try_from(position.byte()).unwrap_or(usize::MAX));
        let text = self.0.as_bytes();
        let blank = text[start..].iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        1 + count_newlines(&text[..start + blank])
    }
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}
