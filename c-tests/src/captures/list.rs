//! The list of committed graphs.

use crate::folder;

use super::{Capture, Generator};

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

/// A model without attention: its graph does not depend on flash attention.
const WITHOUT_ATTENTION: &str = "mamba2";

/// The models that are captured with 48 layers too.
const DEEP_MODELS: [&str; 7] = ["deepseek2", "falcon-h1", "gemma3", "llama", "plamo2", "qwen3moe", "qwen3next"];

/// The models that are captured with a long context and no flash attention: attention scores are most of the peak.
const LONG_MODELS: [&str; 1] = ["llama"];

/// Settings of llama.cpp, by family.
const SETTINGS: [(&str, Settings); 5] = [
    ("flash-v32k", Settings { models: &MODELS, layers: "8", vocabulary: "32000", context: "512", flash: true }),
    ("flash-v128k", Settings { models: &MODELS, layers: "8", vocabulary: "128256", context: "512", flash: true }),
    ("noflash-v128k", Settings { models: &MODELS, layers: "8", vocabulary: "128256", context: "512", flash: false }),
    ("noflash-8k", Settings { models: &LONG_MODELS, layers: "8", vocabulary: "32000", context: "8192", flash: false }),
    ("deep48", Settings { models: &DEEP_MODELS, layers: "48", vocabulary: "32000", context: "512", flash: true }),
];

struct Settings {
    models: &'static [&'static str],
    layers: &'static str,
    vocabulary: &'static str,
    /// Positions in the cache.
    context: &'static str,
    flash: bool,
}

/// The options of the other programs, by the name of the graph.
const OTHERS: [(&str, Generator, &str); 17] = [
    ("branches-googlenet", Generator::Branches, "--network googlenet"),
    ("branches-mixture", Generator::Branches, "--network mixture"),
    ("branches-mixture-wide", Generator::Branches, "--network mixture-wide"),
    ("branches-random-wiring", Generator::Branches, "--network random-wiring"),
    ("llama-8-flash", Generator::LlamaStyle, "--attention flash"),
    ("llama-8-softmax", Generator::LlamaStyle, "--attention softmax"),
    ("llama-48-flash", Generator::LlamaStyle, "--layers 48 --width 4096 --heads 32 --kv-heads 8 --ffn 11008"),
    ("sd-sd1-unet-512", Generator::Diffusion, "--network sd1-unet"),
    ("sd-sd1-unet-1024", Generator::Diffusion, "--network sd1-unet --image 1024"),
    ("sd-sd1-unet-512-flash", Generator::Diffusion, "--network sd1-unet --flash on"),
    ("sd-sdxl-unet-1024", Generator::Diffusion, "--network sdxl-unet --image 1024"),
    ("sd-sdxl-unet-1024-flash", Generator::Diffusion, "--network sdxl-unet --image 1024 --flash on"),
    ("sd-vae-decoder-512", Generator::Diffusion, "--network vae-decoder"),
    ("sd-vae-decoder-512-flash", Generator::Diffusion, "--network vae-decoder --flash on"),
    ("train-4-256", Generator::Training, ""),
    ("train-24-512", Generator::Training, "--layers 24 --width 512 --heads 8 --tokens 512 --vocab 8192"),
    ("train-8-512", Generator::Training, "--layers 8 --width 512 --heads 8 --tokens 512 --vocab 8192"),
];

/// Models of whisper.cpp, and which of its graphs are captured; its convolutions have no attention.
const WHISPER: [(&str, &str, &[&str]); 3] = [
    ("base", "--layers 6 --width 512 --heads 8 --mels 80 --vocab 51865", &["conv", "encode", "cross", "decode"]),
    (
        "large-v3",
        "--layers 32 --width 1280 --heads 20 --mels 128 --vocab 51866",
        &["conv", "encode", "cross", "decode"],
    ),
    (
        "large-v3-softmax",
        "--layers 32 --width 1280 --heads 20 --mels 128 --vocab 51866 --flash off",
        &["encode", "cross", "decode"],
    ),
];

/// Every graph that is committed, by name.
pub fn all() -> Vec<Capture> {
    let others = OTHERS.iter().map(|&(name, generator, options)| Capture::new(name.to_owned(), generator, options));
    let whisper = WHISPER.iter().flat_map(|&(model, options, graphs)| {
        graphs.iter().map(move |graph| {
            let name = format!("whisper-{model}-{graph}");
            Capture::new(name, Generator::WhisperCpp, &format!("{options} --graph {graph}"))
        })
    });
    let llama_cpp = SETTINGS.iter().flat_map(|(family, settings)| {
        let models = settings.models.iter().filter(|&&model| settings.flash || model != WITHOUT_ATTENTION);
        models.map(|model| of_llama_cpp(family, model, settings))
    });
    let mut all: Vec<Capture> = others.chain(whisper).chain(llama_cpp).collect();
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}

fn of_llama_cpp(family: &str, model: &str, settings: &Settings) -> Capture {
    let Settings { layers, vocabulary, context, flash, .. } = settings;
    let flash = if *flash { "on" } else { "off" };
    let options = format!("--layers {layers} --vocab {vocabulary} --context {context} --flash {flash}");
    let mut capture = Capture::new(format!("{family}-{model}"), Generator::LlamaCpp, &options);
    capture.arguments.extend(["--model".to_owned(), model_description(model)]);
    capture
}

/// The file that describes a model.
pub fn model_description(model: &str) -> String {
    let file = folder().join("captures/llama_cpp/models").join(format!("{model}.txt"));
    file.to_string_lossy().into_owned()
}
