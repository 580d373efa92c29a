//! The programs on a llama.cpp.

use std::path::Path;

use lastuse_c_tests::{Program, Result, folder};

use super::LlamaHost;
use super::models::Model;
use crate::programs::{Driver, Programs};

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] = ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

/// `llama_cpp/sessions.c` in each form, and programs on the shared libraries.
pub struct LlamaPrograms {
    /// What uses the models.
    pub sessions: Programs,
    /// `llama_cpp/rpc_server.c`
    pub rpc_server: Program,
    writer: Program,
}

impl LlamaPrograms {
    /// Compiles them for a host that was built.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build(host: &LlamaHost) -> Result<Self> {
        let include = format!("-I{}", host.package.sources()?.join("include").display());
        let counts = if host.counts_reallocations() { "-DCOUNTS_REALLOCATIONS" } else { "-UCOUNTS_REALLOCATIONS" };
        let driver = Driver {
            host: host.name,
            title: "llama.cpp",
            unit: "tokens",
            package: host.package,
            source: "llama_cpp/sessions.c",
            flags: &[&include, counts],
            libraries: host.folder().join("build/bin"),
            shared: &["llama"],
            archives: STATIC.map(|archive| host.folder().join("static/build").join(archive)).to_vec(),
        };
        Ok(Self {
            sessions: driver.build()?,
            rpc_server: driver.build_shared("rpc-server", "llama_cpp/rpc_server.c")?,
            writer: driver.build_shared("writer", "captures/llama_cpp.c")?,
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
        let outcome =
            self.writer.run_with(&arguments, &[("LD_LIBRARY_PATH", self.sessions.libraries().as_os_str())])?;
        if outcome.code == Some(0) { Ok(()) } else { Err(format!("{}: {}", model.name, outcome.describe())) }
    }
}
