//! Two ggmls of different versions in one process: a preloaded lastuse serves each by itself, and with `LASTUSE=off`
//! each uses its own allocator.

use std::ffi::OsStr;
use std::path::Path;

use crate::support;
use lastuse_c_tests::{Linked, Outcome, Program};
use lastuse_vendor::{Ggml, Package};

/// How a plugin is linked with its ggml.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It is a part of the plugin.
    Inside,
    /// It is its own shared library, under its own name.
    Apart,
    /// It is a shared library under its own name, and the plugin is linked with lastuse before it.
    Linked,
}

const KINDS: [Kind; 2] = [Kind::Inside, Kind::Apart];

/// Version 0.26.0 and 0.9.5.
fn ggmls() -> [Ggml; 2] {
    [Package::LlamaCpp, Package::WhisperCpp].map(support::ggml)
}

/// Links everything in an archive of ggml into a shared library with a unique name.
fn library_of_its_own(ggml: &Ggml, part: &str, needs: &[&str]) -> String {
    support::shared_from_archive(&format!("lib{part}-{}.so", ggml.version), ggml, part, needs)
}

/// Builds a plugin with this ggml and returns its path.
fn plugin(ggml: &Ggml, kind: Kind) -> String {
    let [base, cpu] = match kind {
        Kind::Inside => {
            ["base", "cpu"].map(|part| ggml.libraries.join(format!("libggml-{part}.a")).display().to_string())
        }
        Kind::Apart | Kind::Linked => {
            let base = library_of_its_own(ggml, "ggml-base", &[]);
            let folder = Path::new(&base).parent().map(|folder| format!("-Wl,-rpath,{}", folder.display()));
            let cpu = library_of_its_own(ggml, "ggml-cpu", &[&base, &folder.unwrap_or_default()]);
            [base, cpu]
        }
    };
    let lastuse = matches!(kind, Kind::Linked).then(|| support::release().shared.display().to_string());
    let before: Vec<&str> = lastuse.as_deref().into_iter().collect();
    let name = format!("libplugin-{kind:?}-{}.so", ggml.version).to_lowercase();
    let folders = before.iter().copied().chain([base.as_str()]).filter_map(|library| Path::new(library).parent());
    let folders: Vec<String> = folders.map(|folder| format!("-Wl,-rpath,{}", folder.display())).collect();
    let libraries = before.iter().copied().chain([cpu.as_str(), &base, "-lm"]);
    let flags: Vec<&str> = libraries.chain(folders.iter().map(String::as_str)).collect();
    let plugin = Program::build_shared(&name, &["tests/support/ggml_plugin.c"], ggml, &flags);
    support::expect(plugin).display().to_string()
}

/// Builds a program that loads plugins and has no ggml itself.
fn host() -> Program {
    let ggml = support::ggml(Package::LlamaCpp);
    support::build("two-ggmls", "tests/linking/two_ggmls.c", &ggml, Linked::Ggml)
}

/// Builds a program that loads plugins and uses a shared ggml itself.
fn host_with(ggml: &Ggml) -> Program {
    let sources = ["tests/linking/two_ggmls.c", "tests/support/ggml_plugin.c"];
    let name = format!("two-ggmls-with-{}", ggml.version);
    support::expect(Program::build(&name, &sources, ggml, Linked::SharedGgml, &["-DHOST_HAS_GGML"]))
}

fn run(host: &Program, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let outcome = support::expect(host.run_with(arguments, variables));
    assert_eq!(outcome.code, Some(0), "{arguments:?} {variables:?}: {}", outcome.describe());
    outcome
}

fn value<'a>(outcome: &'a Outcome, plugin: usize, key: &str) -> &'a str {
    let value = outcome.value(&format!("plugin{plugin}_{key}"));
    value.unwrap_or_else(|| panic!("no {key}: {}", outcome.describe()))
}

fn bytes(outcome: &Outcome, plugin: usize) -> u64 {
    value(outcome, plugin, "bytes").parse().unwrap_or_else(|error| panic!("{error}: {}", outcome.describe()))
}

/// Runs a host alone, with lastuse, and with lastuse switched off. Returns the outcome of the first.
fn compare(host: &Program, arguments: &[&str], plugins: usize) -> Outcome {
    let lastuse = support::release();
    let preload = ("LD_PRELOAD", lastuse.shared.as_os_str());
    let alone = run(host, arguments, &[]);
    let on = run(host, arguments, &[preload]);
    let off = run(host, arguments, &[preload, ("LASTUSE", OsStr::new("off"))]);
    for plugin in 1..=plugins {
        for (outcome, enabled) in [(&on, "1"), (&off, "0")] {
            let described = format!("{arguments:?}, plugin {plugin}: {}", outcome.describe());
            assert_eq!(value(outcome, plugin, "hash"), value(&alone, plugin, "hash"), "{described}");
            assert_eq!(value(outcome, plugin, "ggml"), value(&alone, plugin, "ggml"), "{described}");
            assert_eq!(value(outcome, plugin, "enabled"), enabled, "{described}");
            assert_eq!(outcome.stderr, "", "{described}");
        }
        assert_eq!(bytes(&off, plugin), bytes(&alone, plugin), "{arguments:?}");
        assert!(bytes(&on, plugin) <= bytes(&alone, plugin), "{arguments:?}: {}", on.describe());
    }
    alone
}

/// Loads two plugins in both orders: the second after the first was used, or both before the first call.
fn in_both_orders(kind: Kind, mode: &str, versions: impl Fn(&str, &str) -> [String; 2]) {
    let (host, ggmls) = (host(), ggmls());
    for [first, second] in [[&ggmls[0], &ggmls[1]], [&ggmls[1], &ggmls[0]]] {
        let plugins = [first, second].map(|ggml| format!("{mode}{}", plugin(ggml, kind)));
        for together in [None, Some("together")] {
            let arguments: Vec<&str> = together.into_iter().chain(plugins.iter().map(String::as_str)).collect();
            let alone = compare(&host, &arguments, 2);
            let found = [1, 2].map(|plugin| value(&alone, plugin, "ggml").to_owned());
            assert_eq!(found, versions(&first.version, &second.version), "{}", alone.describe());
        }
    }
}

#[test]
fn plugins_with_ggml_inside() {
    in_both_orders(Kind::Inside, "", |first, second| [first.to_owned(), second.to_owned()]);
}

#[test]
fn plugins_with_shared_ggmls() {
    in_both_orders(Kind::Apart, "", |first, second| [first.to_owned(), second.to_owned()]);
}

/// Global symbols come first for libraries loaded later: both plugins use the first ggml.
#[test]
fn global_plugins_with_ggml_inside() {
    in_both_orders(Kind::Inside, "global:", |first, _| [first.to_owned(), first.to_owned()]);
}

#[test]
fn global_plugins_with_shared_ggmls() {
    in_both_orders(Kind::Apart, "global:", |first, _| [first.to_owned(), first.to_owned()]);
}

#[test]
fn local_and_global_plugins_of_both_kinds() {
    let (host, [new, old]) = (host(), ggmls());
    let [inside, apart] = [plugin(&new, Kind::Inside), plugin(&old, Kind::Apart)];
    for modes in [["", "global:"], ["global:", ""], ["lazy:", "lazy:"]] {
        let plugins = [format!("{}{inside}", modes[0]), format!("{}{apart}", modes[1])];
        compare(&host, &[&plugins[0], &plugins[1]], 2);
        compare(&host, &["together", &plugins[1], &plugins[0]], 2);
    }
}

/// The ggml that the program is linked with is the first for what it loads later, too.
#[test]
fn program_with_a_ggml_that_loads_another() {
    let ggmls = ggmls();
    for [own, other] in [[&ggmls[0], &ggmls[1]], [&ggmls[1], &ggmls[0]]] {
        let host = host_with(own);
        for kind in KINDS {
            let plugin = plugin(other, kind);
            compare(&host, &["self", &plugin], 2);
            compare(&host, &["together", &plugin, "self"], 2);
            compare(&host, &["self", &format!("global:{plugin}")], 2);
        }
    }
}

/// Nothing is preloaded: one lastuse serves the ggmls of all plugins that are linked with it, and no others.
#[test]
fn plugins_linked_with_lastuse() {
    let (host, [new, old]) = (host(), ggmls());
    let linked = [&new, &old].map(|ggml| plugin(ggml, Kind::Linked));
    let apart = [&new, &old].map(|ggml| plugin(ggml, Kind::Apart));
    for [first, second] in [[0, 1], [1, 0]] {
        let alone = run(&host, &[&apart[first], &apart[second]], &[]);
        let both = run(&host, &[&linked[first], &linked[second]], &[]);
        let one = run(&host, &[&apart[first], &linked[second]], &[]);
        let off = run(&host, &[&linked[first], &linked[second]], &[("LASTUSE", OsStr::new("off"))]);
        for (outcome, enabled) in [(&both, ["1", "1"]), (&one, ["0", "1"]), (&off, ["0", "0"])] {
            for plugin in [1, 2] {
                let is_enabled = enabled[plugin - 1];
                assert_eq!(value(outcome, plugin, "enabled"), is_enabled, "{}", outcome.describe());
                assert_eq!(value(outcome, plugin, "hash"), value(&alone, plugin, "hash"), "{}", outcome.describe());
                let (bytes, by_ggml) = (bytes(outcome, plugin), bytes(&alone, plugin));
                assert!(bytes == by_ggml || (bytes < by_ggml && is_enabled == "1"), "{}", outcome.describe());
            }
        }
    }
}

/// One of them has a layout that lastuse does not know: its calls go to its own allocator, and the log reports it once.
#[test]
fn unknown_layout_beside_a_known_one() {
    let unknown = support::expect(lastuse_vendor::ggml_with_another_layout(Package::LlamaCpp));
    let base = unknown.libraries.join("libggml-base.a").display().to_string();
    let flags = ["-Dmain=plan_graphs", &base, "-lm"];
    let odd = Program::build_shared("libplan-unknown.so", &["tests/support/plan_two_graphs.c"], &unknown, &flags);
    let odd = support::expect(odd).display().to_string();
    let [known, _] = ggmls();
    let known = plugin(&known, Kind::Inside);
    let (host, lastuse) = (host(), support::release());
    let variables = [("LD_PRELOAD", lastuse.shared.as_os_str())];
    for (arguments, number) in [([odd.as_str(), &known], 2), ([known.as_str(), &odd], 1)] {
        let outcome = run(&host, &arguments, &variables);
        assert_eq!(value(&outcome, number, "enabled"), "1", "{}", outcome.describe());
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("lastuse")).collect();
        assert_eq!(lines.len(), 1, "{}", outcome.describe());
        assert!(lines[0].contains("unknown offset"), "{}", lines[0]);
    }
}

/// A program that looks up the functions of the allocator in ggml's library gets ggml's own allocators.
#[test]
fn functions_looked_up_in_ggmls_library() {
    let (ggmls, lastuse) = (ggmls(), support::release());
    let program = support::build("dlsym-functions", "tests/support/dlsym_functions.c", &ggmls[0], Linked::Ggml);
    let [new, old] = ggmls.each_ref().map(|ggml| library_of_its_own(ggml, "ggml-base", &[]));
    for libraries in [vec![new.as_str()], vec![new.as_str(), &old], vec![old.as_str(), &new]] {
        let alone = run(&program, &libraries, &[]);
        let preload = ("LD_PRELOAD", lastuse.shared.as_os_str());
        let off = run(&program, &libraries, &[preload, ("LASTUSE", OsStr::new("off"))]);
        let on = run(&program, &libraries, &[preload]);
        assert_eq!([&on.stdout, &off.stdout], [&alone.stdout; 2], "{}", on.describe());
        assert_eq!(on.stderr.matches("looked up").count(), 1, "{}", on.describe());
    }
}
