//! Wrong command lines: each is told what is wrong, in words of the tool, with an exit code that says whose it is.

use super::{folder, run, write};
use crate::support::tool;

/// `run` and `compare` have the exit code of a program, and 125 for whatever goes wrong before one runs; all others, and `compare`
/// of files, have 2 for a wrong command line and 1 for wrong files.
const CASES: [(i32, &str, &str); 110] = [
    (2, "nosuch", "unrecognized subcommand 'nosuch'"),
    (
        2,
        "./llama-cli -m x",
        "\"./llama-cli\" is not a command of lastuse; to run that program: lastuse run ./llama-cli",
    ),
    (2, "-v", "unexpected argument '-v'"),
    (2, "--verbose", "unexpected argument '--verbose'"),
    (2, "pla GRAPH", "unrecognized subcommand 'pla'"),
    (2, "plan", "the following required arguments were not provided"),
    (2, "plan --effort x GRAPH", "invalid value 'x' for '--effort <UNITS>': not a whole number"),
    (2, "plan --effort 1e9 GRAPH", "invalid value '1e9' for '--effort <UNITS>': not a whole number"),
    (2, "plan --effort -1 GRAPH", "invalid value '-1' for '--effort <UNITS>': not a whole number"),
    (2, "plan --effort 99999999999999999999 GRAPH", "invalid value '99999999999999999999' for '--effort"),
    (2, "plan --effort", "a value is required for '--effort <UNITS>'"),
    (2, "plan --rules bogus GRAPH", "invalid value 'bogus' for '--rules <RULES>': unknown rule \"bogus\""),
    (2, "plan --rule all GRAPH", "unexpected argument '--rule'"),
    (2, "plan -v GRAPH", "unexpected argument '-v'"),
    (2, "plan --steps 0 GRAPH", "invalid value '0' for '--steps <K>': not a whole number from 1"),
    (2, "plan --steps x GRAPH", "invalid value 'x' for '--steps <K>': not a whole number from 1"),
    (2, "plan --steps 2 --json GRAPH", "the argument '--steps <K>' cannot be used with"),
    (2, "plan --tile much GRAPH", "invalid value 'much' for '--tile <BUDGET>': \"much\" is not a budget"),
    (2, "plan --tile -5 GRAPH", "invalid value '-5' for '--tile <BUDGET>': \"-5\" is not a budget"),
    (2, "plan --tile 1.G GRAPH", "invalid value '1.G' for '--tile <BUDGET>': \"1.G\" is not a budget"),
    (2, "plan --tile 40%% GRAPH", "invalid value '40%%' for '--tile <BUDGET>'"),
    (2, "plan --tile-threads 2 GRAPH", "the following required arguments were not provided"),
    (2, "plan --recompute nan% GRAPH", "invalid value 'nan%' for '--recompute <BUDGET>'"),
    (2, "plan --reorder-effort 5 GRAPH", "the following required arguments were not provided"),
    (2, "plan --retain a,,b GRAPH", "invalid value 'a,,b' for '--retain <NAMES>'"),
    (2, "plan --budget 1G GRAPH", "unexpected argument '--budget'"),
    (1, "plan nowhere.jsonl", "nowhere.jsonl: no such file"),
    (1, "plan JUNK", "JUNK: line 1: this is not a lastuse graph file"),
    (1, "plan OBJECT", "OBJECT: line 1: this is not a lastuse graph file"),
    (1, "plan MODEL", "MODEL: this is a model (GGUF), not a graph"),
    (1, "plan /bin/sh", "/bin/sh: this is a program"),
    (2, "explain", "the following required arguments were not provided"),
    (2, "explain --top x GRAPH", "invalid value 'x' for '--top <N>': not a whole number"),
    (2, "explain --top -1 GRAPH", "invalid value '-1' for '--top <N>': not a whole number"),
    (2, "explain --top 1.5 GRAPH", "invalid value '1.5' for '--top <N>': not a whole number"),
    (1, "explain JUNK", "JUNK: line 1: this is not a lastuse graph file"),
    (1, "explain nowhere", "nowhere: no such file"),
    (2, "draw GRAPH", "the following required arguments were not provided"),
    (2, "draw GRAPH -o x.png", "\"x.png\" ends neither in .svg nor in .html"),
    (2, "draw GRAPH -o x", "\"x\" ends neither in .svg nor in .html"),
    (2, "draw GRAPH -o x.svg --format gif", "invalid value 'gif' for '--format <FORMAT>'"),
    (2, "check GRAPH", "the following required arguments were not provided"),
    (1, "check GRAPH GRAPH", "GRAPH: line 1: the format is \"lastuse-graph\", and \"lastuse-plan\" is expected"),
    (1, "check GRAPH JUNK", "JUNK: line 1: this is not a lastuse plan file"),
    (1, "check JUNK JUNK", "JUNK: line 1: this is not a lastuse graph file"),
    (1, "check nowhere JUNK", "nowhere: no such file"),
    (2, "convert GRAPH", "the following required arguments were not provided"),
    (2, "convert GRAPH -o x.txt", "\"x.txt\" ends in none of"),
    (1, "convert JUNK -o x.csv", "JUNK: line 1: this is not a lastuse graph file"),
    (2, "convert BLOCKS -o x.csv", "BLOCKS: this is a placement problem already"),
    (2, "convert --tile 50% BLOCKS -o x.jsonl", "BLOCKS: --buffer, --rules, --recompute and --tile are for graphs"),
    (2, "plan --rules ggml BLOCKS", "BLOCKS: --rules and --reorder are for graphs"),
    (2, "plan --reorder BLOCKS", "BLOCKS: --rules and --reorder are for graphs"),
    (1, "accounting FOLDER", "FOLDER: is a directory: give the files in it"),
    (1, "reach FOLDER", "FOLDER: is a directory: give the program"),
    (125, "run --live=99999 true", "invalid value '99999' for '--live[=<PORT>]': \"99999\" is not a port"),
    (125, "compare --budget 10X true", "invalid value '10X' for '--budget <BYTES>': \"10X\" is not a budget"),
    (2, "convert --recompute 1 GRAPH -o x.csv", "--recompute writes a graph: name the output *.jsonl"),
    (2, "convert --tile 1 nowhere.jsonl -o x.csv", "--tile writes a graph: name the output *.jsonl"),
    (2, "convert --buffer CPU GRAPH -o x.jsonl", "--buffer and --rules are for the live ranges of a graph"),
    (2, "offload GRAPH --device", "a value is required for '--device"),
    (2, "offload GRAPH --device gpu", "invalid value 'gpu' for '--device"),
    (2, "offload GRAPH --device gpu=", "invalid value 'gpu=' for '--device"),
    (2, "offload GRAPH --device gpu=lots", "invalid value 'gpu=lots' for '--device"),
    (2, "offload GRAPH --device gpu=-1G", "invalid value 'gpu=-1G' for '--device"),
    (2, "offload GRAPH --device gpu=1G,fast=yes", "invalid value 'gpu=1G,fast=yes' for '--device"),
    (2, "offload GRAPH --device gpu=2GiB,alignment=3", "invalid value 'gpu=2GiB,alignment=3' for '--device"),
    (2, "offload GRAPH --device gpu=2GiB,reserve=3GiB", "invalid value 'gpu=2GiB,reserve=3GiB' for '--device"),
    (2, "offload GRAPH --device gpu=2GiB,granularity=0", "invalid value 'gpu=2GiB,granularity=0' for '--device"),
    (2, "offload GRAPH --device cpu=2GiB", "there is no device besides \"cpu\""),
    (2, "offload GRAPH --device gpu=1G --device gpu=2G", "the device \"gpu\" is given twice"),
    (1, "offload JUNK --device gpu=1G", "JUNK: line 1: this is not a lastuse graph file"),
    (2, "neurons --bytes lots x.npy", "invalid value 'lots' for '--bytes"),
    (2, "neurons --granule 0 x.npy", "invalid value '0' for '--granule"),
    (2, "neurons --granule x x.npy", "invalid value 'x' for '--granule"),
    (2, "accounting", "the following required arguments were not provided"),
    (1, "accounting nowhere.json", "nowhere.json: no such file"),
    (2, "reach", "the following required arguments were not provided"),
    (2, "completions", "the following required arguments were not provided"),
    (2, "completions ksh", "invalid value 'ksh' for '<SHELL>'"),
    (2, "man nosuch", "there is no command \"nosuch\""),
    (2, "man plan -o DIR", "the argument '[COMMAND]' cannot be used with"),
    (2, "enable ../x", "invalid value '../x' for '<UNIT>': not the name of a unit"),
    (2, "disable x.timer", "invalid value 'x.timer' for '<UNIT>': it runs no program: name the service, such as x"),
    (125, "run", "the following required arguments were not provided"),
    (125, "run --nosuch true", "unexpected argument '--nosuch'"),
    (125, "run --rules bogus true", "--rules: unknown rule \"bogus\""),
    (125, "run --effort x true", "invalid value 'x' for '--effort <UNITS>': not a whole number"),
    (125, "run --budget 10X true", "invalid value '10X' for '--budget <BYTES>': \"10X\" is not a budget"),
    (125, "run --on-demand=some true", "invalid value 'some' for '--on-demand"),
    (125, "run --arena=mine true", "invalid value 'mine' for '--arena"),
    (125, "run --recycle=foo true", "--recycle: \"foo\" is not a limit; expected bytes and seconds"),
    (125, "run --recycle=1GiB,abc true", "--recycle: \"1GiB,abc\" is not a limit"),
    (125, "run --verify=all true", "invalid value 'all' for '--verify"),
    (125, "run --dump a,,b true", "--dump: pattern 2 of \"a,,b\" is empty"),
    (125, "run --dump-dir x true", "the following required arguments were not provided"),
    (125, "run -o x.foo true", "--output: \"x.foo\" ends neither in .json nor in .txt"),
    (125, "run --json -o x.txt true", "--json writes to a file that ends in .json"),
    (127, "run nosuch-program", "nosuch-program: no such program"),
    (
        127,
        "run --on-demand compute ls",
        "compute: no such program in the folders of PATH; did you mean --on-demand=compute?",
    ),
    (126, "run JUNK", "JUNK: not executable"),
    (125, "compare", "the following required arguments were not provided"),
    (125, "compare --bytes true", "--bytes is for two files, and \"true\" is a program"),
    (2, "compare GRAPH", "1 file given: compared are two accountings"),
    (2, "compare --runs 2 GRAPH GRAPH", "--runs is for running a program, and files are compared"),
    (1, "compare GRAPH JUNK", "JUNK: line 1: this is not a lastuse graph file"),
    (1, "compare MODEL GRAPH", "MODEL: this is a model (GGUF): compared are two accountings"),
    (1, "compare GRAPH nowhere.jsonl", "nowhere.jsonl: no such file"),
    (125, "compare --runs 0 true", "invalid value '0' for '--runs <N>': not a whole number from 1"),
    (125, "compare --runs x true", "invalid value 'x' for '--runs <N>': not a whole number from 1"),
];

/// What only the authors of a tool understand.
const RAW: [&str; 8] =
    ["invalid digit", "missing field", "(column", "panicked", "ParseIntError", "..=", "tip: to pass", "os error"];

#[test]
fn wrong_command_lines_are_told_what_is_wrong() {
    let folder = folder("wrong-usage");
    let graph = lastuse_c_tests::folder().join("graphs/llama-8-flash.jsonl.gz");
    let files = [
        ("GRAPH", graph.to_str().expect("UTF-8").to_owned()),
        ("JUNK", write(&folder.join("junk.jsonl"), b"hello\n")),
        ("OBJECT", write(&folder.join("object.jsonl"), b"{\"a\": 1}\n")),
        ("BLOCKS", write(&folder.join("blocks.csv"), b"id,lower,upper,size\n0,0,2,64\n")),
        ("FOLDER", folder.display().to_string()),
        ("MODEL", write(&folder.join("model.gguf"), b"GGUF\x03\0\0\0")),
    ];
    let with_files = |text: &str| files.iter().fold(text.to_owned(), |text, (name, file)| text.replace(name, file));
    let mut wrong = Vec::new();
    for (code, line, message) in CASES {
        let arguments: Vec<String> = line.split(' ').map(with_files).collect();
        let output = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let told = tool::stderr(&output);
        let expected = format!("lastuse: error: {}", with_files(message));
        let is_told = told.starts_with(&expected) && !RAW.iter().any(|raw| told.contains(raw));
        if output.status.code() != Some(code) || !is_told || !output.stdout.is_empty() {
            wrong.push(format!("{line}: {:?}, not {code}: {told}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["--help", "--version", "-V", "run --help", "plan --help"] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((output.status.code(), tool::stderr(&output)), (Some(0), ""), "{line}");
    }
}
