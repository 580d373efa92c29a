//! Whether calls of ggml's allocator reach lastuse, for ggmls that are built and loaded in different ways: lastuse serves
//! all calls or none, and says which and why.

use std::ffi::OsStr;
use std::path::Path;

use crate::support;
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Ggml, Package, ggml_base_by_clang};

/// How a plugin gets its ggml.
#[derive(Clone, Copy, Debug)]
enum Base {
    /// It is a part of the plugin, which exports its functions.
    Inside,
    /// It is a part of the plugin, which exports only its own functions.
    Hidden,
    /// It is a shared library with a name as in packages of Python.
    Shared,
    /// It is a shared library that calls its own functions without the dynamic linker.
    Symbolic,
    /// It is a shared library that clang has optimized as a whole.
    ByClang,
}

fn llama_cpp() -> Ggml {
    support::ggml(Package::LlamaCpp)
}

/// Builds sources to a plugin with a ggml, and returns its path.
fn plugin(label: &str, sources: &[&str], base: Base) -> String {
    let ggml = llama_cpp();
    let archive = |part: &str| ggml.libraries.join(format!("lib{part}.a")).display().to_string();
    let shared = |name: &str, flags: &[&str]| support::shared_from_archive(name, &ggml, "ggml-base", flags);
    let library = match base {
        Base::Inside | Base::Hidden => archive("ggml-base"),
        Base::Shared => shared("libggml-base-319ad4fb.so.0.26.0", &[]),
        Base::Symbolic => shared("libggml-base-symbolic.so", &["-Wl,-Bsymbolic"]),
        Base::ByClang => {
            let by_clang = support::expect(ggml_base_by_clang(Package::LlamaCpp));
            by_clang.libraries.join("libggml-base.so").display().to_string()
        }
    };
    let folder = Path::new(&library).parent().map(|folder| format!("-Wl,-rpath,{}", folder.display()));
    let (cpu, folder) = (archive("ggml-cpu"), folder.unwrap_or_default());
    let hidden = matches!(base, Base::Hidden).then_some("-Wl,--exclude-libs,ALL");
    let flags: Vec<&str> = [cpu.as_str(), &library, &folder, "-lm", "-DPLUGIN"].into_iter().chain(hidden).collect();
    let name = format!("lib{label}-{base:?}.so").to_lowercase();
    support::expect(Program::build_shared(&name, sources, &ggml, &flags)).display().to_string()
}

fn ggml_plugin(base: Base) -> String {
    plugin("binding-plugin", &["tests/support/ggml_plugin.c"], base)
}

fn host() -> Program {
    support::build("loads", "tests/support/loads.c", &llama_cpp(), Linked::Ggml)
}

fn lastuse() -> String {
    support::release().shared.display().to_string()
}

fn run(program: &Program, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let outcome = support::expect(program.run_with(arguments, variables));
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.describe());
    outcome
}

fn preloaded(arguments: &[&str]) -> Outcome {
    run(&host(), arguments, &[("LD_PRELOAD", OsStr::new(&lastuse()))])
}

/// Returns the lines of the output with this ending of their keys.
fn lines<'a>(outcome: &'a Outcome, key: &str) -> Vec<&'a str> {
    outcome.stdout.lines().filter(|line| line.split_once('=').is_some_and(|(name, _)| name.ends_with(key))).collect()
}

/// Asserts that lastuse serves the allocators that were made last: with the same results, in less memory.
fn assert_served(outcome: &Outcome, alone: &Outcome, key: &str) {
    assert_eq!(lines(outcome, "_hash"), lines(alone, "_hash"), "{}", outcome.describe());
    let bytes = |outcome: &Outcome| outcome.value(key).and_then(|bytes| bytes.parse::<u64>().ok());
    assert!(bytes(outcome).is_some() && bytes(outcome) < bytes(alone), "{}{}", outcome.describe(), alone.describe());
    assert!(outcome.value("enabled").is_none_or(|enabled| enabled == "1"), "{}", outcome.describe());
    assert_eq!(outcome.stderr, "");
}

/// Asserts that ggml's own allocator does all work, and that lastuse says why.
fn assert_not_served(outcome: &Outcome, alone: &Outcome, why: &str) {
    for key in ["_hash", "_bytes"] {
        assert_eq!(lines(outcome, key), lines(alone, key), "{}", outcome.describe());
    }
    assert_eq!(outcome.value("enabled"), Some("0"), "{}", outcome.describe());
    let error = outcome.value("error").unwrap_or_default();
    assert!(error.starts_with("lastuse_enabled: ") && error.contains(why), "{}", outcome.describe());
}

#[test]
fn ggmls_that_call_through_the_dynamic_linker_are_served() {
    for base in [Base::Inside, Base::Shared] {
        let plugin = ggml_plugin(base);
        let alone = run(&host(), &[&plugin], &[]);
        for mode in ["", "lazy:", "global:"] {
            assert_served(&preloaded(&[&format!("{mode}{plugin}")]), &alone, "late_bytes");
        }
        let early = run(&host(), &[&format!("global:{}", lastuse()), &plugin], &[]);
        assert_served(&early, &alone, "late_bytes");
    }
}

/// clang replaces the calls of some functions by the functions, and an allocator of lastuse would come to ggml's code.
#[test]
fn ggml_that_is_bound_in_part_gets_its_own_allocator() {
    let plugin = ggml_plugin(Base::ByClang);
    let alone = run(&host(), &[&plugin], &[]);
    for mode in ["", "lazy:"] {
        let outcome = preloaded(&[&format!("{mode}{plugin}")]);
        assert_not_served(&outcome, &alone, "has its calls of ggml_gallocr_reserve_n inlined");
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.describe());
        assert!(outcome.stderr.contains("calls of ggml_gallocr_reserve_n inlined"), "{}", outcome.describe());
    }
}

/// Calls of the plugin itself go through the dynamic linker, those of its scheduler do not.
#[test]
fn symbolic_ggml_is_served_where_it_calls_through_the_dynamic_linker() {
    let plugin_of_both = ggml_plugin(Base::Symbolic);
    let alone = run(&host(), &[&plugin_of_both], &[]);
    assert_served(&preloaded(&[&plugin_of_both]), &alone, "late_bytes");
    let of_scheduler = plugin("binding-scheduler", &["tests/support/plain_scheduler.c"], Base::Symbolic);
    let alone = run(&host(), &[&of_scheduler], &[]);
    let outcome = preloaded(&[&of_scheduler]);
    assert_eq!(outcome.value("sum"), alone.value("sum"));
    assert_not_served(&outcome, &alone, "-Bsymbolic");
}

#[test]
fn hidden_ggml_is_no_ggml() {
    let plugin = ggml_plugin(Base::Hidden);
    let alone = run(&host(), &[&plugin], &[]);
    assert_not_served(&preloaded(&[&plugin]), &alone, "no ggml is loaded");
}

/// Allocators that were made before, and those that are made later, are ggml's own.
#[test]
fn library_that_is_loaded_too_late_says_so() {
    let lastuse = format!("global:{}", lastuse());
    for base in [Base::Inside, Base::Shared] {
        let plugin = ggml_plugin(base);
        let alone = run(&host(), &[&plugin], &[]);
        for (mode, why) in [("", "were bound before liblastuse was loaded"), ("lazy:", "before liblastuse")] {
            let outcome = run(&host(), &[&format!("{mode}{plugin}"), &lastuse], &[]);
            assert_not_served(&outcome, &alone, why);
        }
    }
}

#[test]
fn library_that_is_loaded_locally_says_so() {
    let plugin = ggml_plugin(Base::Inside);
    let alone = run(&host(), &[&plugin], &[]);
    assert_not_served(&run(&host(), &[&lastuse(), &plugin], &[]), &alone, "RTLD_LOCAL");
}

#[test]
fn ggml_that_finds_its_own_functions_first_is_left_alone() {
    for base in [Base::Inside, Base::Shared] {
        let plugin = ggml_plugin(base);
        let alone = run(&host(), &[&plugin], &[]);
        for mode in ["deep:", "deep:lazy:"] {
            assert_not_served(&preloaded(&[&format!("{mode}{plugin}")]), &alone, "RTLD_DEEPBIND");
        }
    }
}

/// The report has the reason, for those who do not see the log.
#[test]
fn reports_say_why_nothing_was_served() {
    let (deep, in_part) = (format!("deep:{}", ggml_plugin(Base::Shared)), ggml_plugin(Base::ByClang));
    for (argument, why) in
        [(deep, "RTLD_DEEPBIND"), (in_part, "ggml_gallocr_reserve_n"), (ggml_plugin(Base::Shared), "")]
    {
        let report = std::env::temp_dir().join(format!("lastuse-binding-{}.jsonl", std::process::id()));
        let _ = std::fs::remove_file(&report);
        let lastuse = lastuse();
        run(&host(), &[&argument], &[("LD_PRELOAD", OsStr::new(&lastuse)), ("LASTUSE_REPORT", report.as_os_str())]);
        let text = std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("{argument}: {error}"));
        let _ = std::fs::remove_file(&report);
        let found: Vec<&str> = text.lines().filter(|line| line.contains("\"not served\"")).collect();
        assert_eq!(found.len(), usize::from(!why.is_empty()), "{argument}: {text}");
        assert!(found.iter().all(|line| line.contains(why)), "{argument}: {text}");
    }
}

/// Node loads a library, refuses it because it is not an add-on and closes it again: it has to stay.
#[test]
fn node_and_python_load_it_first() {
    let lastuse = lastuse();
    for base in [Base::Inside, Base::Shared] {
        let addon = plugin("binding-addon", &["tests/support/ggml_plugin.c", "tests/heavy/node_addon.c"], base);
        let of_node = [
            "const {RTLD_NOW, RTLD_GLOBAL} = require('os').constants.dlopen;",
            "try { process.dlopen({exports: {}}, process.argv[1], RTLD_NOW | RTLD_GLOBAL); } catch { }",
            "process.dlopen({exports: {}}, process.argv[2]);",
        ];
        let of_python = [
            "import ctypes, sys",
            "ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)",
            "assert ctypes.CDLL(sys.argv[2]).plan_graphs() == 0",
        ];
        for (program, option, script) in [("node", "-e", of_node), ("python3", "-c", of_python)] {
            let (program, script) = (Program::existing(program), script.join("\n"));
            let alone = run(&program, &[option, &script, "libm.so.6", &addon], &[]);
            let first = run(&program, &[option, &script, &lastuse, &addon], &[]);
            assert_served(&first, &alone, "addon_bytes");
        }
    }
}

/// The kinds of `lastuse reach`, and the ways that it names.
#[test]
fn tool_tells_what_can_be_reached() {
    let host = host().path().display().to_string();
    let inside = support::build("loads-with-ggml", "tests/support/plan_two_graphs.c", &llama_cpp(), Linked::Ggml);
    let linked = support::build(
        "loads-linked",
        "tests/support/plan_two_graphs.c",
        &llama_cpp(),
        Linked::LastuseShared(&support::release()),
    );
    let behind = support::build(
        "loads-behind",
        "tests/support/link_order.c",
        &llama_cpp(),
        Linked::LastuseBehind(&support::release()),
    );
    let program = |program: &Program| program.path().display().to_string();
    let files = [
        (ggml_plugin(Base::Inside), "reached: ", "load early", 0),
        (ggml_plugin(Base::Shared), "reached: ", "preload: lastuse run PROGRAM", 0),
        (ggml_plugin(Base::ByClang), "part: ", "inlined ggml_gallocr_reserve_n: ", 3),
        (ggml_plugin(Base::Symbolic), "bound: ", "-Bsymbolic", 3),
        (ggml_plugin(Base::Hidden), "hidden: ", "inject: ", 3),
        (program(&inside), "bound: ", "link: ", 3),
        (program(&linked), "linked: ", "nothing else", 0),
        (program(&behind), "bound: ", "before liblastuse", 3),
        (host, "none: ", "it may load one later", 3),
    ];
    for (file, kind, way, code) in files {
        let output = support::tool::command(&["reach", &file]).output().expect("the tool starts");
        let text = support::tool::stdout(&output);
        assert!(text.starts_with(kind) && text.contains(way), "{file}: {text}{}", support::tool::stderr(&output));
        assert_eq!(output.status.code(), Some(code), "{file}: {text}");
    }
    for (file, why) in [("Cargo.toml", "not a program or a library"), ("/no/such/file", "no such file")] {
        let output = support::tool::command(&["reach", file]).output().expect("the tool starts");
        support::tool::assert_fails(
            &output,
            &format!("{file}: {why}{}", if file == "Cargo.toml" { " (ELF)" } else { "" }),
        );
    }
}
