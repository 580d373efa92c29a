//! The UNet of Stable Diffusion 1, as narrow as one likes: programs take its width from the weights.

use super::clip;
use super::layers::{Kinds, Layers};
use super::weight::Weight;

/// Channels of a latent image.
const LATENT: u64 = 4;

/// Channels of each level, in multiples of the first one's.
const LEVELS: [u64; 4] = [1, 2, 4, 4];

/// Residual blocks of a level on the way down; one more on the way up.
const BLOCKS: usize = 2;

/// Levels whose blocks attend: all but the last.
const ATTENDING: usize = 3;

/// Returns the tensors of the UNet with `width` channels on the first level, a multiple of 32 (groups are normalized).
pub fn unet(width: u64, kinds: Kinds) -> Vec<Weight> {
    let mut unet = Unet { layers: Layers::new("model.diffusion_model.", kinds), width };
    unet.layers.linear("time_embed.0", width, 4 * width);
    unet.layers.linear("time_embed.2", 4 * width, 4 * width);
    let (mut skips, channels) = unet.down();
    unet.residual("middle_block.0", channels, channels);
    unet.transformer("middle_block.1", channels);
    unet.residual("middle_block.2", channels, channels);
    unet.up(&mut skips, channels);
    unet.layers.norm("out.0", width);
    unet.layers.convolution("out.2", 3, width, LATENT);
    unet.layers.finish()
}

struct Unet {
    layers: Layers,
    width: u64,
}

impl Unet {
    /// Adds the way down. Returns the channels of the values that the way up reads too, and of the last one.
    fn down(&mut self) -> (Vec<u64>, u64) {
        self.layers.convolution("input_blocks.0.0", 3, LATENT, self.width);
        let (mut skips, mut channels) = (vec![self.width], self.width);
        for (level, factor) in LEVELS.iter().enumerate() {
            for _ in 0..BLOCKS {
                let block = format!("input_blocks.{}", skips.len());
                self.residual(&format!("{block}.0"), channels, factor * self.width);
                channels = factor * self.width;
                if level < ATTENDING {
                    self.transformer(&format!("{block}.1"), channels);
                }
                skips.push(channels);
            }
            if level + 1 < LEVELS.len() {
                self.layers.convolution(&format!("input_blocks.{}.0.op", skips.len()), 3, channels, channels);
                skips.push(channels);
            }
        }
        (skips, channels)
    }

    /// Adds the way up.
    fn up(&mut self, skips: &mut Vec<u64>, mut channels: u64) {
        let mut number = 0;
        for (level, factor) in LEVELS.iter().enumerate().rev() {
            for block in 0..=BLOCKS {
                let skip = skips.pop().expect("the way up has as many blocks as the way down has values");
                self.residual(&format!("output_blocks.{number}.0"), channels + skip, factor * self.width);
                channels = factor * self.width;
                let mut part = 1;
                if level < ATTENDING {
                    self.transformer(&format!("output_blocks.{number}.1"), channels);
                    part = 2;
                }
                if level > 0 && block == BLOCKS {
                    self.layers.convolution(&format!("output_blocks.{number}.{part}.conv"), 3, channels, channels);
                }
                number += 1;
            }
        }
    }

    fn residual(&mut self, name: &str, inputs: u64, outputs: u64) {
        self.layers.norm(&format!("{name}.in_layers.0"), inputs);
        self.layers.convolution(&format!("{name}.in_layers.2"), 3, inputs, outputs);
        self.layers.linear(&format!("{name}.emb_layers.1"), 4 * self.width, outputs);
        self.layers.norm(&format!("{name}.out_layers.0"), outputs);
        self.layers.convolution(&format!("{name}.out_layers.3"), 3, outputs, outputs);
        if inputs != outputs {
            self.layers.convolution(&format!("{name}.skip_connection"), 1, inputs, outputs);
        }
    }

    fn transformer(&mut self, name: &str, width: u64) {
        self.layers.norm(&format!("{name}.norm"), width);
        self.layers.convolution(&format!("{name}.proj_in"), 1, width, width);
        let block = format!("{name}.transformer_blocks.0");
        for (attention, context) in [("attn1", width), ("attn2", clip::WIDTH)] {
            self.layers.matrix(&format!("{block}.{attention}.to_q"), width, width);
            self.layers.matrix(&format!("{block}.{attention}.to_k"), context, width);
            self.layers.matrix(&format!("{block}.{attention}.to_v"), context, width);
            self.layers.linear(&format!("{block}.{attention}.to_out.0"), width, width);
        }
        self.layers.linear(&format!("{block}.ff.net.0.proj"), width, 8 * width);
        self.layers.linear(&format!("{block}.ff.net.2"), 4 * width, width);
        ["norm1", "norm2", "norm3"].iter().for_each(|norm| self.layers.norm(&format!("{block}.{norm}"), width));
        self.layers.convolution(&format!("{name}.proj_out"), 1, width, width);
    }
}
