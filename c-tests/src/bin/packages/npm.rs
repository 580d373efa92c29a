//! The npm package: made of what a release contains, and tested by packages on ggml from npm's registry.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lastuse_c_tests::models::write_llama;
use lastuse_c_tests::packages::{ServedRun, output_of, packages_folder};
use lastuse_c_tests::{Result, folder};
use serde_json::Value;

use crate::archive::bytes;
use crate::files::{files, write};
use crate::licences::licences;
use crate::node::Node;
use crate::release::{check_folders, check_needs};
use crate::target::Target;
use crate::zig::Zig;

/// What is in the package besides the licences and the library.
const SOURCES: [&str; 4] = ["README.md", "index.d.ts", "index.js", "package.json"];

const TESTS: [&str; 5] = ["complete.cjs", "generate.mjs", "index.test.js", "types.ts", "worker.mjs"];

/// Packages on ggml, and what checks types. `CPU` is the processor.
const USERS: [&str; 5] = [
    "node-llama-cpp@3.22.1",
    "@node-llama-cpp/linux-CPU@3.22.1",
    "@fugood/llama.node@1.7.15",
    "@fugood/node-llama-linux-CPU@1.7.15",
    "typescript@5.9.3",
];

/// The line of `package.json` that is narrowed to the processor of the library.
const PROCESSORS: &str = r#""cpu": ["x64", "arm64"]"#;

/// The names of files of the tests, beside the programs.
const MODEL: &str = "llama.gguf";
const OUTPUT: &str = "output.json";

/// The oldest Node that node-llama-cpp runs on.
const OLDEST: u32 = 20;

/// A way to load lastuse in time: options of node, the program, and whether that one loads it.
struct Start {
    name: &'static str,
    options: &'static [&'static str],
    words: [&'static str; 2],
}

const STARTS: [Start; 3] = [
    Start { name: "in the main thread", options: &[], words: ["generate.mjs", "first"] },
    Start { name: "in a worker", options: &[], words: ["worker.mjs", "first"] },
    Start { name: "by --require", options: &["--require", "lastuse"], words: ["generate.mjs", "never"] },
];

/// Makes the package for this system, and on this machine's one installs it to new folders, alone and beside packages on ggml.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test(triple: &str) -> Result<()> {
    let target = Target::of(triple)?;
    let package = make(target)?;
    if !target.is_native() {
        return Ok(());
    }
    let alone = Node::empty(root().join("alone"))?;
    install(&alone, &package)?;
    alone.run(&["--test", "index.test.js"])?;
    println!("npm: what needs no ggml passes");
    check_version(&alone.run(&["--version"])?)?;
    let users = Node::with(root().join("users"), &USERS.map(|name| name.replace("CPU", cpu(target))))?;
    install(&users, &package)?;
    users.run(&["node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--module", "nodenext", "types.ts"])?;
    write_llama(&users.path.join(MODEL), 1)?;
    let plain = generated(&users, &[], ["generate.mjs", "never"], false)?;
    if !plain.served.server.is_empty() {
        return Err(format!("without lastuse there is a report: {:?}", plain.served));
    }
    STARTS.iter().try_for_each(|start| check_start(&users, start, &plain))?;
    check_late(&users, &plain, &format!("@node-llama-cpp/linux-{}", cpu(target)))?;
    check_bound_in_part(&users)
}

/// The name of a processor for npm.
fn cpu(target: &Target) -> &'static str {
    if target.machine == "x86_64" { "x64" } else { "arm64" }
}

/// Builds the library and packs it. Returns the path of the package.
fn make(target: &Target) -> Result<PathBuf> {
    let content = root().join(format!("package-{}", target.machine));
    let _ = fs::remove_dir_all(&content);
    let sources = folder().with_file_name("packaging/node");
    for name in SOURCES {
        let text = fs::read_to_string(sources.join(name)).map_err(|error| format!("{name}: {error}"))?;
        write(&content.join(name), text.replace(PROCESSORS, &of_processor(target)).as_bytes())?;
    }
    let licence = folder().with_file_name("LICENSE");
    fs::copy(&licence, content.join("LICENSE")).map_err(|error| format!("{}: {error}", licence.display()))?;
    write(&content.join("LICENSES-OF-PARTS"), licences(&["lastuse"], target.triple)?.as_bytes())?;
    eprintln!("[npm] building the library, which takes minutes");
    let built = Zig::install()?.build(target, &["lastuse"])?.join("liblastuse.so");
    target.strip(&built, &content.join("liblastuse.so"))?;
    check_folders(&content)?;
    let (_, glibc) = check_needs(&content)?;
    let releases = packages_folder().join("release");
    fs::create_dir_all(&releases).map_err(|error| format!("{}: {error}", releases.display()))?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", "--pack-destination"]).arg(&releases).current_dir(&content);
    let packed = releases.join(output_of(pack)?.trim());
    let name = format!("lastuse-{}-linux-{}.tgz", env!("CARGO_PKG_VERSION"), cpu(target));
    let package = packed.with_file_name(name);
    fs::rename(&packed, &package).map_err(|error| format!("{}: {error}", packed.display()))?;
    println!("npm: {} has {} bytes, and needs glibc {glibc}", package.display(), bytes(&package)?);
    Ok(package)
}

fn of_processor(target: &Target) -> String {
    format!(r#""cpu": ["{}"]"#, cpu(target))
}

fn root() -> PathBuf {
    packages_folder().join("npm")
}

/// Installs the package, and copies the tests to where they find it.
fn install(to: &Node, package: &Path) -> Result<()> {
    to.install_again("lastuse", package)?;
    let installed = files(&to.path.join("node_modules/lastuse"))?;
    let more = ["LICENSE", "LICENSES-OF-PARTS", "liblastuse.so"];
    let mut wanted: Vec<&str> = SOURCES.into_iter().chain(more).collect();
    wanted.sort_unstable();
    if installed != wanted {
        return Err(format!("npm has installed {installed:?} instead of {wanted:?}"));
    }
    for name in TESTS {
        let test = folder().with_file_name("packaging/node/tests").join(name);
        fs::copy(&test, to.path.join(name)).map_err(|error| format!("{}: {error}", test.display()))?;
    }
    Ok(())
}

fn check_version(version: &str) -> Result<()> {
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    let is_new = major.is_some_and(|major| major >= OLDEST);
    is_new.then_some(()).ok_or_else(|| format!("node-llama-cpp needs Node {OLDEST}, and this is {}", version.trim()))
}

/// Runs a program with the model.
fn generated(users: &Node, options: &[&str], words: [&str; 2], is_off: bool) -> Result<ServedRun> {
    let arguments = [options, &[words[0], MODEL, OUTPUT, words[1]]].concat();
    users.results(&arguments, OUTPUT, is_off)
}

/// Checks that lastuse serves node-llama-cpp with less memory, that `LASTUSE=off` does not, and that tokens and probabilities
/// are those without lastuse.
fn check_start(users: &Node, start: &Start, plain: &ServedRun) -> Result<()> {
    let captures = users.path.join(format!("{OUTPUT}.graphs"));
    let _ = fs::remove_dir_all(&captures);
    let [with, off] = [false, true].map(|is_off| generated(users, start.options, start.words, is_off));
    let (with, off) = (with?, off?);
    let [bytes, without] = [&with, &off].map(|run| run.served.bytes);
    let checks = [
        (with.served.server == "lastuse" && off.served.server == "ggml-alloc", "the servers are others"),
        (0 < bytes && bytes < without, "the bytes are not less"),
        (with.results == plain.results && off.results == plain.results, "the results differ"),
        (!with.served.outcome.stderr.contains("LastuseWarning"), "there is a warning"),
        (start.words[1] != "first" || has_stats(&with, "lastuse"), "the statistics are wrong"),
        (start.words[1] != "first" || has_stats(&off, "ggml-alloc"), "the statistics of ggml-alloc are wrong"),
        // The program changes this setting in the main thread.
        (captures.is_dir() == (start.words == ["generate.mjs", "first"]), "the setting is not that of the program"),
    ];
    if let Some((_, wrong)) = checks.iter().find(|(is_right, _)| !is_right) {
        let outputs = [&with, &off].map(|run| format!("{:?}\n", run.served)).concat();
        return Err(format!("node-llama-cpp, {}: {wrong}\n{outputs}", start.name));
    }
    println!("npm: node-llama-cpp, {}: {bytes} bytes, {without} with LASTUSE=off, the same results", start.name);
    Ok(())
}

/// Returns `true` if a program has printed statistics, all of them as this server has them.
fn has_stats(run: &ServedRun, server: &str) -> bool {
    let lines = run.served.outcome.stdout.lines().filter_map(|line| line.strip_prefix("stats="));
    let all: Vec<Value> = lines.map(|text| serde_json::from_str(text).unwrap_or_default()).collect();
    let is_right = |stats: &Value| {
        let [bytes, without, plans] =
            ["bytes", "ggmlAllocBytes", "plans"].map(|name| stats[name].as_u64().unwrap_or(0));
        let is_served = server == "lastuse";
        stats["server"] == server && bytes > 0 && is_served == (bytes < without) && is_served == (plans > 0)
    };
    !all.is_empty() && all.iter().all(is_right)
}

/// Checks that lastuse names the package whose ggml was used before it was loaded, and leaves that to its own allocator.
fn check_late(users: &Node, plain: &ServedRun, package: &str) -> Result<()> {
    let late = generated(users, &[], ["generate.mjs", "late"], false)?;
    let warning = format!("LastuseWarning: lastuse was loaded after {package}, whose ggml may keep its own allocator");
    let is_right = late.results == plain.results && late.served.server != "lastuse";
    if !is_right || !late.served.outcome.stderr.contains(&warning) {
        return Err(format!("loaded late: no {warning:?}, or another server or other results: {:?}", late.served));
    }
    println!("npm: loaded late: a warning names {package}, the same results");
    Ok(())
}

/// Checks that an add-on with functions of its allocator inlined keeps all of it, and that lastuse says so.
fn check_bound_in_part(users: &Node) -> Result<()> {
    let plain = generated(users, &[], ["complete.cjs", "never"], false)?;
    let with = generated(users, &[], ["complete.cjs", "first"], false)?;
    let is_right =
        with.results == plain.results && with.served.server == "ggml-alloc" && has_stats(&with, "ggml-alloc");
    let reason = "index.node has its calls of ggml_gallocr_reserve_n inlined";
    if !is_right || !with.served.outcome.stderr.contains(reason) {
        return Err(format!("llama.node: no {reason:?}, or another server or other results: {:?}", with.served));
    }
    println!("npm: llama.node, whose calls are inlined in part: ggml-alloc, the reason in the log, the same results");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_is_for_the_processor_of_its_library() {
        let file = folder().with_file_name("packaging/node/package.json");
        let description = fs::read_to_string(file).expect("it is in the repository");
        let target = Target::of("").expect("this machine has one");
        let narrowed = description.replace(PROCESSORS, &of_processor(target));
        let narrowed: Value = serde_json::from_str(&narrowed).expect("it is JSON");
        assert_eq!(narrowed["cpu"], serde_json::json!([cpu(target)]));
    }

    #[test]
    fn old_versions_of_node_are_refused() {
        assert_eq!(check_version("v20.20.2\n"), Ok(()));
        assert!(check_version("v18.19.0\n").is_err_and(|message| message.contains("this is v18.19.0")));
        assert!(check_version("").is_err());
    }
}
