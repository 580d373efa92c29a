//! Small models with seeded random weights, in the formats that programs read.
//!
//! - `weight`: a tensor of a model, and its values
//! - `layers`: the layers that models are built of
//! - `safetensors`, `gguf`: files of tensors
//! - `clip`, `unet`, `autoencoder`: the parts of Stable Diffusion 1
//! - `tiny_autoencoder`, `upscaler`: TAESD and ESRGAN
//! - `llama`: a text model of llama.cpp, with its words
//! - `whisper`: speech, in whisper.cpp's own format

mod weight;
mod layers;
mod safetensors;
mod gguf;
mod clip;
mod unet;
mod autoencoder;
mod tiny_autoencoder;
mod upscaler;
mod llama;
mod whisper;

pub use autoencoder::autoencoder;
pub use clip::clip;
pub use gguf::write_gguf;
pub use layers::Kinds;
pub use llama::write_llama;
pub use safetensors::write_safetensors;
pub use tiny_autoencoder::tiny_autoencoder;
pub use unet::unet;
pub use upscaler::upscaler;
pub use weight::Kind;
pub use whisper::{WhisperModel, write_whisper};

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::Result;

/// Writes a file in full or not at all: a file of that name is complete afterwards.
///
/// # Errors
/// The error of the system.
fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let partial = path.with_extension("partial");
    let written = || -> std::io::Result<()> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        write(&mut file)?;
        file.into_inner()?.sync_data()?;
        fs::rename(&partial, path)
    };
    written().map_err(|error| format!("cannot write {}: {error}", path.display()))
}
