//! Speech models in whisper.cpp's own format: sizes, mel filters, words, tensors.

use std::path::Path;

use crate::Result;

use super::layers::{Kinds, Layers, spread};
use super::weight::{Kind, Weight};
use super::write_whole;

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct WhisperModel {
    /// Numbers for each frame and each token.
    pub width: u64,
    /// Attention heads.
    pub heads: u64,
    /// Layers of the encoder.
    pub audio_layers: u64,
    /// Layers of the decoder.
    pub text_layers: u64,
    /// The type of matrices: f16 or q8_0. Convolutions are f16: whisper.cpp computes no others on a CPU.
    pub kind: Kind,
}

/// The first four bytes of a file.
const MAGIC: u32 = 0x6767_6d6c;

/// Frames of 30 seconds, behind the convolutions.
const AUDIO_CONTEXT: u64 = 1500;

/// Tokens of a text.
const TEXT_CONTEXT: u64 = 448;

/// Mel bands of the sound.
const MELS: u64 = 80;

/// Words, languages and times of a model of many languages. The numbers of the special ones are fixed in whisper.cpp.
const VOCABULARY: u64 = 51865;

/// Words in the file; whisper.cpp itself adds the special ones behind them.
const WORDS: u32 = 50257;

/// Frequencies from 0 to half of the sample rate.
const FREQUENCIES: u16 = 201;

/// Half of the sample rate, in Hz.
const HIGHEST: f32 = 8000.0;

/// Writes a model.
///
/// # Errors
/// The error of the system.
pub fn write_whisper(path: &Path, model: &WhisperModel, seed: u64) -> Result<()> {
    write_whole(path, |file| {
        file.write_all(&MAGIC.to_le_bytes())?;
        for number in sizes(model) {
            file.write_all(&number32(number).to_le_bytes())?;
        }
        file.write_all(&mel_filters())?;
        file.write_all(&words())?;
        model.weights().iter().try_for_each(|weight| {
            file.write_all(&tensor_header(weight))?;
            file.write_all(&weight.data(seed))
        })
    })
}

fn sizes(model: &WhisperModel) -> [u64; 11] {
    let WhisperModel { width, heads, audio_layers, text_layers, kind } = *model;
    let file_type = match kind {
        Kind::F32 => 0,
        Kind::F16 => 1,
        Kind::Q4 => 2,
        Kind::Q8 => 7,
    };
    [VOCABULARY, AUDIO_CONTEXT, width, heads, audio_layers, TEXT_CONTEXT, width, heads, text_layers, MELS, file_type]
}

fn number32(number: u64) -> u32 {
    u32::try_from(number).expect("sizes of small models have 32 bits")
}

/// Returns the extents and the values of filters: triangles, evenly spaced on the mel scale.
fn mel_filters() -> Vec<u8> {
    let mel = |hertz: f32| 2595.0 * (1.0 + hertz / 700.0).log10();
    let hertz = |mel: f32| 700.0 * (10_f32.powf(mel / 2595.0) - 1.0);
    let bands = u16::try_from(MELS).expect("there are 80 bands");
    let corner = |place: u16| hertz(mel(HIGHEST) * f32::from(place) / f32::from(bands + 1));
    let mut out = Vec::new();
    out.extend(u32::from(bands).to_le_bytes());
    out.extend(u32::from(FREQUENCIES).to_le_bytes());
    for band in 0..bands {
        let (low, middle, high) = (corner(band), corner(band + 1), corner(band + 2));
        for place in 0..FREQUENCIES {
            let frequency = HIGHEST * f32::from(place) / f32::from(FREQUENCIES - 1);
            let rising = (frequency - low) / (middle - low);
            let falling = (high - frequency) / (high - middle);
            let height = rising.min(falling).max(0.0) * 2.0 / (high - low);
            out.extend(height.to_le_bytes());
        }
    }
    out
}

/// Returns the number of words and the words: first a space, which whisper.cpp looks up, then a word for each number.
fn words() -> Vec<u8> {
    let mut out = WORDS.to_le_bytes().to_vec();
    for number in 0..WORDS {
        let word = if number == 0 { " ".to_owned() } else { format!(" w{number}") };
        out.extend(number32(word.len() as u64).to_le_bytes());
        out.extend(word.bytes());
    }
    out
}

fn tensor_header(weight: &Weight) -> Vec<u8> {
    let mut out = Vec::new();
    let dimensions = number32(weight.extents.len() as u64);
    for number in [dimensions, number32(weight.name.len() as u64), weight.kind.in_ggml().id] {
        out.extend(number.to_le_bytes());
    }
    weight.extents.iter().for_each(|&extent| out.extend(number32(extent).to_le_bytes()));
    out.extend(weight.name.bytes());
    out
}

impl WhisperModel {
    fn weights(&self) -> Vec<Weight> {
        let mut layers = Layers::new("", Kinds { matrix: self.kind, convolution: Kind::F16 });
        self.add_encoder(&mut layers);
        self.add_decoder(&mut layers);
        layers.finish()
    }

    fn add_encoder(&self, layers: &mut Layers) {
        let width = self.width;
        layers.add("encoder.positional_embedding", Kind::F32, &[width, AUDIO_CONTEXT], 0.0, 0.3);
        for (name, inputs) in [("encoder.conv1", MELS), ("encoder.conv2", width)] {
            layers.add(&format!("{name}.weight"), Kind::F16, &[3, inputs, width], 0.0, spread(3 * inputs));
            layers.add(&format!("{name}.bias"), Kind::F32, &[1, width], 0.0, 0.02);
        }
        for layer in 0..self.audio_layers {
            let block = format!("encoder.blocks.{layer}");
            attention(layers, &block, "attn", width);
            feed_forward(layers, &block, width);
        }
        layers.norm("encoder.ln_post", width);
    }

    fn add_decoder(&self, layers: &mut Layers) {
        let width = self.width;
        layers.add("decoder.positional_embedding", Kind::F32, &[width, TEXT_CONTEXT], 0.0, 0.3);
        // This matrix also makes the logits.
        layers.add("decoder.token_embedding.weight", self.kind, &[width, VOCABULARY], 0.0, 3.0 * spread(width));
        for layer in 0..self.text_layers {
            let block = format!("decoder.blocks.{layer}");
            attention(layers, &block, "attn", width);
            attention(layers, &block, "cross_attn", width);
            feed_forward(layers, &block, width);
        }
        layers.norm("decoder.ln", width);
    }
}

fn attention(layers: &mut Layers, block: &str, name: &str, width: u64) {
    layers.norm(&format!("{block}.{name}_ln"), width);
    // Keys have no bias.
    layers.matrix(&format!("{block}.{name}.key"), width, width);
    ["query", "value", "out"].iter().for_each(|part| layers.linear(&format!("{block}.{name}.{part}"), width, width));
}

fn feed_forward(layers: &mut Layers, block: &str, width: u64) {
    layers.norm(&format!("{block}.mlp_ln"), width);
    layers.linear(&format!("{block}.mlp.0"), width, 4 * width);
    layers.linear(&format!("{block}.mlp.2"), 4 * width, width);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_cover_all_bands_and_words_begin_with_a_space() {
        let filters = mel_filters();
        assert_eq!(filters.len(), 8 + 80 * 201 * 4);
        let values: Vec<f32> =
            filters[8..].chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four"))).collect();
        assert!(values.iter().all(|&value| value >= 0.0));
        // The lowest bands are narrower than the distance of two frequencies.
        let covered = values.chunks_exact(201).filter(|band| band.iter().any(|&value| value > 0.0)).count();
        assert!(covered > 60, "{covered}");
        assert_eq!(words()[..9], [0x51, 0xc4, 0, 0, 1, 0, 0, 0, b' ']);
    }

    #[test]
    fn all_tensors_that_whisper_wants_are_there() {
        let model = WhisperModel { width: 64, heads: 1, audio_layers: 2, text_layers: 3, kind: Kind::F16 };
        assert_eq!(model.weights().len(), 11 + 15 * 2 + 24 * 3);
    }
}
