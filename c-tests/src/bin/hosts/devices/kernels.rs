//! Operations computed in the memory of a source by the kernels of a device.

use lastuse_c_tests::{HostProgram, Result, aligned_table};

use super::Findings;

/// The last line of the program: operations that must have other bits.
const BREAKING: &str = "known to break";

/// Returns the names of the devices that a backend has.
///
/// # Errors
/// When they cannot be listed.
pub fn devices(program: &HostProgram, backend: &str) -> Result<Vec<String>> {
    let listed = program.run(&["--list"], false, &[])?;
    if listed.code != Some(0) {
        return Err(listed.describe());
    }
    let of_backend =
        |line: &str| line.split_once('\t').filter(|(_, of)| *of == backend).map(|(name, _)| name.to_owned());
    Ok(listed.stdout.lines().filter_map(of_backend).collect())
}

/// Runs all operations on a device. Those in `unclaimed` are not relied on there: other bits there are not errors.
///
/// # Errors
/// When the program cannot be run, or its output is not understood.
pub fn test(program: &HostProgram, device: &str, unclaimed: &[&str], findings: &mut Findings) -> Result<()> {
    let outcome = program.run(&[device], false, &[])?;
    let rows: Vec<Row> = outcome.stdout.lines().map(Row::parse).collect::<Result<_>>()?;
    let wrong = |row: &&Row| row.is_wrong() && !unclaimed.contains(&row.operation.as_str());
    findings.wrong.extend(rows.iter().filter(wrong).map(|row| format!("{device}, in place: {row:?}")));
    let has_ended = outcome.code == Some(0) || (outcome.code == Some(1) && rows.iter().any(Row::is_wrong));
    if !has_ended || !rows.iter().any(|row| row.operation == BREAKING) {
        findings.wrong.push(format!("{device}, in place: {}", outcome.describe()));
    }
    let mut table = vec![["operation", "source", "results", "other bits"].map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(Row::cells));
    let results: u64 = rows.iter().map(|row| row.results).sum();
    findings.add(&format!(
        "\n{device}, operations in the memory of a source: {results} results compared\n\n{}",
        aligned_table(&table, 2)
    ));
    Ok(())
}

/// The results of an operation over one source.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    operation: String,
    source: String,
    results: u64,
    other_bits: u64,
}

impl Row {
    fn is_wrong(&self) -> bool {
        self.other_bits > 0 && self.operation != BREAKING
    }

    fn parse(line: &str) -> Result<Self> {
        let parts: Vec<&str> = line.split('\t').collect();
        let read = || {
            let &[operation, source, results, other_bits] = parts.as_slice() else { return None };
            let (results, other_bits) = (results.parse().ok()?, other_bits.parse().ok()?);
            Some(Self { operation: operation.to_owned(), source: source.to_owned(), results, other_bits })
        };
        read().ok_or_else(|| format!("this line of results lacks something: {line}"))
    }

    fn cells(&self) -> Vec<String> {
        let results = if self.results == 0 { "not supported".to_owned() } else { self.results.to_string() };
        vec![self.operation.clone(), self.source.clone(), results, self.other_bits.to_string()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_results_are_read() {
        let row = Row { operation: "NORM, L2_NORM".to_owned(), source: "first".to_owned(), results: 22, other_bits: 1 };
        assert_eq!(Row::parse("NORM, L2_NORM\tfirst\t22\t1"), Ok(row));
        assert!(Row::parse("NORM first 22 1").is_err_and(|why| why.contains("lacks something")));
    }
}
