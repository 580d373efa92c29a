//! `lastuse completions` in real shells, and `lastuse man` in a real formatter.

use std::fs;
use std::process::Command;

use super::{assert_refused, folder, printed, text, write};

/// The words that bash offers for the last word of a command line.
fn completed(script: &str, words: &[&str]) -> Vec<String> {
    let array: String = words.iter().map(|word| format!("'{word}' ")).collect();
    let program = format!(
        "source '{script}'; COMP_WORDS=({array}); COMP_CWORD={}; COMP_LINE=\"${{COMP_WORDS[*]}}\"; \
         COMP_POINT=${{#COMP_LINE}}; _lastuse lastuse '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2]
    );
    let output = Command::new("bash").args(["--norc", "-c", &program]).output().expect("bash is there");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_their_words() {
    let script = write(&folder("bash").join("lastuse"), printed(&["completions", "bash"]).as_bytes());
    let of = |words: &[&str]| completed(&script, words);
    assert_eq!(of(&["lastuse", "pl"]), ["plan"]);
    assert_eq!(of(&["lastuse", "com"]), ["compare", "completions"]);
    assert_eq!(of(&["lastuse", "run", "--cap"]), ["--capture"]);
    assert_eq!(of(&["lastuse", "draw", "--theme", "d"]), ["dark"]);
    assert_eq!(of(&["lastuse", "completions", "z"]), ["zsh"]);
}

#[test]
fn other_shells_accept_their_scripts() {
    for (shell, name) in [("zsh", "_lastuse"), ("fish", "lastuse.fish")] {
        let script = printed(&["completions", shell]);
        assert!(script.contains("lastuse") && script.contains("capture"), "{script}");
        let file = write(&folder(shell).join(name), script.as_bytes());
        let output = Command::new(shell).args(["-n", &file]).output();
        let output = output.unwrap_or_else(|error| panic!("{shell}: {error}: .ci/run installs it"));
        assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_command_has_a_man_page() {
    let pages = folder("man").join("man1");
    assert_eq!(printed(&["man", "-o", text(&pages)]), "");
    let mut names: Vec<String> = fs::read_dir(&pages)
        .expect("the folder was made")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let commands = [
        "accounting",
        "check",
        "compare",
        "completions",
        "convert",
        "disable",
        "draw",
        "enable",
        "explain",
        "man",
        "measure",
        "neurons",
        "offload",
        "plan",
        "reach",
        "run",
    ];
    let expected = commands.map(|command| format!("lastuse-{command}.1"));
    assert_eq!(names[..16], expected);
    assert_eq!(names[16..], ["lastuse.1"]);
    for name in &names {
        let page = fs::read_to_string(pages.join(name)).expect("it was written");
        assert!(page.contains(".SH NAME") && page.contains(".SH EXAMPLES"), "{name}: {page}");
    }
    assert_eq!(printed(&["man", "run"]), fs::read_to_string(pages.join("lastuse-run.1")).expect("it was written"));
    let known = "run, measure, enable, disable, explain, draw, compare, plan, check, convert, offload, neurons, accounting, \
                 reach, completions, man";
    assert_refused(&["man", "fly"], 2, &format!("there is no command \"fly\"; the commands are {known}; see --help"));
    let blocked = format!("{}/x", pages.join("lastuse.1").display());
    let message = format!("{blocked}: cannot be written: {} is not a folder", pages.join("lastuse.1").display());
    assert_refused(&["man", "-o", &blocked], 1, &message);
}

/// Formats a page as man does.
fn formatted(file: &str) -> String {
    let output = Command::new("groff").args(["-man", "-Tutf8", "-ww", "-P-cbou"]).arg(file).output();
    let output = output.expect("groff is installed: .ci/run does so");
    let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && warnings.is_empty(), "{file}: {warnings}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn man_pages_render() {
    let pages = folder("rendered");
    printed(&["man", "-o", text(&pages)]);
    let files: Vec<_> =
        fs::read_dir(&pages).expect("the folder was made").flatten().map(|entry| entry.path()).collect();
    assert!(files.len() > 11, "{files:?}");
    for file in files {
        let page = formatted(text(&file));
        assert!(page.contains("NAME") && page.contains("EXAMPLES"), "{}: {page}", file.display());
        if file.ends_with("lastuse-run.1") {
            assert!(page.contains("lastuse run --off ./llama-cli -m model.gguf"), "{page}");
            let words: Vec<&str> = page.split_whitespace().collect();
            assert!(words.join(" ").contains("EXIT STATUS that of the program, or 128 plus the signal"), "{page}");
        }
    }
}
