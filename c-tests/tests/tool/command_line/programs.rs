//! `lastuse run PROGRAM` without "--", and why a program does not start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{assert_refused, command, folder, graph, run, text, write};
use crate::support::tool::{stderr, stdout};

/// Exit codes of lastuse itself.
const FAILED: i32 = 125;
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;

/// A file that may be executed.
fn executable(file: &Path, bytes: &[u8]) -> String {
    let name = write(file, bytes);
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("mine");
    name
}

/// Prints its arguments, one a line, and exits with 7.
fn script(test: &str) -> String {
    executable(&folder(test).join("prints"), b"#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n")
}

#[test]
fn options_stand_before_the_program_and_its_own_behind_it() {
    let program = script("order");
    let printed = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(7), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    };
    assert_eq!(printed(&["run", &program, "--help", "-v", "--json"]), "--help\n-v\n--json\n");
    let with_report = printed(&["run", "--json", &program, "--accounting", "x", "--", "y"]);
    // Behind an empty line: the last line of a program may have no end.
    assert!(with_report.starts_with("--accounting\nx\n--\ny\n\n{"), "{with_report}");
    assert_eq!(printed(&["run", "--", &program, "--help", "--"]), "--help\n--\n");
    assert_eq!(printed(&["run", "--effort", "5", "--rules", "all", &program, "a b"]), "a b\n");
    assert_eq!(printed(&["run", "--accounting", &program, "-m", "model"]), "-m\nmodel\n");
    let page = folder("order-page").join("tensors.json");
    assert_eq!(printed(&["run", &format!("--accounting={}", page.display()), &program, "z"]), "z\n");
    assert!(page.exists(), "the report was written");
}

#[test]
fn unknown_options_are_not_taken_for_the_program() {
    for arguments in [&["run", "--relort", "true"][..], &["run", "-x", "true"], &["run", "--json"], &["compare"]] {
        assert_eq!(run(arguments).status.code(), Some(FAILED), "{arguments:?}");
    }
}

#[test]
fn compare_takes_a_program_without_dashes() {
    let output = run(&["compare", "--runs", "1", &script("compare"), "--runs"]);
    assert_eq!(output.status.code(), Some(FAILED));
    assert!(stderr(&output).contains("prints failed with ggml-alloc (exit status: 7)"), "{}", stderr(&output));
}

#[test]
fn verbose_runs_say_what_is_preloaded() {
    let program = script("verbose");
    let output = run(&["run", "-v", &program]);
    assert_eq!(output.status.code(), Some(7));
    let first = stderr(&output).lines().next().unwrap_or_default();
    assert!(first.starts_with(&format!("lastuse: starting {program} with ")), "{first}");
    assert!(first.contains("liblastuse.so") && first.ends_with(" preloaded"), "{first}");
}

#[test]
fn missing_interpreters_are_named() {
    let folder = folder("interpreter");
    let named =
        |message: &str, file: &str| format!("{file}: its interpreter, which its first line names (#!), {message}");
    let file = executable(&folder.join("python"), b"#!/no/such/python3 -u\nprint()\n");
    assert_refused(&["run", &file], NOT_FOUND, &named("is missing: /no/such/python3", &file));
    assert_refused(&["compare", &file], NOT_FOUND, &named("is missing: /no/such/python3", &file));
    let data = write(&folder.join("data"), b"");
    let file = executable(&folder.join("refused"), format!("#! {data}\n").as_bytes());
    let message = format!("is not executable (permission denied): {data}");
    assert_refused(&["run", &file], NOT_EXECUTABLE, &named(&message, &file));
    let file = executable(&folder.join("folder"), b"#!/tmp\n");
    assert_refused(&["run", &file], NOT_EXECUTABLE, &named("is a directory: /tmp", &file));
}

/// The header of a 64-bit binary for a machine, with the name of a loader.
fn binary(machine: u8, loader: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64 + 56];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    // An executable with one program header at 64, of 56 bytes: PT_INTERP with the bytes behind it.
    for (at, value) in [(16, 2), (18, machine), (20, 1), (32, 64), (52, 64), (54, 56), (56, 1), (64, 3), (72, 120)] {
        bytes[at] = value;
    }
    bytes[96] = u8::try_from(loader.len() + 1).expect("a short name");
    bytes.extend(loader.bytes().chain([0]));
    bytes
}

#[test]
fn missing_loaders_and_other_machines_are_named() {
    const X86_64: u8 = 62;
    const S390: u8 = 22;
    let folder = folder("binaries");
    let (here, other) = if cfg!(target_arch = "s390x") { (S390, X86_64) } else { (X86_64, S390) };
    if cfg!(any(target_arch = "x86_64", target_arch = "s390x")) {
        let file = executable(&folder.join("loader"), &binary(here, "/lib/ld-none.so.1"));
        let message = "its dynamic loader, which the binary names, is missing: /lib/ld-none.so.1";
        assert_refused(&["run", &file], NOT_FOUND, &format!("{file}: {message}"));
    }
    let file = executable(&folder.join("machine"), &binary(other, "/lib/ld-none.so.1"));
    let output = run(&["run", &file]);
    assert_eq!(output.status.code(), Some(NOT_EXECUTABLE));
    let start = format!("lastuse: error: {file}: a binary for another machine (");
    assert!(stderr(&output).starts_with(&start), "{}", stderr(&output));
    let file = executable(&folder.join("text"), b"no interpreter\n");
    let message = "neither a binary nor a script: a script names its interpreter in its first line, such as #!/bin/sh";
    assert_refused(&["run", &file], NOT_EXECUTABLE, &format!("{file}: {message}"));
}

#[test]
fn what_is_no_program_is_named() {
    let folder = folder("no-program");
    let file = write(&folder.join("data"), b"data\n");
    let message = format!("{file}: not executable (permission denied): \"chmod +x {file}\" makes it so");
    assert_refused(&["run", &file], NOT_EXECUTABLE, &message);
    for (name, bytes, what) in [
        ("model.gguf", &b"GGUF\x03\0\0\0"[..], "a model (GGUF)"),
        ("page.html", b"<!doctype html>", "an HTML page"),
        ("graph.jsonl.gz", &graph(), "a graph, which \"lastuse explain\" reads"),
    ] {
        let file = write(&folder.join(name), bytes);
        let message =
            format!("{file}: this is {what}, not a program: give the program that uses it, and its arguments");
        assert_refused(&["run", &file, "-p", "Hello"], NOT_EXECUTABLE, &message);
    }
    let place = text(&folder);
    assert_refused(&["run", place], NOT_EXECUTABLE, &format!("{place}: is a directory"));
}

#[test]
fn missing_programs_are_told_by_their_folder() {
    let folder = folder("missing");
    let (missing, inside) = (folder.join("nowhere"), folder.join("nowhere/program"));
    let message = format!("{}: no such program: there is no folder {}", inside.display(), missing.display());
    assert_refused(&["run", text(&inside)], NOT_FOUND, &message);
    let file = folder.join("program");
    assert_refused(&["run", text(&file)], NOT_FOUND, &format!("{}: no such program", file.display()));
    let data = write(&folder.join("data"), b"");
    let message = format!("{data}/program: no such program: {data} is not a folder");
    assert_refused(&["run", &format!("{data}/program")], NOT_FOUND, &message);
    symlink("gone", &file).expect("the target folder can be written to");
    let message = format!("{}: a link to gone, which is missing", file.display());
    assert_refused(&["run", text(&file)], NOT_FOUND, &message);
    executable(&folder.join("no-such-program-anywhere"), b"#!/bin/sh\n");
    let output = command(&["run", "no-such-program-anywhere"]).current_dir(&folder).output().expect("the tool starts");
    let message = "no-such-program-anywhere: no such program in the folders of PATH; the file in this folder is \
                   ./no-such-program-anywhere";
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(NOT_FOUND), format!("lastuse: error: {message}\n").as_str())
    );
}

/// For a folder that may not be searched. The superuser may search all, and sees its content.
#[test]
fn folders_without_permission_are_named() {
    let closed = folder("closed");
    let program = executable(&closed.join("program"), b"#!/bin/sh\n");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("mine");
    let may_search = fs::metadata(&program).is_ok();
    let output = run(&["run", &program]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("mine");
    if may_search {
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    } else {
        let message = format!("lastuse: error: {program}: no permission to search the folder {}\n", closed.display());
        assert_eq!((output.status.code(), stderr(&output)), (Some(NOT_EXECUTABLE), message.as_str()));
    }
}

#[test]
fn files_of_reports_have_known_endings() {
    let folder = folder("endings");
    let touched = folder.join("touched");
    let refused = |options: &[&str], message: &str| {
        let words = [&["run"], options, &["--", "touch", text(&touched)]].concat();
        assert_refused(&words, FAILED, message);
        assert!(!touched.exists(), "{options:?}");
    };
    let endings = ".html, .htm, .json, .txt: rename the output";
    refused(&["--accounting=map.svg"], &format!("--accounting: \"map.svg\" ends in none of {endings}"));
    refused(&["-o", "table.csv"], "--output: \"table.csv\" ends neither in .json nor in .txt: rename the output");
    refused(&["--json", "-o", "table.txt"], "--json writes to a file that ends in .json, not in .txt");
    let message = "--capture: \"%s.graph\" ends neither in .jsonl nor in .jsonl.gz: rename the output";
    refused(&["--capture", "%s.graph"], message);
    let message = "--capture: \"all.jsonl\" has no %s: name a folder, or files such as graphs/%s.jsonl.gz";
    refused(&["--capture", "all.jsonl"], message);
    let file = folder.join("report.json");
    assert_eq!(run(&["run", "-o", text(&file), "true"]).status.code(), Some(0));
    let report = fs::read_to_string(&file).expect("it was written");
    assert!(report.starts_with('{') && report.contains("\"program\":\"true\""), "{report}");
}

/// By an option or by the variable, the file is not preloaded, and the program does not start.
#[test]
fn files_that_are_not_the_library_are_refused() {
    let folder = folder("library");
    let (touched, place) = (folder.join("touched"), text(&folder));
    let other = write(&folder.join("other.so"), b"\x7fELF");
    let none = format!("{place}/none.so");
    let cases = [
        ("/etc/passwd", "it is not the library of lastuse"),
        (&other, "it is not the library of lastuse"),
        (place, "it is a folder"),
        (&none, "no such file"),
    ];
    for (file, why) in cases {
        let told = format!("lastuse: error: the library {file} cannot be used: {why}\n");
        for name in ["run", "compare"] {
            let program = ["touch", text(&touched)];
            let by_option = run(&[&[name, "--library", file], &program[..]].concat());
            let mut by_variable = command(&[&[name], &program[..]].concat());
            let by_variable = by_variable.env("LASTUSE_LIBRARY", file).output().expect("the tool starts");
            for output in [by_option, by_variable] {
                assert_eq!((output.status.code(), stderr(&output)), (Some(FAILED), told.as_str()), "{name}");
            }
            assert!(!touched.exists(), "{name} {file}");
        }
    }
}

/// The program does not get the variable, so lastuse could not tell in ggml's log.
#[test]
fn unknown_words_of_the_switch_are_told() {
    let told = |word: &str| {
        let output = command(&["run", "true"]).env("LASTUSE", word).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output).lines().next().unwrap_or_default().to_owned()
    };
    let message = "lastuse: LASTUSE has no effect: \"maybe\" is unknown; expected on, 1, true, yes, off, 0, false, no";
    assert_eq!(told("maybe"), message);
    assert!(told("on").starts_with("lastuse: true exited normally"), "{}", told("on"));
}

#[test]
fn folders_of_outputs_are_empty_or_new() {
    let folder = folder("output-folders");
    let file = write(&folder.join("file"), b"");
    let what = "is not empty, and files in it could be taken for those of this run";
    let message = format!("{}: {what}: name an empty or new folder with --dump-dir", folder.display());
    assert_refused(&["run", "--dump", "a", "--dump-dir", text(&folder), "true"], FAILED, &message);
    let message = format!("{file}: cannot be written: it is a file, not a folder");
    for options in [&["--dump", "a", "--dump-dir", &file][..], &["--capture", &file]] {
        assert_refused(&[&["run"], options, &["true"]].concat(), FAILED, &message);
    }
}
