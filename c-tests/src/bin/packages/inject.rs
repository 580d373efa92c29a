//! Projects that build ggml, unchanged, with lastuse inside: a ggml that is a part of another project, and llama.cpp,
//! whisper.cpp and stable-diffusion.cpp, each by itself and as a part.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::models::{Kind, Kinds, WhisperModel, upscaler, write_safetensors, write_whisper};
use lastuse_c_tests::packages::{
    Form, InjectedBuild, Prefix, ServedRun, check_ggml, check_unknown_layout, served_results,
};
use lastuse_c_tests::{Program, Result, copy_folder, folder};
use lastuse_vendor::{Ggml, Package, target_folder};

/// A project, and a program that uses it.
#[derive(Clone, Copy)]
struct Project {
    name: &'static str,
    package: Package,
    /// The target of its library.
    target: &'static str,
    settings: &'static [&'static str],
    /// Settings besides `BUILD_SHARED_LIBS` that make its ggml a shared library.
    shared: &'static [&'static str],
    /// The source of the program, relative to the folder of the C programs, and flags for it.
    program: &'static str,
    flags: &'static [&'static str],
    /// What the program is run with: options, where `{models}` is a folder; it writes its results to the file behind them.
    runs: &'static [&'static str],
    /// Writes the models to a folder, where need be by a program that uses the build.
    write_models: fn(folder: &Path, build: &InjectedBuild<'_>) -> Result<()>,
}

const PROJECTS: [Project; 3] = [
    Project {
        name: "llama",
        package: Package::LlamaCpp,
        target: "llama",
        settings: &[
            "LLAMA_BUILD_APP=OFF",
            "LLAMA_BUILD_COMMON=OFF",
            "LLAMA_BUILD_TESTS=OFF",
            "LLAMA_BUILD_EXAMPLES=OFF",
            "LLAMA_BUILD_TOOLS=OFF",
            "LLAMA_OPENSSL=OFF",
        ],
        shared: &[],
        program: "llama_cpp/sessions.c",
        flags: &["-UCOUNTS_REALLOCATIONS"],
        runs: &[
            "{models}/gemma3.gguf --threads 1 --flash on --cache streams --output",
            "{models}/gemma3.gguf --threads 1 --flash off --cache unified --output",
            "{models}/granitehybrid.gguf --threads 1 --flash on --cache streams --output",
        ],
        write_models: write_llama_models,
    },
    Project {
        name: "whisper",
        package: Package::WhisperCpp,
        target: "whisper",
        settings: &["WHISPER_BUILD_TESTS=OFF", "WHISPER_BUILD_EXAMPLES=OFF", "WHISPER_BUILD_SERVER=OFF"],
        shared: &[],
        program: "hosts/whisper/transcribe.c",
        flags: &[],
        runs: &["{models}/whisper.bin --seconds 31 --tokens 8 --threads 1 --out"],
        write_models: |folder, _| {
            let model = WhisperModel { width: 128, heads: 2, audio_layers: 4, text_layers: 4, kind: Kind::F16 };
            write_whisper(&folder.join("whisper.bin"), &model, 1)
        },
    },
    Project {
        name: "stable-diffusion",
        package: Package::StableDiffusionCpp,
        target: "stable-diffusion",
        settings: &["SD_BUILD_EXAMPLES=OFF", "SD_WEBP=OFF", "SD_WEBM=OFF"],
        shared: &["SD_BUILD_SHARED_LIBS=ON", "SD_BUILD_SHARED_GGML_LIB=ON"],
        program: "hosts/stable_diffusion/paint.c",
        // Its build files set this for ggml and for themselves, so a program on both has to.
        flags: &["-DGGML_MAX_NAME=128"],
        runs: &["{models}/esrgan.safetensors --upscaler on --sizes 48x32,32x48 --threads 1 --out"],
        write_models: |folder, _| {
            let halves = Kinds { matrix: Kind::F16, convolution: Kind::F16 };
            write_safetensors(&folder.join("esrgan.safetensors"), &upscaler(1, halves), 1)
        },
    },
];

/// How each of them is built.
const FORMS: [Form; 2] = [Form::TopShared, Form::PartStatic];

/// Models of llama.cpp that `hosts/llama/models` describes, and their layers: one of each kind.
const LLAMA_MODELS: [(&str, &str); 2] = [("gemma3", "6"), ("granitehybrid", "4")];

/// Builds and tests all projects with `only` in their names, each of which is followed by the form.
///
/// # Errors
/// What does not hold, or the message of a build.
pub fn test(prefix: &Prefix, only: &str) -> Result<()> {
    let is_wanted = |name: &str, form: Form| format!("{name}-{}", form.word()).contains(only);
    let mut count = 0;
    for form in [Form::PartShared, Form::PartStatic].into_iter().filter(|&form| is_wanted("ggml", form)) {
        for [with, without] in check_ggml(prefix, form)? {
            println!("ggml, {}: {with} bytes with lastuse, {without} with LASTUSE=off", form.word());
        }
        count += 1;
    }
    if "unknown".contains(only) {
        check_unknown_layout(prefix)?;
        println!("ggml of an unknown layout: its own allocator serves it, and the log says why");
        count += 1;
    }
    let both = PROJECTS.iter().flat_map(|project| FORMS.map(|form| (project, form)));
    for (project, form) in both.filter(|(project, form)| is_wanted(project.name, *form)) {
        test_project(project, form, prefix)?;
        count += 1;
    }
    if count == 0 { Err(format!("no project has {only:?} in its name")) } else { Ok(()) }
}

fn test_project(project: &Project, form: Form, prefix: &Prefix) -> Result<()> {
    let sources = sources(project.package)?;
    let settings = [project.settings, if form.is_shared() { project.shared } else { &[] }].concat();
    let (name, target) = (project.name, project.target);
    let build =
        InjectedBuild { name, sources: &sources, form, settings: &settings, optimize: "-O1", target, programs: &[] };
    build.build(prefix)?;
    let program = link(project, &build)?;
    let models = kept(&Path::new("models").join(name))?;
    (project.write_models)(&models, &build)?;
    let label = format!("{name}, {}", form.word());
    for run in project.runs {
        let [with, without] = test_run(&build, &program, run, &models).map_err(|why| format!("{label}: {why}"))?;
        println!("{label}: {with} bytes with lastuse, {without} with LASTUSE=off, the same results: {run}");
    }
    if form.is_shared() {
        let [without, with] = build.check_size()?;
        println!("{label}: libggml-base.so has {without} bytes without lastuse, {with} with it (stripped)");
        let plain = on_plain_ggml(&build, &program, project.runs[0], &models)?;
        println!("{label}: {plain} bytes with lastuse, the same results on a base library without it");
    }
    Ok(())
}

/// Links the program of a project with the libraries of a build, and nothing else.
fn link(project: &Project, build: &InjectedBuild<'_>) -> Result<Program> {
    let include = format!("-isystem{}", project.package.sources()?.join("include").display());
    let flags = [project.flags, &[&*include]].concat();
    let base = build.base();
    let libraries = base.parent().unwrap_or(Path::new("."));
    let ggml = Ggml::built(project.package, libraries.to_owned())?;
    let names = [project.target, "ggml", "ggml-cpu", "ggml-base"];
    let arguments = if build.form.is_shared() {
        let mut arguments = vec!["-Wl,--no-as-needed".to_owned()];
        for folder in [build.folder().join("bin"), build.folder().join("src"), libraries.to_owned()] {
            arguments.extend([format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())]);
        }
        arguments.extend(names.map(|name| format!("-l{name}")));
        arguments
    } else {
        names
            .iter()
            .map(|name| Ok(build.find(&format!("lib{name}.a"))?.display().to_string()))
            .collect::<Result<_>>()?
    };
    let program = Path::new(project.program).file_stem().unwrap_or_default().display();
    let name = format!("packages-{program}-{}", build.form.word());
    Program::build_linked(&name, &[project.program], &ggml, &flags, &arguments)
}

/// Runs the program on lastuse and with `LASTUSE=off`, and compares its results. Returns the bytes of both.
fn test_run(build: &InjectedBuild<'_>, program: &Program, run: &str, models: &Path) -> Result<[u64; 2]> {
    let with = run_with(build, program, run, models, &[])?;
    let off = run_with(build, program, run, models, &[("LASTUSE", OsStr::new("off"))])?;
    let [server, without_lastuse] = [&with, &off].map(|run| &*run.served.server);
    if (server, without_lastuse) != ("lastuse", "ggml-alloc") {
        return Err(format!("it is served by {server:?}, and by {without_lastuse:?} with LASTUSE=off: {run}"));
    }
    if with.results != off.results {
        return Err(format!("the results differ: {run}"));
    }
    let [with, off] = [with, off].map(|run| run.served.bytes);
    if with == 0 || with > off {
        return Err(format!("lastuse has {with} bytes, and ggml {off}: {run}"));
    }
    Ok([with, off])
}

/// Runs the program with lastuse inside, and on a base library that is built without it, and compares the results.
fn on_plain_ggml(build: &InjectedBuild<'_>, program: &Program, run: &str, models: &Path) -> Result<u64> {
    let with = run_with(build, program, run, models, &[])?;
    let plain = build.plain_library()?;
    let folder = plain.parent().unwrap_or(Path::new(".")).as_os_str();
    let plain = run_with(build, program, run, models, &[("LD_LIBRARY_PATH", folder)])?;
    if with.results != plain.results {
        return Err(format!("the results differ from those on a ggml without lastuse: {:?}", plain.served));
    }
    Ok(with.served.bytes)
}

fn run_with(
    build: &InjectedBuild<'_>,
    program: &Program,
    run: &str,
    models: &Path,
    variables: &[(&str, &OsStr)],
) -> Result<ServedRun> {
    let output = build.folder().with_file_name("output");
    let words = words(run, models, &output);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    served_results(program.path(), &words, variables, &output)
}

fn words(run: &str, models: &Path, output: &Path) -> Vec<String> {
    let models = models.to_string_lossy();
    let words = run.split(' ').map(|word| word.replace("{models}", &models));
    words.chain([output.to_string_lossy().into_owned()]).collect()
}

/// The sources of a project; a copy, where its build files write into them.
fn sources(package: Package) -> Result<PathBuf> {
    let sources = package.sources()?;
    if package != Package::WhisperCpp {
        return Ok(sources);
    }
    let copy = kept(Path::new("sources"))?.join(format!("{}-{}", package.name(), package.version()?));
    if !copy.exists() {
        copy_folder(&sources, &copy)?;
    }
    Ok(copy)
}

/// A folder that stays between runs.
fn kept(name: &Path) -> Result<PathBuf> {
    let path = target_folder().join("packages").join(name);
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(std::path::absolute(&path).unwrap_or(path))
}

/// Has a program write them that is linked with llama.cpp.
fn write_llama_models(to: &Path, build: &InjectedBuild<'_>) -> Result<()> {
    let writer = link(&Project { program: "captures/llama_cpp.c", ..PROJECTS[0] }, build)?;
    for (model, layers) in LLAMA_MODELS {
        let description = folder().join("hosts/llama/models").join(format!("{model}.txt")).display().to_string();
        let file = to.join(model).with_extension("gguf").display().to_string();
        let options = ["--what", "random", "--layers", layers, "--vocab", "1024", "--seed", "1"];
        let outcome = writer.run(&[&[&*file, "--model", &description], &options[..]].concat())?;
        if outcome.code != Some(0) {
            return Err(format!("{model}: {}", outcome.describe()));
        }
    }
    Ok(())
}
