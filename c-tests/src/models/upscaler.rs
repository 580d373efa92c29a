//! ESRGAN, which enlarges images four times. Programs take the number of blocks from the weights; widths are fixed.

use super::layers::{Kinds, Layers};
use super::weight::Weight;

/// Channels of an image.
const COLORS: u64 = 3;

/// Channels between blocks.
const WIDTH: u64 = 64;

/// Channels that each convolution of a dense block adds.
const GROWTH: u64 = 32;

/// Returns the tensors of the upscaler.
pub fn upscaler(blocks: u64, kinds: Kinds) -> Vec<Weight> {
    let mut layers = Layers::new("", kinds);
    layers.convolution("conv_first", 3, COLORS, WIDTH);
    for block in 0..blocks {
        for dense in 1..=3 {
            for step in 0..5 {
                let outputs = if step < 4 { GROWTH } else { WIDTH };
                let name = format!("body.{block}.rdb{dense}.conv{}", step + 1);
                layers.convolution(&name, 3, WIDTH + step * GROWTH, outputs);
            }
        }
    }
    for name in ["conv_body", "conv_up1", "conv_up2", "conv_hr"] {
        layers.convolution(name, 3, WIDTH, WIDTH);
    }
    layers.convolution("conv_last", 3, WIDTH, COLORS);
    layers.finish()
}
