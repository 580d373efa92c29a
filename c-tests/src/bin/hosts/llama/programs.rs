//! The programs on a llama.cpp.

use std::path::{Path, PathBuf};

use lastuse_c_tests::{Lastuse, Program, Result, folder};
use lastuse_vendor::Ggml;

use super::LlamaHost;
use super::models::Model;
use crate::instrumentation::{COUNTER_IS_LINKED, INSTRUMENTATION, preloaded_instrumentation, static_link};
use crate::job::{Launch, Way};

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] = ["src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

/// The programs that use the models.
const SESSIONS: &str = "llama_cpp/sessions.c";

/// `llama_cpp/sessions.c` in each form, and what writes models.
pub struct Programs {
    writer: Program,
    /// `llama_cpp/rpc_server.c`
    pub rpc_server: Program,
    shared: PathBuf,
    libraries: PathBuf,
    instrumentation: PathBuf,
    lastuse: PathBuf,
    /// Without lastuse, and with.
    linked: [PathBuf; 2],
}

impl Programs {
    /// Compiles them for a host that was built.
    ///
    /// # Errors
    /// The message of the compiler or the linker.
    pub fn build(host: &LlamaHost, lastuse: &Lastuse) -> Result<Self> {
        let libraries = host.shared();
        let ggml = Ggml::built(host.package, libraries.clone())?;
        let include = format!("-I{}", host.package.sources()?.join("include").display());
        let counts = if host.counts_reallocations() { "-DCOUNTS_REALLOCATIONS" } else { "-UCOUNTS_REALLOCATIONS" };
        let name = |form: &str| format!("hosts-{}-{form}", host.name);
        let search = format!("-L{}", libraries.display());
        let shared_link = ["-Wl,--no-as-needed", &search, "-lllama", "-lggml", "-lggml-cpu", "-lggml-base"];
        let shared_link = shared_link.map(str::to_owned);
        let on_shared = |form: &str, source: &str| {
            Program::build_linked(&name(form), &[source], &ggml, &[&include, counts], &shared_link)
        };
        let on_static = |form: &str, lastuse: Option<&Lastuse>| {
            let mut link = static_link(&ggml, lastuse)?;
            let archives = STATIC.map(|archive| host.static_build().join(archive));
            link.extend(archives.map(|archive| archive.to_string_lossy().into_owned()));
            let flags = [&*include, COUNTER_IS_LINKED, counts];
            let sources = [&[SESSIONS], &INSTRUMENTATION[..]].concat();
            let program = Program::build_linked(&name(form), &sources, &ggml, &flags, &link)?;
            Ok::<_, String>(program.path().to_owned())
        };
        Ok(Self {
            writer: on_shared("writer", "captures/llama_cpp.c")?,
            rpc_server: on_shared("rpc-server", "llama_cpp/rpc_server.c")?,
            shared: on_shared("shared", SESSIONS)?.path().to_owned(),
            instrumentation: preloaded_instrumentation(host.name, &ggml)?,
            linked: [on_static("static", None)?, on_static("static-lastuse", Some(lastuse))?],
            lastuse: lastuse.shared.clone(),
            libraries,
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
        let outcome = self.writer.run_with(&arguments, &[("LD_LIBRARY_PATH", self.libraries.as_os_str())])?;
        if outcome.code == Some(0) { Ok(()) } else { Err(format!("{}: {}", model.name, outcome.describe())) }
    }

    /// The folder of the shared libraries.
    pub fn libraries(&self) -> &Path {
        &self.libraries
    }

    /// Returns how a job is run.
    pub fn launch(&self, way: Way, with_lastuse: bool) -> Launch {
        match (way, with_lastuse) {
            (Way::Preloaded, true) => {
                Launch::preloaded(&self.shared, &self.libraries, &[&self.instrumentation, &self.lastuse])
            }
            (Way::Preloaded, false) => Launch::preloaded(&self.shared, &self.libraries, &[&self.instrumentation]),
            (Way::Linked, _) => Launch::plain(&self.linked[usize::from(with_lastuse)]),
        }
    }
}
