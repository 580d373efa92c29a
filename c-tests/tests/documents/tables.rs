//! Tables whose first title is a command of the tool have its output.

use super::{code, number, pages, printed, tables, words};

/// Returns the words in capitals of a command, which a row of the table replaces.
fn placeholders(command: &str) -> Vec<&str> {
    let parts = command.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    parts.filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase())).collect()
}

/// Puts a value in the place of a word in capitals.
fn filled(command: &str, placeholder: &str, value: &str) -> String {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let places = command.match_indices(placeholder).map(|(at, _)| at);
    let mut places = places.filter(|&at| {
        let (before, after) = (&command[..at], &command[at + placeholder.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    });
    let at = places.next().expect("it is in the command");
    format!("{}{value}{}", &command[..at], &command[at + placeholder.len()..])
}

/// The command of a table, and the placeholder that each column fills.
struct Header<'t> {
    command: &'t str,
    columns: Vec<Option<&'t str>>,
}

impl<'t> Header<'t> {
    fn of(titles: &[&'t str]) -> Option<Self> {
        let command = code(titles[0]).find_map(|code| code.strip_prefix("lastuse "))?;
        let placeholders = placeholders(command);
        let titled = |title: &&'t str| code(title).find(|code| placeholders.contains(code));
        let mut columns: Vec<Option<&str>> = titles.iter().map(titled).collect();
        columns[0] = placeholders.iter().copied().find(|placeholder| !columns.contains(&Some(placeholder)));
        (command.contains(" c-tests/") && columns[0].is_some()).then_some(Self { command, columns })
    }

    /// Returns the command of a row.
    fn command(&self, row: &[&str]) -> String {
        let cells = self.columns.iter().zip(row);
        let values = cells.filter_map(|(column, cell)| Some((column.as_ref()?, code(cell).next().unwrap_or(cell))));
        values.fold(self.command.to_owned(), |command, (placeholder, value)| filled(&command, placeholder, value))
    }

    /// Returns the numbers of a row: those of cells outside of the command.
    fn numbers<'r>(&self, row: &[&'r str]) -> Vec<&'r str> {
        let cells = self.columns.iter().zip(row).filter(|(column, _)| column.is_none());
        cells.flat_map(|(_, cell)| cell.split_whitespace()).filter_map(number).collect()
    }
}

/// Returns whether a number is printed, or the ratio of two others, rounded. With a sign, it is a change in percent: of
/// another number to a printed one, or that of a printed ratio.
fn is_right(number: &str, others: &[&str], printed: &[&str]) -> bool {
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let value = |number: &str| number.parse::<f64>().expect("a number");
    if number.starts_with(['+', '-']) {
        let is_change = |ratio: f64| format!("{:+.decimals$}", (ratio - 1.0) * 100.0) == number;
        let to_printed = |other: &&str| printed.iter().any(|printed| is_change(value(other) / value(printed)));
        return printed.iter().any(|ratio| is_change(value(ratio))) || others.iter().any(to_printed);
    }
    let is_ratio =
        |above: &&str| others.iter().any(|below| format!("{:.decimals$}", value(above) / value(below)) == number);
    printed.contains(&number) || (decimals > 0 && others.iter().any(is_ratio))
}

#[test]
fn numbers_of_tables_are_those_of_their_commands() {
    let mut count = 0;
    for page in pages() {
        for table in tables(&page) {
            let Some(header) = Header::of(&table[0]) else { continue };
            for row in &table[1..] {
                let command = header.command(row);
                let output = printed(&words(&command));
                // For several graphs, the last line has the means.
                let is_summed_up = command.contains('*') && command.contains(".gz");
                let output = if is_summed_up { output.lines().last().unwrap_or_default() } else { &output };
                let printed: Vec<&str> = output.split_whitespace().filter_map(number).collect();
                let numbers = header.numbers(row);
                assert!(!numbers.is_empty(), "{}: {row:?} has no number", page.name);
                for number in &numbers {
                    assert!(
                        is_right(number, &numbers, &printed),
                        "{}: {number} is not what \"lastuse {command}\" prints:\n{output}",
                        page.name
                    );
                }
                count += 1;
            }
        }
    }
    assert!(count >= 25, "only {count} rows");
}

#[test]
fn headers_name_columns_by_words_in_capitals() {
    let titles = ["`lastuse plan --tile BUDGET c-tests/graphs/GRAPH.jsonl.gz`", "`BUDGET`", "bytes"];
    let header = Header::of(&titles).expect("a command");
    let row = ["`train-8-512`", "40%", "12 of 30"];
    assert_eq!(header.command(&row), "plan --tile 40% c-tests/graphs/train-8-512.jsonl.gz");
    assert_eq!(header.numbers(&row), ["12", "30"]);
    assert!(Header::of(&["`lastuse ...`", ""]).is_none() && Header::of(&["graph", "bytes"]).is_none());
    assert!(is_right("0.400", &["12", "30"], &[]) && !is_right("0.401", &["12", "30"], &[]));
    assert!(is_right("-25.0", &[], &["0.75"]) && is_right("+50.0", &["12", "+50.0"], &["8"]));
    assert!(!is_right("-25.1", &["12", "-25.1"], &["0.75", "16"]) && !is_right("25.0", &[], &["0.75"]));
    assert!(is_right("12", &[], &["12"]) && !is_right("12", &["12"], &["120"]));
}
