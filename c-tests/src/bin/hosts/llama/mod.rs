//! llama.cpp, built by its own build files as shared libraries and as static ones, with small models of many
//! architectures.

mod models;
mod programs;

pub use self::models::{MODELS, Model};
pub use self::programs::Programs;

use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Result, lastuse};
use lastuse_vendor::{Package, target_folder};

use crate::cmake::{ALIGNED, CmakeBuild};
use crate::job::{Job, OUTPUT, Threads, Way};
use crate::jobs::{Options, run_jobs};
use crate::packages::{Has, Needed, check};

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

/// The part of llama.cpp to build: its library, for this machine.
const SETTINGS: [&str; 9] = [
    "CMAKE_BUILD_TYPE=Release",
    "GGML_OPENMP=OFF",
    "GGML_CCACHE=OFF",
    "LLAMA_BUILD_APP=OFF",
    "LLAMA_BUILD_COMMON=OFF",
    "LLAMA_BUILD_TESTS=OFF",
    "LLAMA_BUILD_EXAMPLES=OFF",
    "LLAMA_BUILD_TOOLS=OFF",
    "LLAMA_OPENSSL=OFF",
];

/// How each model is used: with and without flash attention, with caches of both kinds.
pub const USES: [(&str, &str); 2] =
    [("flash attention", "--flash on --cache streams"), ("no flash attention", "--flash off --cache unified")];

/// Eight contexts of one model, each on its own thread.
const IN_PARALLEL: (&str, &str) = ("8 contexts in parallel", "--flash on --cache streams --contexts 8");

/// On two devices with events, where llama.cpp's scheduler reads four copies of each input in turns.
const IN_PIPELINE: (&str, &str) = ("2 devices in a pipeline", "--flash on --cache streams --gpus 2");

/// The models that are used so: attention alone, and a hybrid with experts.
const SHARED: [&str; 2] = ["llama", "granitehybrid"];

impl LlamaHost {
    /// Returns the package and its version.
    ///
    /// # Errors
    /// When cargo cannot fetch the package.
    pub fn version(&self) -> Result<String> {
        Ok(format!("{} {}", self.package.name(), self.package.version()?))
    }

    /// Returns `true` if it counts how often its scheduler has to reserve memory again for a graph.
    fn counts_reallocations(&self) -> bool {
        self.package == Package::LlamaCpp4
    }

    fn folder(&self) -> PathBuf {
        target_folder().join("hosts").join(self.name)
    }

    /// The shared libraries.
    fn shared(&self) -> PathBuf {
        self.folder().join("build/bin")
    }

    /// The folder of the static build.
    fn static_build(&self) -> PathBuf {
        self.folder().join("static/build")
    }

    /// Builds it twice: shared and static.
    ///
    /// # Errors
    /// Missing packages, or the error of the build.
    pub fn build(&self) -> Result<()> {
        check(self.name, NEEDED)?;
        let folder = self.folder();
        self.build_in(&folder, &["BUILD_SHARED_LIBS=ON", "GGML_RPC=ON"])?;
        self.build_in(&folder.join("static"), &[&["BUILD_SHARED_LIBS=OFF"], &ALIGNED[..]].concat())
    }

    fn build_in(&self, folder: &Path, more: &[&str]) -> Result<()> {
        let settings: Vec<String> = SETTINGS.iter().chain(more).map(|&setting| setting.to_owned()).collect();
        let sources = self.package.sources()?;
        let build = CmakeBuild {
            host: self.name,
            sources: &sources,
            folder,
            settings: &settings,
            target: "llama",
            inputs: &[],
        };
        build.build().map(|_| ())
    }

    /// Uses models on both allocators.
    ///
    /// # Errors
    /// A failed check.
    pub fn test(&self, options: &Options) -> Result<()> {
        let programs = Programs::build(self, &lastuse(Build::Release)?)?;
        let folder = self.folder();
        let version = self.version()?;
        let mut jobs = Vec::new();
        for model in &MODELS {
            let file = folder.join(model.name).with_extension("gguf");
            programs.write_model(model, &file)?;
            for way in [Way::Preloaded, Way::Linked] {
                let shared = SHARED.contains(&model.name).then_some([IN_PARALLEL, IN_PIPELINE]);
                let uses = USES.into_iter().chain(shared.into_iter().flatten());
                jobs.extend(uses.map(|used| job(&version, model, &file, used, way, &programs)));
            }
        }
        run_jobs(self.name, &folder, &jobs, options)
    }
}

fn job(version: &str, model: &Model, file: &Path, used: (&str, &str), way: Way, programs: &Programs) -> Job {
    let (name, arguments) = used;
    let mut all = vec![file.to_string_lossy().into_owned(), "--output".to_owned(), OUTPUT.to_owned()];
    // Threads of ggml wait for each other by spinning: with one, other programs disturb the measurement less.
    all.extend(arguments.split(' ').chain(["--threads", "1"]).map(str::to_owned));
    Job {
        host: "llama.cpp",
        version: version.to_owned(),
        model: format!("{}: {}", model.name, model.kind),
        name: name.to_owned(),
        way,
        arguments: all,
        unit: "tokens",
        threads: if name == IN_PARALLEL.0 { Threads::SeveralWithAllocators } else { Threads::One },
        without: programs.launch(way, false),
        with: programs.launch(way, true),
    }
}
