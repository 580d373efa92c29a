//! The programs on a llama.cpp.

use std::path::Path;

use lastuse_c_tests::{Program, Result, folder};

use super::LlamaHost;
use super::models::Model;
use crate::job::{Job, OUTPUT, Way};
use crate::programs::{Driver, Programs};

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] = ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

/// Those that come before them where [projectors](LlamaHost::has_projectors) are used.
const PROJECTORS: [&str; 2] = ["tools/mtmd/libmtmd.a", "vendor/hash/libvendor-hash.a"];

/// `llama_cpp/sessions.c` in each form, and programs on the shared libraries.
pub struct LlamaPrograms {
    /// What uses the models.
    pub sessions: Programs,
    /// `llama_cpp/rpc_server.c`
    pub rpc_server: Program,
    /// `llama_cpp/finetune.c`, where its llama.cpp has the functions that it calls.
    finetune: Option<[Program; 2]>,
    writer: Program,
    projector_writer: Program,
}

impl LlamaPrograms {
    /// Compiles them for a host that was built.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build(host: &LlamaHost) -> Result<Self> {
        let sources = host.package.sources()?;
        let include = |folder: &str| format!("-I{}", sources.join(folder).display());
        let (include, projectors_include) = (include("include"), include("tools/mtmd"));
        let counts = if host.counts_reallocations() { "-DCOUNTS_REALLOCATIONS" } else { "-UCOUNTS_REALLOCATIONS" };
        let mut flags = vec![include.as_str(), counts];
        let (mut shared, mut archives) = (vec!["llama"], STATIC.to_vec());
        if host.has_projectors() {
            flags.extend(["-DHAS_PROJECTORS", &projectors_include]);
            shared.insert(0, "mtmd");
            archives.splice(..0, PROJECTORS);
        }
        let driver = Driver {
            host: host.name,
            title: "llama.cpp",
            unit: "tokens",
            package: host.package,
            source: "llama_cpp/sessions.c",
            flags: &flags,
            libraries: host.folder().join("build/bin"),
            shared: &shared,
            archives: archives.iter().map(|archive| host.folder().join("static/build").join(archive)).collect(),
        };
        let finetune = || {
            let sources = ["finetune", "write_gguf"];
            let [program, writer] = sources.map(|name| driver.build_shared(name, &format!("llama_cpp/{name}.c")));
            Ok::<_, String>([program?, writer?])
        };
        Ok(Self {
            finetune: if host.has_projectors() { Some(finetune()?) } else { None },
            sessions: driver.build()?,
            rpc_server: driver.build_shared("rpc-server", "llama_cpp/rpc_server.c")?,
            writer: driver.build_shared("writer", "captures/llama_cpp.c")?,
            projector_writer: driver.build_shared("projector-writer", "llama_cpp/write_projector.c")?,
        })
    }

    /// Writes a model with random weights.
    ///
    /// # Errors
    /// The error of the program.
    pub fn write_model(&self, model: &Model, file: &Path) -> Result<()> {
        let description = folder().join("hosts/llama/models").join(format!("{}.txt", model.name));
        let (file, description) = (file.to_string_lossy(), description.to_string_lossy());
        let options = ["--what", "random", "--layers", model.layers, "--vocab", "1024", "--seed", "1"];
        let arguments: Vec<&str> = [&*file, "--model", &description].into_iter().chain(options).collect();
        self.run(&self.writer, &arguments).map_err(|error| format!("{}: {error}", model.name))
    }

    /// Returns a job that trains a model, which is written to `file`, if that is tested with this llama.cpp.
    ///
    /// # Errors
    /// The error of the program that writes the model.
    pub fn finetune(&self, file: &Path) -> Result<Option<Job>> {
        let Some([program, writer]) = &self.finetune else { return Ok(None) };
        let file = file.to_string_lossy();
        let shape = "--type f32 --layers 4 --width 128 --heads 4 --kv-heads 2 --ffn 256 --vocab 256 --context 256";
        let arguments: Vec<&str> = std::iter::once(&*file).chain(shape.split(' ')).collect();
        self.run(writer, &arguments)?;
        let arguments = [&*file, "--output", OUTPUT].map(str::to_owned).to_vec();
        let mut job = self.sessions.job(Way::Preloaded, ["llama: dense, F32", "trained"], arguments);
        for launch in [&mut job.without, &mut job.with] {
            launch.program = program.path().to_owned();
        }
        // A training reserves nothing.
        Ok(Some(Job { may_reallocate: true, ..job }))
    }

    /// Writes a projector of images for models of 512 numbers a token, with random weights.
    ///
    /// # Errors
    /// The error of the program.
    pub fn write_projector(&self, file: &Path) -> Result<()> {
        self.run(&self.projector_writer, &[&*file.to_string_lossy(), "--projection", "512", "--seed", "1"])
    }

    /// Runs a program on the shared libraries.
    fn run(&self, program: &Program, arguments: &[&str]) -> Result<()> {
        let outcome = program.run_with(arguments, &[("LD_LIBRARY_PATH", self.sessions.libraries().as_os_str())])?;
        if outcome.code == Some(0) { Ok(()) } else { Err(outcome.describe()) }
    }
}
