//! Commands, options, files and variables that the pages name exist.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use lastuse::settings::{SETTINGS, Scope, variables};

use super::{Page, code, matching, pages, printed, repository, tables};

/// Returns the code of a page by lines: blocks, and text between backquotes.
fn lines_of_code(page: &Page) -> Vec<&str> {
    let blocks = page.text.lines().filter_map(|line| line.strip_prefix("    "));
    blocks.chain(page.text.split("\n\n").flat_map(code)).collect()
}

/// Returns the commands of the tool in a line of code: the words behind each "lastuse ".
fn commands(line: &str) -> Vec<Vec<&str>> {
    let starts = line.strip_prefix("$ ").or_else(|| line.strip_prefix("sudo ")).unwrap_or(line);
    let Some(rest) = starts.strip_prefix("lastuse ") else { return Vec::new() };
    let words = rest.split(" #").next().unwrap_or(rest).split_whitespace();
    // The rest belongs to the program.
    let is_program = |word: &&str| {
        word.starts_with("./") || word.starts_with("target/") || ["--", "python", "docker"].contains(word)
    };
    vec![words.take_while(|word| !is_program(word)).collect()]
}

#[test]
fn commands_and_options_are_those_of_the_tool() {
    let mut help: HashMap<&str, String> = HashMap::new();
    let all = printed(&["--help".to_owned()]);
    let pages = pages();
    let lines: Vec<(&Page, &str)> =
        pages.iter().flat_map(|page| lines_of_code(page).into_iter().map(move |line| (page, line))).collect();
    let mut count = 0;
    for (page, line) in lines {
        for words in commands(line) {
            let Some(&command) = words.first().filter(|word| word.bytes().all(|it| it.is_ascii_lowercase())) else {
                continue;
            };
            assert!(all.lines().any(|line| line.trim().starts_with(command)), "{}: {line}: no such command", page.name);
            let help = help.entry(command).or_insert_with(|| printed(&[command.to_owned(), "--help".to_owned()]));
            for option in words.iter().filter(|word| word.starts_with("--")) {
                let option = option.split('=').next().unwrap_or(option).trim_end_matches([',', ')', '.']);
                let is_known = help.split(|it: char| !(it.is_ascii_alphanumeric() || it == '-')).any(|it| it == option);
                assert!(is_known, "{}: {line}: lastuse {command} has no {option}", page.name);
                count += 1;
            }
        }
    }
    assert!(count > 40, "only {count} options");
}

/// Folders of the repository that pages name files in.
const FOLDERS: [&str; 9] = ["c-tests/", "docs/", "src/", "guard/", "fuzz/", "vendor/", "include/", "benches/", ".ci/"];

#[test]
fn files_exist() {
    let mut count = 0;
    for page in pages() {
        for line in lines_of_code(&page) {
            for word in line.split([' ', ';', '"', '\'', '(', ')', ',']) {
                let word = word.trim_end_matches(['/', '.', ':']);
                let is_pattern =
                    word.contains(['<', '%', '{', '[']) || word.bytes().any(|byte| byte.is_ascii_uppercase());
                if is_pattern || !FOLDERS.iter().any(|folder| word.starts_with(folder)) {
                    continue;
                }
                assert!(!matching(word).is_empty(), "{}: {line}: there is no {word}", page.name);
                count += 1;
            }
        }
    }
    assert!(count > 60, "only {count} files");
}

#[test]
fn tests_and_benchmarks_exist() {
    let is_there = |folders: &[&str], name: &str| {
        let files =
            folders.iter().flat_map(|folder| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")]);
        files.map(|file| repository().join(file)).any(|file| file.is_file())
    };
    for page in pages() {
        for line in lines_of_code(&page) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                let folders: &[&str] = match pair[0] {
                    "--test" => &["c-tests/tests"],
                    "--bench" => &["c-tests/benches", "benches"],
                    _ => continue,
                };
                assert!(is_there(folders, pair[1].trim_end_matches(',')), "{}: {line}", page.name);
            }
        }
    }
}

/// Adds the text of all sources in a folder.
fn read_sources(folder: &Path, all: &mut String) {
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read_sources(&path, all);
        } else if path.extension().is_some_and(|ending| ["rs", "c", "h", "sh"].iter().any(|it| ending == *it)) {
            all.push_str(&fs::read_to_string(&path).unwrap_or_default());
        }
    }
}

#[test]
fn variables_are_read_somewhere() {
    let mut sources = String::new();
    for folder in ["src", "tool", "guard", "c-tests/src", "c-tests/benches", "c-tests/hosts", "vendor/src", "fuzz"] {
        read_sources(&repository().join(folder), &mut sources);
    }
    read_sources(&repository().join("c-tests/tests/picture"), &mut sources);
    let mut count = 0;
    for page in pages() {
        let words = page.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for variable in words.filter(|word| word.starts_with("LASTUSE_") && !word.ends_with('_')) {
            assert!(sources.contains(variable), "{}: nothing reads {variable}", page.name);
            count += 1;
        }
    }
    assert!(count > 50, "only {count} variables");
}

/// `lastuse run --help` and docs/settings.md have the rows of the one table of settings.
#[test]
fn every_setting_is_documented() {
    let page = pages().into_iter().find(|page| page.name.ends_with("settings.md")).expect("the page of settings");
    let help = variables();
    for setting in &SETTINGS {
        let changed = match setting.scope {
            Scope::Start => "",
            Scope::Process => " the process",
            Scope::LaterAllocators => " later allocators",
            Scope::EachAllocator => " later allocators, one allocator",
        };
        let assignment = format!("{}={}", setting.variable.to_string_lossy(), setting.value);
        let row = format!("| `{assignment}` | {} |{changed} | {} | [", setting.default, setting.help);
        assert!(page.text.contains(&row), "docs/settings.md lacks: {row}");
        assert!(help.contains(&assignment), "{help}");
    }
}

/// Returns the words in code in the first cells of a table.
fn first_words<'p>(page: &'p Page, title: &str) -> Vec<&'p str> {
    let found = tables(page).into_iter().find(|table| table[0][0] == title);
    let table = found.unwrap_or_else(|| panic!("{}: no table begins with {title:?}", page.name));
    let cells = table[1..].iter().filter_map(|row| code(row[0]).next()?.split_whitespace().next());
    cells.collect()
}

#[test]
fn the_page_of_the_tool_has_its_commands() {
    let page = super::page("docs/tool.md");
    let listed = first_words(&page, "`lastuse ...`");
    let help = printed(&["--help".to_owned()]);
    let commands = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("commands");
    let commands: Vec<&str> = commands.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
    let commands = commands.into_iter().filter(|command| !command.is_empty() && *command != "help");
    for command in commands.clone() {
        let is_listed = ["`", " "].iter().any(|end| page.text.contains(&format!("`{command}{end}")));
        assert!(is_listed, "docs/tool.md lacks {command}: {listed:?}");
    }
    let commands: Vec<&str> = commands.collect();
    assert!(listed.len() > 8 && listed.iter().all(|word| commands.contains(word)), "{listed:?} and {commands:?}");
}

#[test]
fn formats_are_those_of_the_sources() {
    let mut sources = String::new();
    for folder in ["src", "tool", "neurons"] {
        read_sources(&repository().join(folder), &mut sources);
    }
    let page = super::page("docs/stability.md");
    let formats: Vec<&str> =
        first_words(&page, "format").into_iter().filter(|word| word.starts_with("lastuse-")).collect();
    assert!(formats.len() > 6, "{formats:?}");
    for format in formats {
        assert!(sources.contains(&format!("\"{format}\"")), "nothing writes {format}");
    }
}
