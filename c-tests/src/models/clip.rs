//! The text encoder of Stable Diffusion 1. Its sizes are fixed in the programs that load it.

use super::layers::{Kinds, Layers, spread};
use super::weight::{Kind, Weight};

/// Numbers for each token; the context that the UNet attends to.
pub const WIDTH: u64 = 768;

/// Tokens of a text.
const TOKENS: u64 = 77;

/// Words.
const VOCABULARY: u64 = 49408;

/// Layers.
const LAYERS: u64 = 12;

/// Returns the tensors of the text encoder.
pub fn clip(kinds: Kinds) -> Vec<Weight> {
    let mut layers = Layers::new("cond_stage_model.transformer.text_model.", kinds);
    // Rows of embeddings are looked up, so they are as large as values are.
    layers.add("embeddings.token_embedding.weight", Kind::Q4, &[WIDTH, VOCABULARY], 0.0, spread(1));
    layers.add("embeddings.position_embedding.weight", Kind::F32, &[WIDTH, TOKENS], 0.0, spread(10));
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layers.{layer}.{part}");
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            layers.linear(&name(&format!("self_attn.{part}")), WIDTH, WIDTH);
        }
        layers.norm(&name("layer_norm1"), WIDTH);
        layers.norm(&name("layer_norm2"), WIDTH);
        layers.linear(&name("mlp.fc1"), WIDTH, 4 * WIDTH);
        layers.linear(&name("mlp.fc2"), 4 * WIDTH, WIDTH);
    }
    layers.norm("final_layer_norm", WIDTH);
    layers.finish()
}
