//! llama.cpp itself, as it is and with lastuse preloaded.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::{Build, Lastuse, Linked, Program, Result, lastuse};
use lastuse_vendor::{Llama, llama, target_folder};

use crate::table::{self, Measured, in_turns};
use crate::threads;

const PROMPT: &str = "512";
const TOKENS: &str = "32";

/// Runs llama.cpp on both allocators.
///
/// # Errors
/// When something cannot be built, or the results differ.
pub fn run() -> Result<()> {
    let llama = llama()?;
    let lastuse = lastuse(Build::Release)?;
    let demo = Demo::prepare(&llama, None, &["--layers", "4"])?;
    let sizes = ["--prompt", PROMPT, "--tokens", TOKENS];
    println!(
        "llama.cpp with ggml {}, unmodified: a llama of 4 layers with random weights, prompt {PROMPT}, {TOKENS} tokens",
        llama.ggml.version
    );
    let (on_ggml, on_lastuse) =
        in_turns(|| demo.generate("ggml", None, &sizes), || demo.generate("lastuse", Some(&lastuse), &sizes))?;
    table::print(&on_ggml, &on_lastuse)?;
    table::compare_hashes(&on_ggml, &on_lastuse)?;
    demo.compare_logits()?;
    println!("To do the same to your own program on shared ggml libraries:");
    println!("  cargo build --release -p lastuse");
    println!("  LD_PRELOAD=$PWD/target/release/liblastuse.so ./llama-cli -m model.gguf");
    println!("  LASTUSE=off LD_PRELOAD=... ./llama-cli -m model.gguf    # the original, to compare");
    demo.clean_up();
    Ok(())
}

/// A program on llama.cpp, and its model.
pub struct Demo {
    folder: PathBuf,
    model: PathBuf,
    is_own_model: bool,
    generate: Program,
    clock: PathBuf,
    libraries: PathBuf,
}

impl Demo {
    /// Compiles the programs, and writes a model of these shapes unless there is one.
    pub fn prepare(llama: &Llama, model: Option<&Path>, shapes: &[&str]) -> Result<Self> {
        let folder = target_folder().join("demo");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let includes: Vec<&str> = llama.include_flags.iter().map(String::as_str).collect();
        let ggml = &llama.ggml;
        let libraries = ggml.libraries.clone();
        let writer = Program::build("write-gguf", &["llama_cpp/write_gguf.c"], ggml, Linked::Ggml, &includes)?;
        let search = format!("-L{}", libraries.display());
        let link = ["-Wl,--no-as-needed", &search, "-lllama", "-lggml"];
        let flags: Vec<&str> = includes.iter().copied().chain(link).collect();
        let generate = Program::build("generate", &["llama_cpp/generate.c"], ggml, Linked::SharedGgml, &flags)?;
        let clock = Program::build_shared("liballocator_clock.so", &["llama_cpp/allocator_clock.c"], ggml, &[])?;
        let own = folder.join("llama.gguf");
        if model.is_none() {
            let own = text(&own);
            let arguments: Vec<&str> = [own.as_str()].into_iter().chain(shapes.iter().copied()).collect();
            let written = writer.run(&arguments)?;
            if written.code != Some(0) {
                return Err(written.describe());
            }
        }
        let is_own_model = model.is_none();
        let model = model.map_or(own, Path::to_path_buf);
        Ok(Self { folder, model, is_own_model, generate, clock, libraries })
    }

    fn logits(&self, name: &str) -> PathBuf {
        self.folder.join(format!("logits-{name}.bin"))
    }

    /// Decodes the prompt and generates. Both runs have the clock preloaded, which measures either allocator.
    pub fn generate(&self, name: &str, lastuse: Option<&Lastuse>, sizes: &[&str]) -> Result<Measured> {
        let report = self.folder.join(format!("report-{name}.txt"));
        let _ = fs::remove_file(&report);
        let mut preload = OsString::from(&self.clock);
        if let Some(lastuse) = lastuse {
            preload.push(" ");
            preload.push(&lastuse.shared);
        }
        let (model, logits, threads) = (text(&self.model), text(&self.logits(name)), threads());
        let mut arguments = vec![&*model, "--threads", &threads, "--logits", &logits];
        arguments.extend(sizes);
        let variables = [
            ("LD_PRELOAD", preload.as_os_str()),
            ("ALLOCATOR_CLOCK_REPORT", report.as_os_str()),
            ("LD_LIBRARY_PATH", self.libraries.as_os_str()),
        ];
        let outcome = self.generate.run_with(&arguments, &variables)?;
        if outcome.code != Some(0) {
            return Err(outcome.describe());
        }
        let measured = fs::read_to_string(&report).map_err(|error| format!("{}: {error}", report.display()))?;
        Ok(Measured::from_lines(&(outcome.stdout + &measured)))
    }

    /// Compares every logit of the prompt's last token and of each generated one.
    pub fn compare_logits(&self) -> Result<()> {
        let read = |name: &str| {
            let file = self.logits(name);
            fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))
        };
        let [ggml, lastuse] = [read("ggml")?, read("lastuse")?];
        if ggml.is_empty() || ggml != lastuse {
            return Err("the logits differ: this is a defect of lastuse, please report it".to_owned());
        }
        println!("All {} logits are the same, bit for bit.\n", ggml.len() / size_of::<f32>());
        Ok(())
    }

    /// Removes the model that it wrote, and the logits: they are large, and every run makes them anew.
    pub fn clean_up(&self) {
        let model = self.is_own_model.then(|| self.model.clone());
        for file in model.into_iter().chain([self.logits("ggml"), self.logits("lastuse")]) {
            let _ = fs::remove_file(file);
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
