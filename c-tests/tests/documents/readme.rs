//! The numbers of README are those of the pages that it links to, which have them to the byte, with the commands that print them.

use super::{page, tables};

/// A row of the table: the start of its title, the page that has its numbers, and these, before and with lastuse.
type Case = (&'static str, &'static str, f64, f64);

const MIB: f64 = 1_048_576.0;

const CASES: [Case; 8] = [
    ("llama.cpp, Gemma 3", "docs/on-demand.md", 938_536_960.0, 328_273_920.0),
    ("Gemma 3 270M as target", "docs/arena.md", 525_795_328.0, 406_261_760.0),
    ("the same with `--arena`", "docs/arena.md", 1_095_823_360.0, 538_181_632.0),
    ("stable-diffusion.cpp, a narrow", "docs/worth.md", 547_394_144.0, 144_105_536.0),
    ("the same: VAE decoder", "docs/worth.md", 436_273_216.0, 177_864_768.0),
    ("llama.cpp without flash attention", "docs/tiling.md", 610_811_904.0, 95_952_896.0),
    ("training", "docs/recomputation.md", 909_119_584.0, 61_870_176.0),
    ("better planning alone", "docs/worth.md", 305_156_096.0, 271_056_896.0),
];

/// Formats a row's numbers.
fn cells(before: f64, after: f64) -> [String; 3] {
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / MIB);
    [mib(before), mib(after), format!("{:.0} %", (after / before - 1.0) * 100.0)]
}

#[test]
fn cases_are_those_of_the_pages() {
    let readme = page("README.md");
    let tables = tables(&readme);
    let table = tables.iter().find(|table| table[0][0] == "on the CPU").expect("the table of cases");
    let row =
        |title: &str| table.iter().find(|row| row[0].starts_with(title)).unwrap_or_else(|| panic!("no {title:?}"));
    for (title, source, before, after) in CASES {
        assert_eq!(row(title)[1..4], cells(before, after), "{title}");
        let text = page(source).text;
        let of_page = |bytes: f64| text.contains(&format!("{bytes}")) || text.contains(&cells(bytes, bytes)[0]);
        // The plan of ggml-alloc is that of the captured graph: its page has the bytes that are left, and their share.
        let share = format!("| {:.3} |", after / before);
        assert!(of_page(after) && (of_page(before) || text.contains(&share)), "{source} has other numbers: {title}");
    }
    let large = row("the same, a model with Llama 3 8B");
    let [before, after] = [large[1], large[2]].map(|cell| cell.trim_end_matches(" MiB"));
    let line = page("docs/on-demand.md").text;
    let line = line.lines().find(|line| line.contains("8534.5") || line.contains("process, peak resident"));
    let numbers: Vec<&str> = line.expect("what cargo demo memory prints").split_whitespace().collect();
    assert_eq!(numbers[3..], [before, after, &large[3][..large[3].len() - 2], "%"], "{numbers:?}");
    assert_eq!(table.len(), CASES.len() + 2, "each row has numbers that are tested");
}

#[test]
fn output_is_that_of_the_page() {
    let (readme, source) = (page("README.md").text, page("docs/on-demand.md").text);
    let lines: Vec<&str> =
        readme.lines().filter(|line| line.starts_with("      ") || line.starts_with("    CPU ")).collect();
    let quoted =
        lines.iter().filter(|line| line.contains("resident") || line.contains("ggml-alloc  ") || line.contains("CPU "));
    let mut count = 0;
    for line in quoted {
        assert!(source.contains(line), "docs/on-demand.md has no {line:?}");
        count += 1;
    }
    assert_eq!(count, 3, "{lines:?}");
    // A dry run of the same command tells the same bytes.
    let measured: Vec<String> = page("docs/measure.md").text.lines().map(words_alone).collect();
    for line in lines.iter().map(|line| words_alone(line)).filter(|line| !line.contains("resident")) {
        assert!(measured.iter().any(|other| other.contains(&line)), "docs/measure.md has no {line:?}");
    }
}

fn words_alone(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
