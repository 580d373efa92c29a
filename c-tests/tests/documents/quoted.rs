//! Quoted output equals the tool's output.

use serde_json::Value;

use super::{Page, pages, printed, words};

/// The beginning of every block that quotes output.
const PROMPT: &str = "    $ lastuse ";

/// A command with the output that is below it: lines that are indented, or empty.
struct Quoted<'p> {
    line: &'p str,
    output: String,
}

fn quoted(page: &Page) -> Vec<Quoted<'_>> {
    let blocks = page.text.split(PROMPT).skip(1);
    let block = |text| -> Quoted<'_> {
        let (line, rest) = str::split_once(text, '\n').unwrap_or((text, ""));
        let lines = rest.lines().map_while(|line| line.strip_prefix("    ").or(line.is_empty().then_some("")));
        Quoted { line, output: lines.map(|line| format!("{line}\n")).collect() }
    };
    blocks.map(block).collect()
}

/// Replaces what differs from run to run: times, the resident memory of processes, and what is free.
fn without_times(text: &str) -> String {
    let mut is_in_table = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        // Times have one decimal, ratios below the table have more.
        let has_time =
            words.last().and_then(|word| word.split_once('.')).is_some_and(|(_, decimals)| decimals.len() == 1);
        is_in_table = words.last() == Some(&"us") || (is_in_table && has_time);
        lines.push(match words.as_slice() {
            [.., "us"] => line.to_owned(),
            ["time,", ..] | ["peak", "resident", ..] => words[..2].join(" "),
            [before @ .., _, _, "stay", "free"] => before.join(" ") + " * stay free",
            [before @ .., _] if is_in_table => before.join(" ") + " *",
            _ => without_seconds(line, &words),
        });
    }
    lines.join("\n")
}

/// Replaces numbers before "s" or "ms", and those behind "peak resident memory".
fn without_seconds(line: &str, words: &[&str]) -> String {
    let is_unit = |word: &str| ["s", "ms"].contains(&word.trim_end_matches([';', ',', '.']));
    let has_peak = line.contains("peak resident memory");
    if !has_peak && !words.iter().any(|word| is_unit(word)) {
        return line.trim_end().to_owned();
    }
    let masked = words.iter().enumerate().map(|(at, word)| {
        let is_time = words.get(at + 1).is_some_and(|next| is_unit(next));
        let is_memory = has_peak && words[..at].contains(&"memory");
        let is_number = word.trim_start_matches('(').parse::<f64>().is_ok();
        if is_number && (is_time || is_memory) { "*" } else { *word }
    });
    masked.collect::<Vec<_>>().join(" ")
}

#[test]
fn output_below_commands_is_what_they_print() {
    let mut count = 0;
    for page in pages() {
        for Quoted { line, output } in quoted(&page) {
            let found = printed(&words(line));
            let [found, quoted] = [&found, &output].map(|text| without_times(text.trim_end()));
            assert!(found == quoted, "{}: $ lastuse {line}\nprints\n{found}\nand not\n{quoted}", page.name);
            count += 1;
        }
    }
    assert!(count >= 6, "only {count} commands with output");
}

/// Returns whether a value has everything of a quoted one: all members of objects, and in lists, an element for each.
fn has(value: &Value, quoted: &Value) -> bool {
    match (value, quoted) {
        (Value::Object(value), Value::Object(quoted)) => {
            quoted.iter().all(|(key, quoted)| value.get(key).is_some_and(|value| has(value, quoted)))
        }
        (Value::Array(value), Value::Array(quoted)) => {
            quoted.iter().all(|quoted| value.iter().any(|value| has(value, quoted)))
        }
        _ => value == quoted,
    }
}

/// Returns the blocks of JSON, each with the command before it, if it is one of lastuse that can be repeated.
fn quoted_json(page: &Page) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = page.text.as_str();
    while let Some((before, block)) = rest.split_once("```json\n") {
        let (json, after) = block.split_once("```").unwrap_or((block, ""));
        let paragraph = before.trim_end().rsplit("\n\n").next().unwrap_or_default();
        let commands = super::code(paragraph).filter_map(|code| code.strip_prefix("lastuse "));
        found.extend(commands.filter(|command| command.contains(" c-tests/")).last().map(|command| (command, json)));
        rest = after;
    }
    found
}

#[test]
fn quoted_json_is_part_of_what_is_printed() {
    let mut count = 0;
    for page in pages() {
        for (line, json) in quoted_json(&page) {
            let quoted: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{}: {error}", page.name));
            let found: Value = serde_json::from_str(&printed(&words(line))).expect("JSON");
            assert!(has(&found, &quoted), "{}: lastuse {line} prints no such\n{json}", page.name);
            count += 1;
        }
    }
    assert!(count >= 1, "no JSON is quoted");
}

#[test]
fn times_are_left_out_and_nothing_else() {
    let table = "file    nodes         us\na.gz      215       14.0\n3 graphs, mean 0.6779";
    assert_eq!(without_times(table), "file    nodes         us\na.gz 215 *\n3 graphs, mean 0.6779");
    assert_eq!(
        without_times("x exited after 1.56 s; ggml 0.26.0; peak resident memory 396.38 MiB (415633408 bytes)"),
        "x exited after * s; ggml 0.26.0; peak resident memory * MiB * bytes)"
    );
    assert_eq!(without_times("time, s     0.8  0.7 to 0.9  0.8"), "time, s");
    assert_eq!(without_times("saves 3 MiB  "), "saves 3 MiB");
}
