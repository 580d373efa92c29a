//! Hotness of neurons from files: one file for each layer, one number for each neuron.
//!
//! A file is an array of NumPy (`.npy`), a tensor of torch (`.pt`, `.pth`) or bare little-endian numbers of 32 bits
//! (`.f32`), and has one dimension. Layers are numbered from 0, by the number in the name of their file.
//!
//! - `files`: which files there are, and which layer each is
//! - `content`: the numbers of a file

mod content;
mod files;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::division::check_hotness;
use crate::malformed::Unreadable;

pub use content::MAX_FILE;

/// The hotness of a layer, and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerHotness {
    /// The file.
    pub path: PathBuf,
    /// A number for each neuron, by id: finite, and 0 or more.
    pub hotness: Vec<f64>,
}

fn unreadable<T>(path: &Path, reason: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable::new(path, reason))
}

/// Reads the hotness of all layers, in the order of the layers.
///
/// Each path is a file, or a folder whose files `activation_N.pt`, `activation_N.npy` or `activation_N.f32` are taken;
/// whatever else is in it is not. A single file may have any name.
///
/// # Errors
/// [`Unreadable`]: a file is missing, is damaged, has numbers that are not hotness counts, or not as many as the first.
pub fn read_hotness(paths: &[PathBuf]) -> Result<Vec<LayerHotness>, Unreadable> {
    let mut layers: Vec<LayerHotness> = Vec::new();
    for path in files::by_layer(paths)? {
        let hotness = content::read(&path)?;
        if let Err(defect) = check_hotness(&hotness) {
            return unreadable(&path, defect.to_string());
        }
        if let Some(first) = layers.first().filter(|first| first.hotness.len() != hotness.len()) {
            let (found, expected, first) = (hotness.len(), first.hotness.len(), first.path.display());
            return unreadable(&path, format!("it has {found} neurons, and {first} has {expected}"));
        }
        layers.push(LayerHotness { path, hotness });
    }
    Ok(layers)
}
