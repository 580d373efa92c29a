//! Numbers in running text are those that a command prints.

use super::{number, page, printed, words};

/// A number in running text.
struct Claim {
    page: &'static str,
    /// The text before it.
    before: &'static str,
    /// The command that prints it, in its last line.
    command: &'static str,
    /// The word before it there.
    word: &'static str,
}

const MEAN: &str = "mean";
const ALL: &str = "plan c-tests/graphs/*.gz";

/// Where the same number is in a table, the table has its own test.
const CLAIMS: [Claim; 4] = [
    Claim {
        page: "docs/faq.md",
        before: "training graphs the change from ggml-alloc is ",
        command: "plan c-tests/graphs/train-*.gz",
        word: MEAN,
    },
    Claim { page: "docs/planning.md", before: "never a larger one. All ", command: ALL, word: "" },
    Claim { page: "README.md", before: "ROCm and Metal, the [", command: ALL, word: "" },
    Claim { page: "docs/internals/measurements.md", before: "compares both allocators on ", command: ALL, word: "" },
];

/// Returns the number behind a word; the first one for no word.
fn behind<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = if word.is_empty() { 0 } else { words.iter().position(|found| *found == word)? + 1 };
    number(words.get(at)?)
}

#[test]
fn numbers_in_the_text_are_those_that_are_printed() {
    for Claim { page: name, before, command, word } in CLAIMS {
        let text = page(name).text.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, after) = text.split_once(before).unwrap_or_else(|| panic!("{name} has no {before:?}"));
        let claimed = behind(after, "").unwrap_or_else(|| panic!("{name}: no number behind {before:?}"));
        let output = printed(&words(command));
        let found = output.lines().last().and_then(|line| behind(line, word)).expect("a number");
        let decimals = claimed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let found: f64 = found.parse().expect("a number");
        // With a sign, it is the change in percent that a ratio means.
        let is_change = claimed.starts_with(['+', '-']);
        let found =
            if is_change { format!("{:+.decimals$}", (found - 1.0) * 100.0) } else { format!("{found:.decimals$}") };
        assert_eq!(claimed, found, "{name}: {before}");
    }
}

/// The demo runs the program of the tool's page with the same shape, so it takes the same bytes.
#[test]
fn bytes_of_the_demo_are_those_of_its_program() {
    let line = format!("run --json {} --layers 8 --prompt 512 --decode 1 --threads 1", super::PROGRAM);
    let report: serde_json::Value = serde_json::from_str(&printed(&words(&line))).expect("JSON");
    let buffer = &report["allocators"][0]["buffers"][0];
    let [lastuse, ggml] = ["bytes", "ggml_alloc"].map(|key| buffer[key].as_u64().expect("bytes").to_string());
    let text = page("docs/internals/measurements.md").text;
    let demo = text.split("c-tests/llama_style.c on ggml").nth(1).expect("the output of cargo demo");
    let row: Vec<&str> =
        demo.lines().find(|line| line.contains("compute buffer, bytes")).expect("a row").split_whitespace().collect();
    assert_eq!(row[3..5], [&*ggml, &lastuse], "{row:?}");
    for label in ["lower bound, bytes", "time to plan, us", "prompt, tokens/s", "hash of every logit"] {
        assert!(demo.contains(&format!("    {label}  ")), "the demo has a row {label:?}");
    }
}
