//! llama.cpp, built by its own build files as shared libraries and as static ones, with small models of many
//! architectures.

mod models;
mod programs;

pub use self::models::{MODELS, Model};
pub use self::programs::LlamaPrograms;

use std::path::{Path, PathBuf};

use lastuse_c_tests::Result;
use lastuse_c_tests::cmake::CmakeBuild;
use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_vendor::{Package, target_folder};

use crate::changed::{BudgetedJob, SharedJob, run_all};
use crate::job::{Job, OUTPUT, Threads, Way};
use crate::jobs::Options;

/// A llama.cpp.
pub struct LlamaHost {
    /// Its name on the command line.
    name: &'static str,
    package: Package,
}

/// The llama.cpp that most tests use.
pub const LLAMA: LlamaHost = LlamaHost { name: "llama", package: Package::LlamaCpp };

/// A later one.
pub const LLAMA_4: LlamaHost = LlamaHost { name: "llama-4", package: Package::LlamaCpp4 };

/// An older one, whose RPC backend remembers no sizes.
pub const LLAMA_OLDER: LlamaHost = LlamaHost { name: "llama-older", package: Package::LlamaCppOlder };

const NEEDED: &[Needed] = &[Needed { package: "cmake", has: Has::Program("cmake") }];

/// The part of llama.cpp to build: its library.
pub const SETTINGS: [&str; 6] = [
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_COMMON=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_TOOLS=OFF",
    "LLAMA_OPENSSL=OFF",
];

/// What makes embeddings of images, libmtmd, is built too.
const WITH_PROJECTORS: &str = "LLAMA_BUILD_MTMD=ON";

/// How each model is used: with and without flash attention, with caches of both kinds.
pub const USES: [(&str, &str); 2] =
    [("flash attention", "--flash on --cache streams"), ("no flash attention", "--flash off --cache unified")];

/// Eight contexts of one model, each on its own thread.
const IN_PARALLEL: (&str, &str) = ("8 contexts in parallel", "--flash on --cache streams --contexts 8");

/// On two devices with events, where llama.cpp's scheduler reads four copies of each input in turns.
const IN_PIPELINE: (&str, &str) = ("2 devices in a pipeline", "--flash on --cache streams --gpus 2");

/// The models that are used so: attention alone, and a hybrid with experts.
const SHARED: [&str; 2] = ["llama", "granitehybrid"];

/// Large caches, of which a part is used.
struct LargeCaches {
    name: &'static str,
    arguments: &'static str,
    models: &'static [&'static str],
    /// See [`Job::most_resident`].
    most_resident: f64,
}

/// Attention alone, sliding windows, and a hybrid with recurrent states.
const WITH_LARGE_CACHES: &[&str] = &["llama", "gemma3", "granitehybrid"];

/// Pages of caches that are taken on demand are taken where the model computes, and not where caches are made and cleared: the
/// time of all counts.
const LARGE_CACHES: [LargeCaches; 4] = [
    LargeCaches {
        name: "large caches",
        arguments: "--flash on --cache streams --cells 32768 --time all",
        models: WITH_LARGE_CACHES,
        most_resident: 0.55,
    },
    LargeCaches {
        name: "large caches, q8_0",
        arguments: "--flash on --cache unified --cells 32768 --cells-type q8_0 --time all",
        models: WITH_LARGE_CACHES,
        most_resident: 0.93,
    },
    LargeCaches {
        name: "large caches, no flash attention",
        arguments: "--flash off --cache unified --cells 8192 --time all",
        models: &["llama"],
        most_resident: 0.6,
    },
    LargeCaches {
        name: "large caches, on the host of 2 devices",
        arguments: "--flash on --cache streams --cells 32768 --cells-on host --gpus 2 --time all",
        models: &["llama"],
        most_resident: 0.7,
    },
];

/// Contexts that take turns: two of a model, and of two models, where the other one is `llama`, which drafts for the first one, or
/// for itself, so that all is kept. Last, a model and a projector that makes embeddings of images for it.
const IN_TURNS: [(&str, &str, &str); 9] = [
    ("llama", "3 contexts in turns", "--flash on --cache streams --contexts 3 --turns on"),
    ("qwen3moe", "in turns with llama", "--flash off --cache unified --contexts 2 --turns on --other {llama}"),
    ("gemma3", "in turns with llama", "--flash on --cache streams --contexts 2 --turns on --other {llama}"),
    ("llama", "2 pipelines of two devices in turns", "--flash on --cache unified --gpus 2 --contexts 2 --turns on"),
    (
        "qwen3moe",
        "speculative in turns with llama",
        "--flash on --cache unified --contexts 2 --speculate 4 --other {llama}",
    ),
    ("llama", "speculative in turns with itself", "--flash on --cache unified --contexts 2 --speculate 4"),
    ("llama", "in turns with a projector", "--flash on --cache streams --projector {projector}"),
    ("llama", "in turns with a projector, no flash attention", "--flash off --cache streams --projector {projector}"),
    (
        "llama",
        "2 contexts in turns with projectors",
        "--flash on --cache unified --contexts 2 --turns on --projector {projector}",
    ),
];

/// The bytes of the compute buffer of a training: half of what it takes otherwise.
const FOR_TRAINING: u64 = 3 << 20;

/// Models whose scores of attention, without flash attention and with a long context, are computed in tiles.
const IN_TILES: [&str; 3] = ["llama", "qwen3moe", "deepseek2"];
/// How these run.
pub const IN_TILES_WITH: &str = "--flash off --cache unified --cells 8192";

/// The bytes that their compute buffer may take: a fourth of what it takes otherwise, at most.
const BUDGET: u64 = 96 << 20;

impl LlamaHost {
    /// Returns `true` if it counts how often its scheduler has to reserve memory again for a graph.
    fn counts_reallocations(&self) -> bool {
        self.package == Package::LlamaCpp4
    }

    /// Returns `true` if its libmtmd is used: that of one version is enough.
    fn has_projectors(&self) -> bool {
        self.package == Package::LlamaCpp
    }

    fn folder(&self) -> PathBuf {
        target_folder().join("hosts").join(self.name)
    }

    /// Builds it twice: shared and static.
    ///
    /// # Errors
    /// Missing packages, or the error of the build.
    pub fn build(&self) -> Result<()> {
        check(self.name, NEEDED)?;
        let (sources, folder) = (self.package.sources()?, self.folder());
        let host = self.name;
        let mut settings = SETTINGS.to_vec();
        settings.extend(self.has_projectors().then_some(WITH_PROJECTORS));
        // What libmtmd needs is built before it.
        let target = if self.has_projectors() { "mtmd" } else { "llama" };
        let build = CmakeBuild { host, sources: &sources, folder: &folder, settings: &settings, target, inputs: &[] };
        build.build_shared_and_static(&["BUILD_SHARED_LIBS=ON", "GGML_RPC=ON"], &["BUILD_SHARED_LIBS=OFF"])
    }

    /// Uses models on both allocators.
    ///
    /// # Errors
    /// A failed check.
    pub fn test(&self, options: &Options) -> Result<()> {
        let programs = LlamaPrograms::build(self)?;
        let folder = self.folder();
        let mut jobs = Vec::new();
        for model in &MODELS {
            let file = folder.join(model.name).with_extension("gguf");
            programs.write_model(model, &file)?;
            for way in [Way::Preloaded, Way::Linked] {
                let shared = SHARED.contains(&model.name).then_some([IN_PARALLEL, IN_PIPELINE]);
                let uses = USES.into_iter().chain(shared.into_iter().flatten());
                jobs.extend(uses.map(|used| job(&programs, model, &file, used, way)));
                let large = LARGE_CACHES.iter().filter(|large| large.models.contains(&model.name));
                jobs.extend(large.map(|large| Job {
                    most_resident: Some(large.most_resident),
                    ..job(&programs, model, &file, (large.name, large.arguments), way)
                }));
            }
        }
        if self.has_projectors() {
            programs.write_projector(&projector(&folder))?;
        }
        let mut tiled = in_tiles(&programs, &folder)?;
        if let Some(trained) = programs.finetune(&folder.join("trained.gguf"))? {
            tiled.push(BudgetedJob::of_training(trained, FOR_TRAINING, &[("compute buffer", 2)])?);
        }
        let turns = in_turns(self, &programs, &folder);
        run_all(self.name, &folder, &jobs, (&turns, &tiled), options)
    }
}

fn projector(folder: &Path) -> PathBuf {
    folder.join("projector.gguf")
}

/// Returns the jobs whose graphs are tiled before the scheduler gets them, for which the guard is preloaded.
fn in_tiles(programs: &LlamaPrograms, folder: &Path) -> Result<Vec<BudgetedJob>> {
    let models = IN_TILES.iter().filter_map(|name| MODELS.iter().find(|model| model.name == *name));
    let budgeted = |model: &Model| {
        let file = folder.join(model.name).with_extension("gguf");
        let job = job(programs, model, &file, ("in tiles", IN_TILES_WITH), Way::Preloaded);
        BudgetedJob::of_scheduler(job, BUDGET, &[("compute buffer", 1)])
    };
    models.map(budgeted).collect()
}

/// Returns the jobs whose contexts take turns.
fn in_turns(host: &LlamaHost, programs: &LlamaPrograms, folder: &Path) -> Vec<SharedJob> {
    let file = |name: &str| folder.join(name).with_extension("gguf");
    let model = |name: &str| MODELS.iter().find(|model| model.name == name);
    let jobs = [Way::Preloaded, Way::Linked].into_iter().flat_map(|way| IN_TURNS.map(|turns| (way, turns)));
    // Schedulers of devices share where the guard is preloaded.
    let jobs = jobs.filter(|(way, (_, _, arguments))| *way == Way::Preloaded || !arguments.contains("--gpus"));
    let jobs = jobs.filter(|(_, (_, _, arguments))| host.has_projectors() || !arguments.contains("--projector"));
    jobs.filter_map(|(way, (name, used, arguments))| {
        let arguments = arguments
            .replace("{llama}", &file("llama").to_string_lossy())
            .replace("{projector}", &projector(folder).to_string_lossy());
        let job = job(programs, model(name)?, &file(name), (used, &arguments), way);
        Some(SharedJob { job, arena: "shared", apart: Some(0) })
    })
    .collect()
}

fn job(programs: &LlamaPrograms, model: &Model, file: &Path, (name, arguments): (&str, &str), way: Way) -> Job {
    let mut all = vec![file.to_string_lossy().into_owned(), "--output".to_owned(), OUTPUT.to_owned()];
    // Threads of ggml wait for each other by spinning: with one, other programs disturb the measurement less.
    all.extend(arguments.split(' ').chain(["--threads", "1"]).map(str::to_owned));
    let job = programs.sessions.job(way, [&format!("{}: {}", model.name, model.kind), name], all);
    let threads = if name == IN_PARALLEL.0 { Threads::SeveralWithAllocators } else { Threads::One };
    Job { threads, ..job }
}
