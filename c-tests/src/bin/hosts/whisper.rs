//! whisper.cpp, built by its own build files, as a shared library and as a static one.

use std::path::PathBuf;

use lastuse_c_tests::cmake::CmakeBuild;
use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_c_tests::models::{Kind, WhisperModel, write_whisper};
use lastuse_c_tests::{Result, copy_folder};
use lastuse_vendor::{Package, target_folder};

use crate::changed::{BudgetedJob, SharedJob, run_all};
use crate::job::{Job, OUTPUT, Threads, Way};
use crate::jobs::Options;
use crate::programs::Driver;

/// Its name on the command line.
const NAME: &str = "whisper";

const NEEDED: &[Needed] = &[Needed { package: "cmake", has: Has::Program("cmake") }];

/// The part of whisper.cpp to build: its library.
const SETTINGS: [&str; 3] = ["WHISPER_BUILD_TESTS=OFF", "WHISPER_BUILD_EXAMPLES=OFF", "WHISPER_BUILD_SERVER=OFF"];

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] =
    ["src/libwhisper.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

/// The models, and the seeds of their weights.
const MODELS: [(&str, WhisperModel, u64); 2] = [
    ("f16", WhisperModel { width: 128, heads: 2, audio_layers: 4, text_layers: 4, kind: Kind::F16 }, 1),
    ("q8_0", WhisperModel { width: 256, heads: 4, audio_layers: 3, text_layers: 3, kind: Kind::Q8 }, 2),
];

/// The use of a model, and the options of the program.
const TASKS: [(&str, &str); 10] = [
    ("greedy", ""),
    ("greedy, no flash attention", "--flash off"),
    ("5 beams", "--beams 5"),
    ("5 beams, no flash attention", "--beams 5 --flash off"),
    ("greedy, times by DTW", "--flash off --dtw on"),
    ("3 beams, times by DTW", "--beams 3 --flash off --dtw on"),
    ("3 states in turn", "--states 3"),
    ("3 states in turn, no flash attention", "--states 3 --flash off"),
    ("3 states at a time", "--processors 3"),
    ("a third of the context", "--audio-context 512"),
];

/// Those that are run in an arena, too.
const IN_ARENA: [&str; 3] = ["greedy", "greedy, no flash attention", "3 states in turn"];

/// The bytes of an encoder in tiles.
const ENCODER_BUDGET: u64 = 7_000_000;

/// What is shared.
const ARENAS: [&str; 2] = ["shared", "shared,outputs"];

fn folder() -> PathBuf {
    target_folder().join("hosts").join(NAME)
}

/// Builds it twice: shared and static.
///
/// # Errors
/// Missing packages, or the error of the build.
pub fn build() -> Result<()> {
    check(NAME, NEEDED)?;
    let folder = folder();
    // Its build files write into the folder of the sources, which cargo shares with everyone.
    let sources = folder.join("sources").join(Package::WhisperCpp.version()?);
    if !sources.exists() {
        copy_folder(&Package::WhisperCpp.sources()?, &sources)?;
    }
    let libraries = format!("CMAKE_LIBRARY_OUTPUT_DIRECTORY={}", folder.join("build/bin").display());
    let build =
        CmakeBuild { host: NAME, sources: &sources, folder: &folder, settings: &SETTINGS, target: NAME, inputs: &[] };
    build.build_shared_and_static(&["BUILD_SHARED_LIBS=ON", &libraries], &["BUILD_SHARED_LIBS=OFF"])
}

/// Runs models on both allocators.
///
/// # Errors
/// A failed check.
pub fn test(options: &Options) -> Result<()> {
    let folder = folder();
    let package = Package::WhisperCpp;
    let include = format!("-I{}", package.sources()?.join("include").display());
    let driver = Driver {
        host: NAME,
        title: "whisper.cpp",
        unit: "s of sound",
        package,
        source: "hosts/whisper/transcribe.c",
        flags: &[&include],
        libraries: folder.join("build/bin"),
        shared: &["whisper"],
        archives: STATIC.map(|archive| folder.join("static/build").join(archive)).to_vec(),
    };
    let programs = driver.build()?;
    let mut jobs = Vec::new();
    for (model, sizes, seed) in &MODELS {
        let path = folder.join(format!("{model}.bin"));
        write_whisper(&path, sizes, *seed)?;
        for way in [Way::Preloaded, Way::Linked] {
            for (name, arguments) in tasks(model, way) {
                let path = path.to_string_lossy();
                let fixed = [&*path, "--out", OUTPUT, "--seconds", "31", "--tokens", "8", "--threads", "1"];
                let arguments_of = fixed.into_iter().chain(arguments.split_whitespace()).map(str::to_owned);
                let job = programs.job(way, [&format!("whisper {model}"), name], arguments_of.collect());
                let threads = if arguments.contains("--processors") { Threads::Several } else { Threads::One };
                jobs.push(Job { threads, ..job });
            }
        }
    }
    let shared: Vec<SharedJob> = jobs.iter().flat_map(in_arena).collect();
    let tiled: Result<Vec<BudgetedJob>> = jobs.iter().filter(|job| is_in_tiles(job)).map(in_tiles).collect();
    run_all(NAME, &folder, &jobs, (&shared, &tiled?), options)
}

/// Returns `true` for the use of the first model in which its encoder computes all scores of attention at once.
fn is_in_tiles(job: &Job) -> bool {
    job.name == TASKS[1].0 && job.model.ends_with(MODELS[0].0) && job.way == Way::Preloaded
}

/// Gives the encoder a third of the bytes that it takes on ggml-alloc. It has the second of the four schedulers of a state.
fn in_tiles(job: &Job) -> Result<BudgetedJob> {
    let named = Job { name: format!("{}, in tiles", job.name), ..job.clone() };
    BudgetedJob::of_scheduler(named, ENCODER_BUDGET, &[("encoder", 2)])
}

/// Positions of the sound that the encoder has.
const POSITIONS: u64 = 1500;

/// Returns jobs in which the four schedulers of a state share memory, and those of all states. In each state the results of the
/// convolutions and of the encoder are read by other graphs.
fn in_arena(job: &Job) -> Vec<SharedJob> {
    let (model, sizes, _) = &MODELS[0];
    let is_one = IN_ARENA.contains(&job.name.as_str()) && job.model.ends_with(model);
    let states = if job.name.starts_with("3 states") { 3 } else { 1 };
    let read = states * 2 * POSITIONS * sizes.width * 4;
    // A program that is linked statically has no guard, which sees that the first graphs are never computed; and with outputs, the
    // logits of the decoder are apart too.
    let apart = |arena: &str| (job.way == Way::Preloaded && arena == ARENAS[0]).then_some(read);
    let named = || Job { name: format!("{}, arena", job.name), ..job.clone() };
    let arenas = ARENAS.into_iter().filter(|_| is_one);
    arenas.map(|arena| SharedJob { job: named(), arena, apart: apart(arena) }).collect()
}

/// Returns the uses of a model: everything with the first one and a preloaded lastuse, a part in other ways.
fn tasks(model: &str, way: Way) -> Vec<&'static (&'static str, &'static str)> {
    let step = match (model == MODELS[0].0, way) {
        (true, Way::Preloaded) => 1,
        (true, Way::Linked) | (false, Way::Preloaded) => 2,
        (false, Way::Linked) => 5,
    };
    TASKS.iter().step_by(step).collect()
}
