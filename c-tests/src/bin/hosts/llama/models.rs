//! The models, with seeded random weights, as `hosts/llama/models` describes them.

/// A model.
pub struct Model {
    /// Its architecture; the description is `hosts/llama/models/NAME.txt`.
    pub name: &'static str,
    /// The kind of the architecture.
    pub kind: &'static str,
    /// Its layers: enough for one of each kind.
    pub layers: &'static str,
}

/// One of each kind of architecture, and several of those that share caches or mix kinds of layers.
pub const MODELS: [Model; 13] = [
    Model { name: "llama", kind: "dense", layers: "4" },
    Model { name: "gpt2", kind: "gpt-2 style", layers: "4" },
    Model { name: "qwen3moe", kind: "experts", layers: "4" },
    Model { name: "gpt-oss", kind: "experts, window, sinks", layers: "4" },
    Model { name: "gemma3", kind: "sliding window", layers: "6" },
    Model { name: "deepseek2", kind: "latent attention", layers: "4" },
    Model { name: "mamba2", kind: "state space", layers: "4" },
    Model { name: "jamba", kind: "hybrid, experts", layers: "4" },
    Model { name: "falcon-h1", kind: "hybrid, parallel", layers: "4" },
    Model { name: "granitehybrid", kind: "hybrid, experts", layers: "4" },
    Model { name: "lfm2", kind: "hybrid, convolution", layers: "4" },
    Model { name: "qwen3next", kind: "hybrid, delta net", layers: "4" },
    Model { name: "bert", kind: "encoder", layers: "4" },
];
