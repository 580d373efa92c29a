//! The graphs that are committed, and the programs that write them.
//!
//! Names begin with the family; `cargo capture` writes the files anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lastuse_vendor::{Ggml, Package, ggml, llama, target_folder, whisper};

use crate::graph_files::{captured_graphs, read_compressed, write_compressed};
use crate::{Linked, Program, Result, folder};

/// The models of `captures/llama_cpp/models`, captured with 8 layers.
const MODELS: [&str; 27] = [
    "bamba",
    "bloom",
    "command-r",
    "dbrx",
    "deepseek2",
    "falcon-h1",
    "gemma3",
    "gemma3n",
    "glm4moe",
    "gpt-oss",
    "gpt2",
    "granitehybrid",
    "jamba",
    "lfm2",
    "llama",
    "llama-moe",
    "llama4",
    "mamba2",
    "nemotron_h",
    "olmoe",
    "phi2",
    "plamo2",
    "qwen2",
    "qwen3",
    "qwen3moe",
    "qwen3next",
    "starcoder2",
];

/// The one whose graph is the same with either attention: it has none.
const WITHOUT_ATTENTION: &str = "mamba2";

/// The models that are captured with 48 layers too.
const DEEP_MODELS: [&str; 7] = ["deepseek2", "falcon-h1", "gemma3", "llama", "plamo2", "qwen3moe", "qwen3next"];

/// Settings of llama.cpp: the family, the vocabulary, and whether attention is flash attention.
const SETTINGS: [(&str, &str, &str); 3] =
    [("flash-v32k", "32000", "on"), ("flash-v128k", "128256", "on"), ("noflash-v128k", "128256", "off")];

/// The graphs of whisper.cpp.
const WHISPER_GRAPHS: [&str; 4] = ["conv", "encode", "cross", "decode"];

/// The one that is the same with either attention: it has none.
const WHISPER_WITHOUT_ATTENTION: &str = "conv";

/// The models of whisper.cpp, with layers, width, heads, mel bands, vocabulary, and whether attention is flash attention.
const WHISPER_MODELS: [(&str, [&str; 6]); 3] = [
    ("base", ["6", "512", "8", "80", "51865", "on"]),
    ("large-v3", ["32", "1280", "20", "128", "51866", "on"]),
    ("large-v3-softmax", ["32", "1280", "20", "128", "51866", "off"]),
];

/// What the other programs are asked for, by the name of the graph.
const OTHERS: [(&str, Generator, &[&str]); 15] = [
    ("branches-googlenet", Generator::Branches, &["--network", "googlenet"]),
    ("branches-mixture", Generator::Branches, &["--network", "mixture"]),
    ("branches-mixture-wide", Generator::Branches, &["--network", "mixture-wide"]),
    ("branches-random-wiring", Generator::Branches, &["--network", "random-wiring"]),
    ("llama-8-flash", Generator::LlamaStyle, &["--attention", "flash"]),
    ("llama-8-softmax", Generator::LlamaStyle, &["--attention", "softmax"]),
    ("llama-48-flash", Generator::LlamaStyle, LLAMA_48),
    ("sd-sd1-unet-512", Generator::Diffusion, &["--network", "sd1-unet"]),
    ("sd-sd1-unet-512-flash", Generator::Diffusion, &["--network", "sd1-unet", "--flash", "on"]),
    ("sd-sdxl-unet-1024", Generator::Diffusion, &["--network", "sdxl-unet", "--image", "1024"]),
    ("sd-sdxl-unet-1024-flash", Generator::Diffusion, &["--network", "sdxl-unet", "--image", "1024", "--flash", "on"]),
    ("sd-vae-decoder-512", Generator::Diffusion, &["--network", "vae-decoder"]),
    ("sd-vae-decoder-512-flash", Generator::Diffusion, &["--network", "vae-decoder", "--flash", "on"]),
    ("train-4-256", Generator::Training, &[]),
    ("train-8-512", Generator::Training, TRAIN_8),
];

const LLAMA_48: &[&str] = &["--layers", "48", "--width", "4096", "--heads", "32", "--kv-heads", "8", "--ffn", "11008"];
const TRAIN_8: &[&str] = &["--layers", "8", "--width", "512", "--heads", "8", "--tokens", "512", "--vocab", "8192"];

/// A program that writes a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generator {
    /// `captures/branches.c`
    Branches,
    /// `captures/diffusion.c`
    Diffusion,
    /// `captures/llama_cpp.c`, on all of llama.cpp.
    LlamaCpp,
    /// `llama_style.c`
    LlamaStyle,
    /// `captures/training.c`
    Training,
    /// `captures/whisper_cpp.c`, on all of whisper.cpp.
    WhisperCpp,
}

/// One committed graph.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its name.
    pub name: String,
    /// The program that writes it.
    pub generator: Generator,
    arguments: Vec<String>,
}

impl Capture {
    /// Every graph that is committed.
    pub fn all() -> Vec<Self> {
        let others = OTHERS.iter().map(|&(name, generator, options)| Self {
            name: name.to_owned(),
            generator,
            arguments: options.iter().map(|&option| option.to_owned()).collect(),
        });
        let shallow = SETTINGS.iter().flat_map(|&(family, vocabulary, flash)| {
            let models = MODELS.iter().filter(move |&&model| flash == "on" || model != WITHOUT_ATTENTION);
            models.map(move |model| Self::of_llama_cpp(family, model, "8", vocabulary, flash))
        });
        let deep = DEEP_MODELS.iter().map(|model| Self::of_llama_cpp("deep48", model, "48", "32000", "on"));
        let whisper = WHISPER_MODELS.iter().flat_map(|(model, sizes)| {
            let graphs =
                WHISPER_GRAPHS.iter().filter(move |&&graph| sizes[5] == "on" || graph != WHISPER_WITHOUT_ATTENTION);
            graphs.map(move |graph| Self::of_whisper_cpp(model, *sizes, graph))
        });
        let mut all: Vec<Self> = others.chain(shallow).chain(deep).chain(whisper).collect();
        all.sort_by(|left, right| left.name.cmp(&right.name));
        all
    }

    fn of_llama_cpp(family: &str, model: &str, layers: &str, vocabulary: &str, flash: &str) -> Self {
        let description = folder().join("captures/llama_cpp/models").join(format!("{model}.txt"));
        let description = description.to_string_lossy();
        let options = ["--model", &description, "--layers", layers, "--vocab", vocabulary, "--flash", flash];
        let arguments = options.map(str::to_owned).into();
        Self { name: format!("{family}-{model}"), generator: Generator::LlamaCpp, arguments }
    }

    fn of_whisper_cpp(model: &str, sizes: [&str; 6], graph: &str) -> Self {
        let names = ["--layers", "--width", "--heads", "--mels", "--vocab", "--flash"];
        let options = names.into_iter().zip(sizes).flat_map(|(name, value)| [name, value]);
        let arguments = options.chain(["--graph", graph]).map(str::to_owned).collect();
        Self { name: format!("whisper-{model}-{graph}"), generator: Generator::WhisperCpp, arguments }
    }

    /// The committed file.
    pub fn path(&self) -> PathBuf {
        captured_graphs().join(&self.name).with_extension("jsonl.gz")
    }

    /// The text of the graph, captured anew.
    ///
    /// # Errors
    /// When the program cannot be built, or fails.
    pub fn text(&self) -> Result<String> {
        let out = target_folder().join("c-tests").join(format!("{}.{}.jsonl", self.name, std::process::id()));
        let (program, libraries) = self.generator.program()?;
        let out_text = out.to_string_lossy();
        let mut arguments: Vec<&str> = match self.generator {
            Generator::LlamaStyle => vec!["--capture", &out_text],
            _ => vec![&out_text],
        };
        arguments.extend(self.arguments.iter().map(String::as_str));
        let outcome = program.run_with(&arguments, &[("LD_LIBRARY_PATH", libraries.as_os_str())])?;
        let text = fs::read_to_string(&out);
        let _ = fs::remove_file(&out);
        match text {
            Ok(text) if outcome.code == Some(0) => Ok(text),
            _ => Err(format!("{}: {}", self.name, outcome.describe())),
        }
    }

    /// Captures the graph anew and commits it to its file. Answers whether that has changed.
    ///
    /// # Errors
    /// When the program cannot be built, fails, or the file cannot be written.
    pub fn update(&self) -> Result<bool> {
        let (text, path) = (self.text()?, self.path());
        let changed = read_compressed(&path).ok().is_none_or(|old| old != text);
        if changed {
            write_compressed(&path, &text)?;
        }
        Ok(changed)
    }

    /// Is the committed file what the program writes today?
    ///
    /// # Errors
    /// When the program cannot be built, fails, or the file cannot be read.
    pub fn is_up_to_date(&self) -> Result<bool> {
        Ok(read_compressed(&self.path())? == self.text()?)
    }
}

impl Generator {
    /// Takes seconds to build, once ggml is there.
    pub fn is_cheap(self) -> bool {
        !matches!(self, Self::LlamaCpp | Self::WhisperCpp)
    }

    /// The program, built once in a process, and the folder of the shared libraries that it needs.
    fn program(self) -> Result<(Program, PathBuf)> {
        static PROGRAMS: [OnceLock<Result<(Program, PathBuf)>>; 6] = [const { OnceLock::new() }; 6];
        PROGRAMS[self as usize].get_or_init(|| self.build()).clone()
    }

    fn build(self) -> Result<(Program, PathBuf)> {
        match self {
            Self::LlamaCpp => {
                let llama = llama()?;
                self.build_on("-lllama", &llama.ggml, &llama.include_flags)
            }
            Self::WhisperCpp => {
                let whisper = whisper()?;
                self.build_on("-lwhisper", &whisper.ggml, &whisper.include_flags)
            }
            _ => {
                let ggml = ggml(Package::LlamaCpp)?;
                let program = Program::build(&self.program_name(), &[self.source()], &ggml, Linked::Ggml, &[])?;
                Ok((program, ggml.libraries))
            }
        }
    }

    /// The program on a shared library that lies beside those of its ggml.
    fn build_on(self, library: &str, ggml: &Ggml, include_flags: &[String]) -> Result<(Program, PathBuf)> {
        let search = format!("-L{}", ggml.libraries.display());
        let mut flags: Vec<&str> = include_flags.iter().map(String::as_str).collect();
        flags.extend(["-Wl,--no-as-needed", &search, library, "-lggml"]);
        let program = Program::build(&self.program_name(), &[self.source()], ggml, Linked::SharedGgml, &flags)?;
        Ok((program, ggml.libraries.clone()))
    }

    fn source(self) -> &'static str {
        match self {
            Self::Branches => "captures/branches.c",
            Self::Diffusion => "captures/diffusion.c",
            Self::LlamaCpp => "captures/llama_cpp.c",
            Self::LlamaStyle => "llama_style.c",
            Self::Training => "captures/training.c",
            Self::WhisperCpp => "captures/whisper_cpp.c",
        }
    }

    fn program_name(self) -> String {
        format!("capture-{}", Path::new(self.source()).file_stem().unwrap_or_default().to_string_lossy())
    }
}
