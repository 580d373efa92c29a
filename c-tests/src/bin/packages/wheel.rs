//! The wheel for Python: made of what a release contains, and tested by packages on ggml from Python's index.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lastuse_c_tests::models::{Kind, WhisperModel, write_llama, write_whisper};
use lastuse_c_tests::packages::{ServedRun, packages_folder, served_results};
use lastuse_c_tests::{Result, copy_folder, folder};

use crate::python::Environment;
use crate::target::Target;
use crate::zig::Zig;

/// What makes and checks wheels.
const MAKERS: [&str; 3] = ["auditwheel==6.8.2", "setuptools==80.9.0", "wheel==0.45.1"];

/// The systems that the wheel is for: all since glibc 2.17, in the older form of their name, which every pip knows.
const PLATFORM: &str = "manylinux2014";

/// A package on ggml, and the program that uses it.
struct User {
    package: &'static str,
    program: &'static str,
    model: fn(&Tests) -> Result<PathBuf>,
    /// The package is compiled when it is installed, for many minutes.
    is_slow: bool,
}

const USERS: [User; 3] = [
    User { package: "pywhispercpp", program: "transcribe.py", model: whisper_model, is_slow: false },
    User { package: "xllamacpp", program: "complete.py", model: llama_model, is_slow: false },
    User { package: "llama-cpp-python", program: "decode.py", model: llama_model, is_slow: true },
];

/// The version that is compiled.
const LLAMA_CPP_PYTHON: &str = "llama-cpp-python==0.3.36";

/// Where the tests are, and the environment with the installed wheel.
struct Tests {
    sources: PathBuf,
    output: PathBuf,
    environment: Environment,
}

/// Makes the wheel, installs it to a new environment and tests it there with the packages with `only` in their names; the slow
/// one is tested if it is named.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test(only: &str) -> Result<()> {
    let users: Vec<&User> = USERS.iter().filter(|user| user.package.contains(only)).collect();
    let users: Vec<&User> = users.into_iter().filter(|user| !user.is_slow || user.package == only).collect();
    if users.is_empty() {
        return Err(format!(
            "no package has {only:?} in its name: there is {}",
            USERS.map(|user| user.package).join(", ")
        ));
    }
    let target = Target::of("")?;
    let wheel = make(target)?;
    let name = wheel.to_string_lossy().into_owned();
    let alone = Environment::empty(packages_folder().join("python/alone"))?;
    alone.install(&["--no-index", &name], &[])?;
    check_alone(&alone)?;

    let output = packages_folder().join("python/output");
    fs::create_dir_all(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    let sources = folder().with_file_name("packaging/python/tests");
    let requirements = sources.join("requirements.txt");
    let environment =
        Environment::with(packages_folder().join("python/users"), &["-r", &requirements.to_string_lossy()])?;
    environment.install(&["--no-index", "--force-reinstall", &name], &[])?;
    let tests = Tests { sources, output, environment };
    for user in users {
        check(user, &tests).map_err(|why| format!("{}: {why}", user.package))?;
    }
    Ok(())
}

/// Builds the programs and packs them.
fn make(target: &Target) -> Result<PathBuf> {
    let makers = Environment::with(packages_folder().join("python/makers"), &MAKERS)?;
    eprintln!("[wheel] building the tool and the libraries, which takes minutes");
    let built = Zig::install()?.build(target, &["lastuse", "lastuse-tool", "lastuse-guard", "lastuse-measure"])?;
    let (sources, packed) = (packages_folder().join("python/sources"), packages_folder().join("python/wheel"));
    for folder in [&sources, &packed] {
        let _ = fs::remove_dir_all(folder);
    }
    copy_folder(&folder().with_file_name("packaging/python"), &sources)?;
    let native = sources.join("src/lastuse/native");
    for name in ["lastuse", "liblastuse.so", "liblastuse_guard.so", "liblastuse_measure.so"] {
        target.strip(&built.join(name), &native.join(name))?;
        // pip keeps whether a file is executable.
        let allowed = fs::set_permissions(native.join(name), Permissions::from_mode(0o755));
        allowed.map_err(|error| format!("{name}: {error}"))?;
    }
    let to = packed.to_string_lossy().into_owned();
    makers.run("pip", &["wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", &to, "."], &sources)?;
    let wheel = only_file(&packed)?;
    let shown = makers.run("auditwheel", &["show", &wheel.to_string_lossy()], &packed)?;
    let tag = format!("\"manylinux_2_17_{}\"", target.machine);
    if !shown.contains(&tag) {
        return Err(format!("auditwheel does not confirm {tag}:\n{shown}"));
    }
    let platform = format!("{PLATFORM}_{}", target.machine);
    makers.run("wheel", &["tags", "--remove", "--platform-tag", &platform, &wheel.to_string_lossy()], &packed)?;
    let wheel = only_file(&packed)?;
    let bytes = fs::metadata(&wheel).map_err(|error| format!("{}: {error}", wheel.display()))?.len();
    println!("wheel: {} has {bytes} bytes; auditwheel confirms {tag}", wheel.display());
    Ok(wheel)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        _ => Err(format!("{} has {} files instead of one", folder.display(), files.len())),
    }
}

/// Checks what holds without any ggml.
fn check_alone(alone: &Environment) -> Result<()> {
    let program = "import lastuse\nprint(lastuse.version(), lastuse.enabled())\n\
                   try: lastuse.stats()\nexcept RuntimeError as error: print(error)\n\
                   try: lastuse.set('rule', 'all')\nexcept ValueError as error: print(error)\n\
                   try: lastuse.explain()\nexcept RuntimeError as error: print(error)\n";
    let printed = alone.run("python", &["-c", program], &packages_folder())?;
    let version = env!("CARGO_PKG_VERSION");
    let wanted = [
        &format!("{version} False"),
        "lastuse_stats_report: ",
        "unknown setting 'rule'; expected rules, ",
        "no graph is",
    ];
    let lines: Vec<&str> = printed.lines().collect();
    if lines.len() != wanted.len() || !lines.iter().zip(wanted).all(|(line, wanted)| line.starts_with(wanted)) {
        return Err(format!("without a ggml the package prints\n{printed}"));
    }
    for (name, arguments) in [("lastuse", &["--version"][..]), ("python", &["-m", "lastuse", "--version"])] {
        let printed = alone.run(name, arguments, &packages_folder())?;
        if printed.trim() != format!("lastuse {version}") {
            return Err(format!("{name} {} prints {printed}", arguments.join(" ")));
        }
    }
    Ok(())
}

/// Runs the program of a package with lastuse and without, in every way, and compares its results.
fn check(user: &User, tests: &Tests) -> Result<()> {
    if user.is_slow {
        eprintln!("[wheel] compiling {LLAMA_CPP_PYTHON}, which takes many minutes");
        let flags = [("CMAKE_ARGS", "-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF")];
        tests.environment.install(&["--no-binary", "llama-cpp-python", LLAMA_CPP_PYTHON], &flags)?;
    }
    let model = (user.model)(tests)?;
    let plain = tests.run(user, &model, "never", &[])?;
    if !plain.served.server.is_empty() {
        return Err("without lastuse there is a report".to_owned());
    }
    let same = |what: &str, run: ServedRun| match run.results == plain.results {
        true => Ok(run.served),
        false => Err(format!("the results differ {what}")),
    };
    let first = same("with lastuse", tests.run(user, &model, "first", &[])?)?;
    let off = same("with LASTUSE=off", tests.run(user, &model, "first", &[("LASTUSE", OsStr::new("off"))])?)?;
    if (&*first.server, &*off.server) != ("lastuse", "ggml-alloc") || first.bytes == 0 || first.bytes >= off.bytes {
        return Err(format!("{} has {} bytes, {} {}", first.server, first.bytes, off.server, off.bytes));
    }
    let stats = first.outcome.stdout.lines().find_map(|line| line.strip_prefix("stats="));
    let stats: serde_json::Value =
        serde_json::from_str(stats.unwrap_or_default()).map_err(|_| first.outcome.describe())?;
    if stats["plans"].as_u64().is_none_or(|plans| plans == 0) || stats["bytes"].as_u64().is_none_or(|bytes| bytes == 0)
    {
        return Err(format!("the statistics are {stats}"));
    }
    let explained = first.outcome.value("explained").unwrap_or_default();
    if explained.is_empty() {
        return Err(format!("nothing is explained: {}", first.outcome.describe()));
    }
    let late = same("with lastuse too late", tests.run(user, &model, "late", &[])?)?;
    let warning = format!("RuntimeWarning: lastuse was imported after {}, whose ggml", user.package.replace('-', "_"));
    if !late.outcome.stderr.contains(&warning.replace("llama_cpp_python", "llama_cpp")) {
        return Err(format!("there is no {warning:?}: {}", late.outcome.describe()));
    }
    tests.check_run(user, &model, &plain.results)?;
    println!("{}: {} bytes with lastuse, {} with LASTUSE=off, the same results", user.package, first.bytes, off.bytes);
    Ok(())
}

impl Tests {
    fn words(&self, user: &User, model: &Path, when: &str) -> [String; 4] {
        let paths = [&self.sources.join(user.program), model, &self.output.join(user.program)];
        let [program, model, output] = paths.map(|path| path.to_string_lossy().into_owned());
        [program, model, output, when.to_owned()]
    }

    fn run(&self, user: &User, model: &Path, when: &str, variables: &[(&str, &OsStr)]) -> Result<ServedRun> {
        let words = self.words(user, model, when);
        let _ = fs::remove_dir_all(format!("{}.graphs", words[2]));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        served_results(&self.environment.program("python"), &words, variables, Path::new(words[2]))
    }

    /// Runs a program that knows nothing of lastuse by `python -m lastuse run`.
    fn check_run(&self, user: &User, model: &Path, results: &[u8]) -> Result<()> {
        let report = self.output.join("report.json");
        let words = self.words(user, model, "never");
        let start = ["-m", "lastuse", "run", "-o", &report.to_string_lossy()].map(str::to_owned);
        let words: Vec<&str> = start.iter().chain(&words).map(String::as_str).collect();
        self.environment.run("python", &words, &self.output)?;
        let text = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
        let found: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        let compute = |of: &serde_json::Value| of["compute"].as_u64();
        let device = &found["devices"][0];
        let is_smaller = compute(device).zip(compute(&device["ggml_alloc"])).is_some_and(|(ours, ggml)| ours < ggml);
        let is_same = fs::read(words[7]).is_ok_and(|found| found == results);
        if is_same && is_smaller { Ok(()) } else { Err(format!("python -m lastuse run: {text}")) }
    }
}

fn whisper_model(tests: &Tests) -> Result<PathBuf> {
    let model = WhisperModel { width: 128, heads: 2, audio_layers: 4, text_layers: 4, kind: Kind::F16 };
    let path = tests.output.join("whisper.bin");
    write_whisper(&path, &model, 1).map(|()| path)
}

fn llama_model(tests: &Tests) -> Result<PathBuf> {
    let path = tests.output.join("llama.gguf");
    write_llama(&path, 1).map(|()| path)
}
