//! llama.cpp, built by its own build files, as a shared library and as a static one.

use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Lastuse, Program, Result, lastuse};
use lastuse_vendor::{Ggml, Package, target_folder};

use crate::cmake::CmakeBuild;
use crate::job::{Job, Launch, OUTPUT, Way};
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

const NEEDED: &[Needed] = &[Needed { package: "cmake", has: Has::Program("cmake") }];

/// What is built of llama.cpp: its library, for this machine.
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

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] = ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

impl LlamaHost {
    fn folder(&self) -> PathBuf {
        target_folder().join("hosts").join(self.name)
    }

    /// Builds it twice: shared and static.
    ///
    /// # Errors
    /// Missing packages, or what the build says.
    pub fn build(&self) -> Result<()> {
        check(self.name, NEEDED)?;
        let folder = self.folder();
        self.build_in(&folder, &["BUILD_SHARED_LIBS=ON", "GGML_RPC=ON"])?;
        self.build_in(&folder.join("static"), &["BUILD_SHARED_LIBS=OFF"])
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

    /// Runs models on both allocators.
    ///
    /// # Errors
    /// What is not as promised.
    pub fn test(&self, options: &Options) -> Result<()> {
        let folder = self.folder();
        let programs = Programs::build(self, &lastuse(Build::Release)?)?;
        let model = folder.join("llama.gguf");
        let own_ggml = lastuse_vendor::ggml(Package::LlamaCpp)?;
        let writer =
            Program::build("write-gguf", &["llama_cpp/write_gguf.c"], &own_ggml, lastuse_c_tests::Linked::Ggml, &[])?;
        let path = model.to_string_lossy();
        let written = writer.run(&[&path, "--layers", "4", "--width", "512", "--ffn", "1024", "--vocab", "4096"])?;
        if written.code != Some(0) {
            return Err(written.describe());
        }
        let version = format!("{} {}", self.package.name(), self.package.version()?);
        let job = |way, flash: &str| Job {
            host: "llama.cpp",
            version: version.clone(),
            model: "llama".to_owned(),
            name: format!("flash attention {flash}"),
            way,
            arguments: [&path, "--threads", "1", "--flash", flash, "--logits", OUTPUT].map(str::to_owned).to_vec(),
            unit: "tokens",
            without: programs.launch(way, false),
            with: programs.launch(way, true),
        };
        let ways = [Way::Preloaded, Way::Linked];
        let jobs: Vec<Job> = ways.iter().flat_map(|&way| ["on", "off"].map(|flash| job(way, flash))).collect();
        run_jobs(self.name, &folder, &jobs, options)
    }
}

/// A program on llama.cpp, in each form.
struct Programs {
    shared: PathBuf,
    libraries: PathBuf,
    counter: PathBuf,
    lastuse: PathBuf,
    /// Without lastuse, and with.
    linked: [PathBuf; 2],
}

/// Where the counter of buffers stands between a linked program and its allocator.
const COUNTED: [&str; 8] = [
    "ggml_gallocr_new_n",
    "ggml_gallocr_new",
    "ggml_gallocr_free",
    "ggml_gallocr_reserve",
    "ggml_gallocr_reserve_n",
    "ggml_gallocr_alloc_graph",
    "ggml_backend_buft_alloc_buffer",
    "ggml_backend_buffer_free",
];

impl Programs {
    fn build(host: &LlamaHost, lastuse: &Lastuse) -> Result<Self> {
        let folder = host.folder();
        let libraries = folder.join("build/bin");
        let ggml = Ggml::built(host.package, libraries.clone())?;
        let sources = host.package.sources()?;
        let include = format!("-I{}", sources.join("include").display());
        let name = |form: &str| format!("hosts-{}-{form}", host.name);
        let counter = Program::build_shared(&name("buffer-counter.so"), &["hosts/buffer_counter.c"], &ggml, &[])?;
        let search = format!("-L{}", libraries.display());
        let shared = ["-Wl,--no-as-needed", &search, "-lllama", "-lggml", "-lggml-cpu", "-lggml-base"];
        let shared = shared.map(str::to_owned);
        let program = &["llama_cpp/generate.c"];
        let shared = Program::build_linked(&name("shared"), program, &ggml, &[&include], &shared)?;
        let build_static = |form: &str, lastuse: Option<&Lastuse>| {
            let mut link: Vec<String> = COUNTED.iter().map(|function| format!("-Wl,--wrap={function}")).collect();
            link.extend(lastuse.map(|_| "-Wl,-u,ggml_gallocr_new_n,-u,lastuse_plan_count".to_owned()));
            link.extend(lastuse.map(|lastuse| lastuse.archive.to_string_lossy().into_owned()));
            let archives = STATIC.map(|archive| folder.join("static/build").join(archive));
            link.extend(archives.map(|archive| archive.to_string_lossy().into_owned()));
            let sources = &["llama_cpp/generate.c", "hosts/buffer_counter.c"];
            let flags = [&*include, "-DCOUNTER_WRAPS"];
            let program = Program::build_linked(&name(form), sources, &ggml, &flags, &link)?;
            Ok::<_, String>(program.path().to_owned())
        };
        let linked = [build_static("static", None)?, build_static("static-lastuse", Some(lastuse))?];
        let shared = shared.path().to_owned();
        Ok(Self { shared, libraries, counter, lastuse: lastuse.shared.clone(), linked })
    }

    fn launch(&self, way: Way, with_lastuse: bool) -> Launch {
        match (way, with_lastuse) {
            (Way::Preloaded, true) => Launch::preloaded(&self.shared, &self.libraries, &[&self.counter, &self.lastuse]),
            (Way::Preloaded, false) => Launch::preloaded(&self.shared, &self.libraries, &[&self.counter]),
            (Way::Linked, _) => Launch::plain(&self.linked[usize::from(with_lastuse)]),
        }
    }
}
