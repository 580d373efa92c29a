//! Problems in CSV files: solved, written back, and checked here.

use std::fs;

use super::{Folder, assert_fails, assert_fails_with, chain, finish, planned, run, stderr, stdout, text, waiting};

/// The example of MiniMalloc's documentation; 12 bytes suffice, and are needed.
const EXAMPLE: &str = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

/// Ten blocks of which at most 10 bytes are live at once, and that fit into 11 bytes but not into 10: found among
/// random problems, and proven by trying everything.
const TIGHT: &str = "id,start,size,end\nt0,0,4,3\nt1,0,5,0\nt2,2,4,2\nt3,3,2,6\nt4,3,2,5\nt5,4,6,4\nt6,5,2,6\nt7,5,2,5\nt8,6,5,7\nt9,7,4,7\n";

/// A row with its offset: identifier, live range, bytes.
#[derive(Debug)]
struct Placed {
    id: String,
    life: std::ops::Range<u64>,
    bytes: std::ops::Range<u64>,
}

/// Reads the tool's output: plain fields, the live range half-open or not.
fn placed(written: &str) -> Vec<Placed> {
    let mut lines = written.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let place = |names: &[&str]| header.iter().position(|name| names.contains(name)).expect("the column is there");
    let (id, lower, size, offset) = (place(&["id"]), place(&["lower", "start"]), place(&["size"]), place(&["offset"]));
    let (upper, inclusive) = (place(&["upper", "end"]), u64::from(header.contains(&"end")));
    let rows = lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |place: usize| fields[place].parse::<u64>().expect("a number");
        Placed {
            id: fields[id].to_owned(),
            life: number(lower)..number(upper) + inclusive,
            bytes: number(offset)..number(offset) + number(size),
        }
    });
    rows.collect()
}

/// Asserts that no two blocks share a byte at a step. Returns the peak.
fn checked_peak(written: &str) -> u64 {
    let rows = placed(written);
    for (place, a) in rows.iter().enumerate() {
        for b in &rows[..place] {
            let together = a.life.start.max(b.life.start) < a.life.end.min(b.life.end);
            let shared = a.bytes.start.max(b.bytes.start) < a.bytes.end.min(b.bytes.end);
            assert!(!(together && shared), "{a:?} and {b:?} overlap");
        }
    }
    rows.iter().map(|row| row.bytes.end).max().unwrap_or(0)
}

/// The fields of a line of the table without the time; the outcome is one field.
fn fields(table: &str, line: usize) -> Vec<String> {
    let line = table.lines().nth(line).expect("the table has the line");
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let outcome = words.split_off(6).join(" ");
    let time = words.pop().and_then(|word| word.parse::<f64>().ok());
    assert!(time.is_some_and(|time| time >= 0.0), "{table}");
    words.into_iter().map(str::to_owned).chain([outcome]).collect()
}

#[test]
fn help_explains_columns_options_and_exit_codes() {
    let help = planned(&["--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["buffer_id", "--capacity <BYTES>", "--effort <UNITS>", "--output <FILE>", "3 it is proven that no placement"]
    {
        assert!(help.contains(part), "{part} is not in\n{help}");
    }
}

#[test]
fn smallest_placement_is_found_and_written() {
    let folder = Folder::new("csv-smallest");
    let (file, output) = (folder.write("example.csv", EXAMPLE), folder.path("out.csv"));
    let table = planned(&["-o", &output, &file]);
    assert_eq!(fields(&table, 1), ["example.csv", "5", "-", "12", "12", "optimal: proven"]);
    assert_eq!(table.lines().count(), 2);
    let written = fs::read_to_string(&output).expect("the output is there");
    assert_eq!(checked_peak(&written), 12);
    let without_offsets: Vec<_> = written.lines().map(|line| line.rsplit_once(',').expect("fields").0).collect();
    assert_eq!(without_offsets, EXAMPLE.lines().collect::<Vec<_>>(), "the rows stay as they are");
    assert!(written.starts_with("id,lower,upper,size,offset\n"));
}

#[test]
fn written_rows_can_be_planned_in_place() {
    let folder = Folder::new("csv-again");
    let file = folder.write("example.csv", EXAMPLE);
    planned(&["--output", &file, &file]);
    let once = fs::read_to_string(&file).expect("the file is there");
    assert_eq!(checked_peak(&once), 12);
    planned(&["--output", &file, &file]);
    assert_eq!(fs::read_to_string(&file).expect("the file is there"), once);
}

#[test]
fn rows_on_the_standard_output_stand_alone() {
    let file = Folder::new("csv-stdout").write("example.csv", &EXAMPLE.replace('\n', "\r\n"));
    let written = planned(&["-o", "-", &file]);
    assert_eq!((written.lines().count(), checked_peak(&written)), (6, 12));
}

#[test]
fn other_columns_mean_what_they_say() {
    let rows = "start,hint,id,end,size\n0,9,b1,2,4\n3,,b2,8,4\n0,,b3,8,4\n9,,b4,20,4\n0,,b5,20,4\n";
    let file = Folder::new("csv-columns").write("columns.csv", rows);
    let written = planned(&["-o", "-", &file]);
    assert_eq!(checked_peak(&written), 12);
    assert!(written.starts_with("start,hint,id,end,size,offset\n0,9,b1,2,4,"), "{written}");
    assert_eq!(placed(&written).iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["b1", "b2", "b3", "b4", "b5"]);
}

#[test]
fn placement_within_a_capacity_is_found() {
    let folder = Folder::new("csv-fits");
    let (file, output) = (folder.write("example.csv", EXAMPLE), folder.path("out.csv"));
    let table = planned(&["--capacity", "14", "-o", &output, &file]);
    let found = fields(&table, 1);
    assert_eq!([&found[0], &found[1], &found[2], &found[4], &found[5]], ["example.csv", "5", "14", "12", "fits"]);
    assert!(checked_peak(&fs::read_to_string(&output).expect("the output is there")) <= 14);
}

#[test]
fn capacity_below_the_bound_is_infeasible() {
    let folder = Folder::new("csv-infeasible");
    let (file, output) = (folder.write("example.csv", EXAMPLE), folder.path("out.csv"));
    let _ = fs::remove_file(&output);
    let result = run(&["--capacity", "11", "-o", &output, &file]);
    assert_eq!((result.status.code(), stderr(&result)), (Some(3), ""));
    assert_eq!(fields(stdout(&result), 1), ["example.csv", "5", "11", "-", "12", "infeasible: proven"]);
    assert!(!fs::exists(&output).expect("the folder can be read"), "nothing is written");
}

#[test]
fn search_proves_what_the_bound_does_not() {
    let file = Folder::new("csv-tight").write("tight.csv", TIGHT);
    let table = planned(&[&file]);
    let row = fields(&table, 1);
    assert_eq!((row[3].as_str(), row[4].as_str(), row[5].as_str()), ("11", "10", "optimal: proven"), "{table}");
    assert_eq!(checked_peak(&planned(&["--capacity", "11", "-o", "-", &file])), 11);
    let result = run(&["--capacity", "10", &file]);
    assert_eq!(result.status.code(), Some(3), "{}", stdout(&result));
    assert_eq!(fields(stdout(&result), 1)[5], "infeasible: proven");
}

#[test]
fn effort_that_is_too_small_proves_nothing() {
    let file = Folder::new("csv-effort").write("tight.csv", TIGHT);
    let result = run(&["--capacity", "10", "--effort", "0", &file]);
    assert_eq!((result.status.code(), stderr(&result)), (Some(4), ""));
    assert_eq!(fields(stdout(&result), 1)[3..], ["-", "10", "not found within the effort, not proven"]);
    assert_eq!(fields(&planned(&["--effort", "0", &file]), 1)[5], "smallest found, not proven");
}

#[test]
fn several_files_end_with_the_worst_of_their_codes() {
    let folder = Folder::new("csv-several");
    let example = folder.write("example.csv", EXAMPLE);
    let tight = folder.write("tight.csv", TIGHT);
    let broken = folder.write("broken.csv", "id,lower,upper,size\na,0,1,x\n");
    let result = run(&["--capacity", "11", "--effort", "0", &example, &tight]);
    assert_eq!(result.status.code(), Some(3));
    assert_eq!([1, 2].map(|line| fields(stdout(&result), line)[5].clone()), ["infeasible: proven", "fits"]);
    assert_eq!(run(&["--capacity", "10", "--effort", "0", &example, &tight]).status.code(), Some(4));
    let result = run(&["--capacity", "10", "--effort", "0", &example, &broken, &tight]);
    assert_eq!(result.status.code(), Some(1));
    assert_eq!(stderr(&result), format!("lastuse: error: {broken}: line 2: size \"x\" is not a whole number\n"));
    assert_eq!(stdout(&result).lines().count(), 3);
}

#[test]
fn graphs_and_problems_have_tables_of_their_own() {
    let folder = Folder::new("csv-mixed");
    let (problem, graph) = (folder.write("example.csv", EXAMPLE), folder.write("chain.jsonl", &text(&chain())));
    let printed = planned(&[&problem, &graph]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(lines[0].starts_with("file ") && lines[0].contains("nodes") && lines[1].starts_with("chain.jsonl "));
    assert!(lines[2].is_empty() && lines[3].contains("outcome") && lines[4].starts_with("example.csv "), "{printed}");
}

#[test]
fn standard_input_may_be_csv() {
    let output = finish(waiting(&["-"]), EXAMPLE);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    assert_eq!(fields(stdout(&output), 1), ["-", "5", "-", "12", "12", "optimal: proven"]);
    let output = finish(waiting(&["-o", "-", "-"]), EXAMPLE);
    assert_eq!(checked_peak(stdout(&output)), 12);
    assert_fails(
        &finish(waiting(&["-"]), "id,lower,size\n"),
        "-: line 1: the header has no column upper or end; the first line names the columns",
    );
}

#[test]
fn capacities_between_two_multiples_of_the_alignment_are_handled() {
    let rows = "id,lower,upper,size,alignment\na,0,2,16,16\nb,1,3,10,16\n";
    let file = Folder::new("csv-alignment").write("aligned.csv", rows);
    assert_eq!(checked_peak(&planned(&["-o", "-", &file])), 32);
    assert_eq!(run(&["--capacity", "32", &file]).status.code(), Some(0));
    assert_eq!(run(&["--capacity", "16", &file]).status.code(), Some(3));
    // Another order would need 26 bytes only: with padding the result proves nothing.
    assert_eq!(run(&["--capacity", "26", &file]).status.code(), Some(4));
}

#[test]
fn what_cannot_be_wanted_together_is_wrong_usage() {
    let folder = Folder::new("csv-usage");
    let (problem, graph) = (folder.write("example.csv", EXAMPLE), folder.write("chain.jsonl", &text(&chain())));
    for arguments in [
        &["-o", "-", &problem, &problem][..],
        &["--json", "--capacity", "12", &problem],
        &["--json", "-o", "-", &problem],
        &["--capacity", "-1", &problem],
        &["--capacity", "12k", &problem],
        &["--effort", "much", &problem],
    ] {
        let output = run(arguments);
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains("--help"), "{arguments:?}: {}", stderr(&output));
    }
    for (option, value) in [("--capacity", "12"), ("--output", "-")] {
        let message = format!("{graph}: {option} is for CSV files, but this is a graph");
        assert_fails_with(2, &run(&[option, value, &graph]), &message);
    }
    let message = "--json is for graphs; --output writes the rows of a CSV file with offsets";
    for arguments in [&["--json", problem.as_str()][..], &["--json", "--effort", "12", &problem]] {
        assert_fails_with(2, &run(arguments), &format!("{problem}: {message}"));
    }
}

#[test]
fn output_that_cannot_be_written_is_named() {
    let folder = Folder::new("csv-unwritable");
    let (file, output) = (folder.write("example.csv", EXAMPLE), folder.path("nowhere/out.csv"));
    let folder = output.strip_suffix("/out.csv").expect("the file is in it");
    let message = format!("{file}: cannot write {output}: there is no folder {folder}");
    assert_fails(&run(&["-o", &output, &file]), &message);
}
