//! TAESD, a tiny autoencoder for latent images of Stable Diffusion 1. Its sizes are fixed in the programs that load it.

use super::layers::{Kinds, Layers};
use super::weight::Weight;

/// Channels of a latent image.
const LATENT: u64 = 4;

/// Channels of all layers.
const WIDTH: u64 = 64;

/// The layer at each place of the encoder or decoder.
enum Layer {
    /// A convolution from these channels to those, with a bias.
    Convolution(u64, u64),
    /// A convolution without a bias.
    Plain,
    /// Three convolutions.
    Block,
    /// Nothing with weights.
    Nothing,
}

/// Returns the tensors of encoder and decoder.
pub fn tiny_autoencoder(kinds: Kinds) -> Vec<Weight> {
    use Layer::{Block, Convolution, Nothing, Plain};
    let mut layers = Layers::new("", kinds);
    let mut encoder = vec![Convolution(3, WIDTH), Block];
    let mut decoder = vec![Convolution(LATENT, WIDTH), Nothing];
    for _ in 0..3 {
        encoder.extend([Plain, Block, Block, Block]);
        decoder.extend([Block, Block, Block, Nothing, Plain]);
    }
    encoder.push(Convolution(WIDTH, LATENT));
    decoder.extend([Block, Convolution(WIDTH, 3)]);
    for (part, list) in [("encoder", encoder), ("decoder", decoder)] {
        for (place, layer) in list.iter().enumerate() {
            let name = format!("{part}.layers.{place}");
            match layer {
                Convolution(inputs, outputs) => layers.convolution(&name, 3, *inputs, *outputs),
                Plain => layers.plain_convolution(&name, 3, WIDTH, WIDTH),
                Block => {
                    [0, 2, 4].iter().for_each(|i| layers.convolution(&format!("{name}.conv.{i}"), 3, WIDTH, WIDTH));
                }
                Nothing => {}
            }
        }
    }
    layers.finish()
}
