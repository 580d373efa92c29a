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
    let demo = Demo::prepare(&llama)?;
    println!(
        "llama.cpp with ggml {}, unmodified: a llama of 4 layers with random weights, prompt {PROMPT}, {TOKENS} tokens",
        llama.ggml.version
    );
    let (on_ggml, on_lastuse) = in_turns(|| demo.generate("ggml", None), || demo.generate("lastuse", Some(&lastuse)))?;
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

struct Demo {
    folder: PathBuf,
    generate: Program,
    clock: PathBuf,
    libraries: PathBuf,
}

impl Demo {
    /// Compiles the programs and writes the model.
    fn prepare(llama: &Llama) -> Result<Self> {
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
        let demo = Self { folder, generate, clock, libraries };
        let model = demo.model();
        let written = writer.run(&[&text(&model), "--layers", "4"])?;
        if written.code == Some(0) { Ok(demo) } else { Err(written.describe()) }
    }

    fn model(&self) -> PathBuf {
        self.folder.join("llama.gguf")
    }

    fn logits(&self, name: &str) -> PathBuf {
        self.folder.join(format!("logits-{name}.bin"))
    }

    /// Decodes the prompt and generates. Both runs have the clock preloaded, which measures either allocator.
    fn generate(&self, name: &str, lastuse: Option<&Lastuse>) -> Result<Measured> {
        let report = self.folder.join(format!("report-{name}.txt"));
        let _ = fs::remove_file(&report);
        let mut preload = OsString::from(&self.clock);
        if let Some(lastuse) = lastuse {
            preload.push(" ");
            preload.push(&lastuse.shared);
        }
        let (model, logits) = (text(&self.model()), text(&self.logits(name)));
        let arguments = [&*model, "--prompt", PROMPT, "--tokens", TOKENS, "--threads", &threads(), "--logits", &logits];
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
    fn compare_logits(&self) -> Result<()> {
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

    /// Removes the model and the logits: they are large, and every run makes them anew.
    fn clean_up(&self) {
        for file in [self.model(), self.logits("ggml"), self.logits("lastuse")] {
            let _ = fs::remove_file(file);
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
