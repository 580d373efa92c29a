//! The autoencoder of Stable Diffusion 1. Programs take the width of the decoder from the weights; that of the encoder is
//! fixed.

use super::layers::{Kinds, Layers};
use super::weight::Weight;

/// Channels of a latent image.
const LATENT: u64 = 4;

/// Channels of each level, in multiples of the first one's.
const LEVELS: [u64; 4] = [1, 2, 4, 4];

/// Channels on the first level of the encoder.
const ENCODER: u64 = 128;

/// Residual blocks of a level of the encoder; one more in the decoder.
const BLOCKS: usize = 2;

/// Returns the tensors of encoder and decoder, whose first level has `width` channels, a multiple of 32.
pub fn autoencoder(width: u64, kinds: Kinds) -> Vec<Weight> {
    let mut layers = Layers::new("first_stage_model.", kinds);
    encoder(&mut layers);
    decoder(&mut layers, width);
    layers.convolution("quant_conv", 1, 2 * LATENT, 2 * LATENT);
    layers.convolution("post_quant_conv", 1, LATENT, LATENT);
    layers.finish()
}

fn encoder(layers: &mut Layers) {
    layers.convolution("encoder.conv_in", 3, 3, ENCODER);
    let mut channels = ENCODER;
    for (level, factor) in LEVELS.iter().enumerate() {
        for block in 0..BLOCKS {
            residual(layers, &format!("encoder.down.{level}.block.{block}"), channels, factor * ENCODER);
            channels = factor * ENCODER;
        }
        if level + 1 < LEVELS.len() {
            layers.convolution(&format!("encoder.down.{level}.downsample.conv"), 3, channels, channels);
        }
    }
    middle(layers, "encoder", channels);
    layers.norm("encoder.norm_out", channels);
    layers.convolution("encoder.conv_out", 3, channels, 2 * LATENT);
}

fn decoder(layers: &mut Layers, width: u64) {
    let mut channels = LEVELS[LEVELS.len() - 1] * width;
    layers.convolution("decoder.conv_in", 3, LATENT, channels);
    middle(layers, "decoder", channels);
    for (level, factor) in LEVELS.iter().enumerate().rev() {
        for block in 0..=BLOCKS {
            residual(layers, &format!("decoder.up.{level}.block.{block}"), channels, factor * width);
            channels = factor * width;
        }
        if level > 0 {
            layers.convolution(&format!("decoder.up.{level}.upsample.conv"), 3, channels, channels);
        }
    }
    layers.norm("decoder.norm_out", channels);
    layers.convolution("decoder.conv_out", 3, channels, 3);
}

fn middle(layers: &mut Layers, part: &str, channels: u64) {
    residual(layers, &format!("{part}.mid.block_1"), channels, channels);
    layers.norm(&format!("{part}.mid.attn_1.norm"), channels);
    for name in ["q", "k", "v", "proj_out"] {
        layers.convolution(&format!("{part}.mid.attn_1.{name}"), 1, channels, channels);
    }
    residual(layers, &format!("{part}.mid.block_2"), channels, channels);
}

fn residual(layers: &mut Layers, name: &str, inputs: u64, outputs: u64) {
    layers.norm(&format!("{name}.norm1"), inputs);
    layers.convolution(&format!("{name}.conv1"), 3, inputs, outputs);
    layers.norm(&format!("{name}.norm2"), outputs);
    layers.convolution(&format!("{name}.conv2"), 3, outputs, outputs);
    if inputs != outputs {
        layers.convolution(&format!("{name}.nin_shortcut"), 1, inputs, outputs);
    }
}
