//! What `lastuse run` and `lastuse compare` tell of a real program: sizes, graphs, devices, verification, spreads.

use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::sync::OnceLock;

use crate::support;
use crate::support::llama_style;
use crate::support::tool::{self, command, stderr, stdout};
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::{Package, target_folder};
use serde_json::{Value, json};

/// An unmodified language model on a shared ggml.
fn model() -> &'static str {
    static MODEL: OnceLock<Program> = OnceLock::new();
    let build = || llama_style::build("run-report", Package::LlamaCpp, Linked::SharedGgml);
    MODEL.get_or_init(build).path().to_str().expect("a path in UTF-8")
}

/// Runs the model with options of `lastuse run`.
fn run(options: &[&str]) -> Output {
    let output = command(&[&["run"], options, &[model()], llama_style::SMALL].concat()).output();
    let output = output.expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
    output
}

fn report(options: &[&str]) -> Value {
    let output = run(&[&["--json"], options].concat());
    tool::report(&output)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The words of the line below the titles of a table.
fn first_row<'t>(text: &'t str, titles: &str) -> Vec<&'t str> {
    let row = text.lines().skip_while(|line| !line.starts_with(titles)).nth(1);
    row.unwrap_or_else(|| panic!("there is no {titles:?}: {text}")).split_whitespace().collect()
}

#[test]
fn sizes_are_in_mib_or_in_bytes() {
    let [in_mib, in_bytes] = [run(&["--report"]), run(&["--report", "--bytes"])];
    let [in_mib, in_bytes] = [stderr(&in_mib), stderr(&in_bytes)];
    let bytes = first_row(in_bytes, "allocator ");
    let [size, bound, ggml] = [3, 4, 5].map(|column| bytes[column].parse::<f64>().expect("bytes"));
    assert!(bound <= size && size < ggml, "something is saved:\n{in_bytes}");
    let expected = [size, bound, ggml].map(|bytes| format!("{:.2}", bytes / 1_048_576.0));
    let row = first_row(in_mib, "allocator ");
    assert_eq!(row[3..6], expected.each_ref().map(String::as_str), "{in_mib}");
    let saved = format!("{:.1} %", 100.0 * (1.0 - size / ggml));
    assert_eq!([row[6..8].join(" "), bytes[6..8].join(" ")], [saved.clone(), saved], "{in_mib}{in_bytes}");
    for (text, unit) in [(in_mib, "MiB"), (in_bytes, "bytes")] {
        let peak = text.lines().next().and_then(|line| line.split_once("; peak resident memory "));
        let (peak, found) = peak.and_then(|(_, peak)| peak.split_once(' ')).unwrap_or_else(|| panic!("{text}"));
        assert!(peak.parse::<f64>().is_ok_and(|peak| peak > 0.0) && found == unit, "{text}");
        assert!(text.contains(&format!("\ndevice, {unit} ")), "{text}");
    }
}

#[test]
fn there_is_one_table_unless_more_is_asked_for() {
    let tables = |options: &[&str]| {
        let output = run(options);
        let text = stderr(&output).to_owned();
        assert!(!text.contains('\x1b'), "no terminal: {text:?}");
        let count = |titles: &str| text.lines().filter(|line| line.starts_with(titles)).count();
        [count("device, MiB "), count("allocator  buffer"), count("allocator 1 planned ")]
    };
    assert_eq!(tables(&[]), [1, 0, 0]);
    assert_eq!(tables(&["--report"]), [1, 1, 1]);
    // Nothing is known of devices then.
    assert_eq!(tables(&["--off"]), [0, 1, 0]);
}

#[test]
fn graphs_are_told_by_their_tokens() {
    let text = run(&["--report"]);
    assert!(stderr(&text).contains("\nallocator 1 planned 2 graphs: 64 tokens ("), "{}", stderr(&text));
    let graphs = &report(&[])["allocators"][0]["graphs"];
    let labels: Vec<&Value> = graphs.as_array().expect("graphs").iter().map(|graph| &graph["label"]).collect();
    assert_eq!(labels, [&json!("64 tokens"), &json!("1 token")]);
    assert!(number(&graphs[0]["nodes"]) > 10, "{graphs}");
}

#[test]
fn devices_are_listed_with_weights_caches_and_others() {
    let report = report(&[]);
    let device = &report["devices"][0];
    assert_eq!(device["name"], "CPU", "{report}");
    let classes = ["weights", "kv", "compute", "other", "rounding"].map(|class| number(&device[class]));
    assert_eq!(classes.iter().sum::<u64>(), number(&device["total"]), "{device}");
    assert!(classes[0] > 0 && classes[1] > 0, "{device}");
    let buffer = number(&report["allocators"][0]["buffers"][0]["bytes"]);
    assert!(classes[2] <= buffer && buffer <= classes[2] + classes[4], "bytes of no tensor are rounding: {report}");
    let output = run(&["--bytes"]);
    let text = stderr(&output);
    let row = first_row(text, "device, bytes ");
    assert_eq!(row.last(), Some(&number(&device["total"]).to_string().as_str()), "{text}");
    assert!(!text.contains("\nbuffer  device"), "the tables of --accounting are not asked for:\n{text}");
}

#[test]
fn accounting_of_the_user_is_left_alone() {
    let folder = target_folder().join("c-tests/run-report-files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let file: PathBuf = folder.join("memory.json");
    let words = [&["run", model()], llama_style::SMALL].concat();
    let output = command(&words).env("LASTUSE_ACCOUNTING", &file).output().expect("the tool starts");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(file.exists() && !stderr(&output).contains("device, MiB"), "{}", stderr(&output));
}

#[test]
fn verification_tells_what_it_checked() {
    let graphs_of = |mode: &str| {
        let report = report(&[&*format!("--verify={mode}")]);
        let found = &report["verification"];
        assert_eq!((&found["mode"], &found["defects"]), (&json!(mode), &json!(0)), "{found}");
        assert_eq!(found["plans"], report["allocators"][0]["plans"], "{report}");
        number(&found["graphs"])
    };
    let graphs = graphs_of("plan");
    // The prompt and four tokens, at least.
    assert!(graphs >= 5, "{graphs} graphs");
    assert_eq!(graphs_of("memory"), graphs);
    let text = run(&["--verify"]);
    let line = format!("\nverification: 2 plans, {graphs} graphs: no defect\n");
    assert!(stderr(&text).contains(&line), "{}", stderr(&text));
    let text = run(&["--verify=memory"]);
    let line = format!("\nverification: 2 plans, {graphs} graphs, and what each operation wrote: no defect\n");
    assert!(stderr(&text).contains(&line), "{}", stderr(&text));
    assert_eq!(report(&[])["verification"], Value::Null, "nothing was asked for");
}

#[test]
fn names_that_retain_nothing_are_told() {
    let told = |names: &str| {
        let output = run(&["--retain", names]);
        let line = format!("\nlastuse: --retain: no tensor of a planned graph has a name like {names:?}; ");
        stderr(&output).contains(&line)
    };
    assert!(told("no such name"));
    assert!(!told("*"));
    let retained = |names: &str| number(&report(&["--retain", names])["retained"]);
    assert!(retained("*") > 0 && retained("no such name") == 0);
    assert_eq!(report(&[])["retained"], Value::Null, "nothing was asked for");
}

#[test]
fn graphs_of_earlier_runs_are_told() {
    let folder = target_folder().join("c-tests/run-report-captures");
    let _ = fs::remove_dir_all(&folder);
    let captured = |more: &[&str]| {
        let output = run(&[&["--capture", folder.to_str().expect("UTF-8")], more].concat());
        stderr(&output).lines().last().unwrap_or_default().to_owned()
    };
    let (first, other) = (captured(&[]), captured(&["--rules", "ggml"]));
    assert!(first.starts_with("capture: 2 graphs in ") && !first.contains("earlier"), "{first}");
    assert!(other.starts_with("capture: 2 new graphs in "), "{other}");
    assert!(other.contains(", beside 2 of earlier runs, which \"explain\" and \"draw\" read too"), "{other}");
}

#[test]
fn budgets_that_are_not_met_are_told() {
    let of = |option: &str, bytes: &str| {
        let budgets = report(&[option, bytes])["budgets"].clone();
        let text = stderr(&run(&[option, bytes])).to_owned();
        (budgets, text)
    };
    let (budgets, text) = of("--budget", "1");
    let least = number(&budgets[0]["after"]);
    assert_eq!((&budgets[0]["buffer"], &budgets[0]["budget"]), (&json!("CPU"), &json!(1)), "{budgets}");
    assert!(text.contains("\nlastuse: --budget: 0.00 MiB are not met on CPU: ") && least > 1, "{text}");
    let (budgets, text) = of("--budget", "1GiB");
    assert!(!text.contains("not met") && number(&budgets[0]["after"]) <= 1 << 30, "{budgets} {text}");
    let (budgets, text) = of("--recompute", "1");
    assert_eq!(budgets, Value::Null);
    assert!(text.contains("\nlastuse: --recompute: the program has planned no graph of a training"), "{text}");
    let compared =
        command(&[&["compare", "--runs", "1", "--budget", "1", model()], llama_style::SMALL].concat()).output();
    let compared = compared.expect("the tool starts");
    assert!(stdout(&compared).contains("\nlastuse: --budget: 0.00 MiB are not met on CPU: "), "{}", stdout(&compared));
}

#[test]
fn json_has_a_line_of_its_own() {
    let output = command(&["run", "--json", "printf", "no end of line"]).output().expect("the tool starts");
    let text = stdout(&output);
    assert!(text.starts_with("no end of line\n{") && tool::report(&output)["program"] == "printf", "{text}");
}

/// The program hands a function to ggml that writes into a weight.
#[test]
fn verification_that_ends_a_program_claims_nothing() {
    let ggml = support::ggml(Package::LlamaCpp);
    let built =
        Program::build("run-report-fault", &["tests/support/plain_scheduler.c"], &ggml, Linked::SharedGgml, &[]);
    let program = support::expect(built);
    let output = command(&["run", "--verify=memory", program.path().to_str().expect("UTF-8"), "fault"]).output();
    let output = output.expect("the tool starts");
    assert_eq!(output.status.code(), Some(128 + 6), "{}", stderr(&output));
    let line = "\nverification: the program did not run to its end; a defect that was found is told above\n";
    assert!(stderr(&output).contains(line) && !stderr(&output).contains("no defect"), "{}", stderr(&output));
    let unknown = "\nlastuse: what each device held is unknown: the program was killed before it could report it\n";
    assert!(stderr(&output).contains(unknown), "{}", stderr(&output));
    let off = run(&["--off"]);
    assert!(
        stderr(&off).contains("\nlastuse: with --off, only the buffers of allocators are known; "),
        "{}",
        stderr(&off)
    );
}

#[test]
fn compare_tells_spreads_and_noise() {
    let words = [&["compare", "--runs", "3", model()], llama_style::SMALL].concat();
    let output = command(&words).output().expect("the tool starts");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let table = stdout(&output);
    let lines: Vec<&str> = table.lines().collect();
    let titles: Vec<&str> = lines[1].split("  ").map(str::trim).filter(|title| !title.is_empty()).collect();
    assert_eq!(titles, ["ggml-alloc", "min to max", "lastuse", "min to max", "ratio", "difference"], "{table}");
    let buffers: Vec<&str> = lines[2].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let [ggml, lastuse] = [1, 3].map(|column| buffers[column].parse::<f64>().expect("bytes"));
    assert_eq!((buffers[2], buffers[4]), ("-", "-"), "each run plans the same: {table}");
    assert_eq!(buffers[6], format!("{:.2} MiB less", (ggml - lastuse) / 1_048_576.0), "{table}");
    let time: Vec<&str> = lines[4].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert!(time[2].contains(" to ") && time[4].contains(" to "), "{table}");
}

#[test]
fn largest_graph_is_explained_in_one_command() {
    let output = run(&["--explain"]);
    let text = stderr(&output);
    let explanation = text.split_once("\n64 tokens (written by lastuse ").map_or("", |(_, explanation)| explanation);
    assert!(explanation.contains("\nBuffer 0, CPU: ") && explanation.contains("\n  Peak: step "), "{text}");
    let report = report(&["--explain"]);
    let buffer = &report["explanation"]["buffers"][0];
    assert_eq!(buffer["size"], report["allocators"][0]["buffers"][0]["bytes"], "the plan of the program: {report}");
    let output = command(&["run", "--explain", "--json", "true"]).output().expect("the tool starts");
    let report = tool::report(&output);
    assert_eq!(report["explanation"], Value::Null, "the program planned no graph");
}

#[test]
fn graphs_of_a_page_are_named_by_program_number_and_tokens() {
    let folder = target_folder().join("c-tests/run-report-page");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let page = folder.join("memory.html");
    run(&[&format!("--accounting={}", page.display())]);
    let text = fs::read_to_string(&page).expect("it was drawn");
    assert!(
        text.contains("run-report, graph ") && text.contains(": 64 tokens") && !text.contains("written by lastuse"),
        "the labels differ"
    );
}

/// Two schedulers in turns take the bytes of the larger one together, and the report says so.
#[test]
fn an_arena_is_told_with_what_it_saves() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("two-schedulers", "tests/tool/two_schedulers.c", &ggml, Linked::SharedGgml);
    let path = program.path().to_str().expect("a path in UTF-8");
    let run = |options: &[&str]| {
        let output = command(&[&["run"], options, &[path]].concat()).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
        output
    };
    let json = |options: &[&str]| -> (Vec<u64>, Value) {
        let output = run(&[&["--json"], options].concat());
        let report = tool::report(&output);
        let rows = report["allocators"].as_array().expect("a list").clone();
        (rows.iter().map(|row| number(&row["buffers"][0]["bytes"])).collect(), rows[0]["buffers"][0]["alone"].clone())
    };
    let (apart, none) = json(&[]);
    let (shared, alone) = json(&["--arena"]);
    assert_eq!((shared.iter().sum::<u64>(), none), (apart[0], Value::Null), "{shared:?} of {apart:?}");
    assert_eq!(number(&alone), apart[0]);
    let text = run(&["--arena"]);
    assert!(
        stderr(&text).contains("\narena: allocators 1, 2 share 1.00 MiB; each with its own they would have 1.12 MiB"),
        "{}",
        stderr(&text)
    );
    assert_eq!(stdout(&text), stdout(&run(&["--off"])));

    // A program that keeps to the rules passes, and one that does not is ended.
    assert_eq!(stdout(&run(&["--arena", "--verify=memory"])), stdout(&text));
    let late = command(&["run", "--arena", "--verify=memory", path, "late"]).output().expect("the tool starts");
    assert_ne!(late.status.code(), Some(0), "{}", stderr(&late));
    let told = "a result is read after another context has computed: \"large\" (SUM) of the graph of 4 nodes";
    assert!(stderr(&late).contains(told), "{}", stderr(&late));
}

/// So do those on a device that computes while the program goes on: the guard tells whose turn it is.
#[test]
fn schedulers_of_a_device_share_an_arena() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = support::build("two-devices", "tests/tool/two_devices.c", &ggml, Linked::SharedGgml);
    let path = program.path().to_str().expect("a path in UTF-8");
    let bytes = |options: &[&str]| -> u64 {
        let output = command(&[&["run"], options, &[path]].concat()).output().expect("the tool starts");
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
        let text = stdout(&output);
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).expect("a line with it");
        assert_eq!(value("wrong="), "0", "{options:?}: {text}");
        assert_eq!(stderr(&output).contains("\narena: allocators 1, 2 share "), options == ["--arena"], "{text}");
        value("bytes=").parse().expect("a number")
    };
    let apart = bytes(&[]);
    assert_eq!(bytes(&["--arena"]) * 5, apart * 4, "a quarter is the smaller one's: {apart}");
}
