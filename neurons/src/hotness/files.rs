//! Which files have hotness, and which layer each is.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::malformed::Unreadable;

use super::unreadable;

/// The name of a file in a folder, before its number.
const PREFIX: &str = "activation_";

/// The endings of files in a folder.
const EXTENSIONS: [&str; 3] = ["pt", "npy", "f32"];

/// Returns the files in the order of the layers: by number, so 2 is before 10.
pub fn by_layer(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Unreadable> {
    if let [only] = paths
        && !only.is_dir()
    {
        return Ok(vec![only.clone()]);
    }
    let mut layers = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            for (digits, file) in files_in(path)? {
                add(&mut layers, &digits, file)?;
            }
        } else {
            let name = path.file_stem().map(OsStr::to_string_lossy).unwrap_or_default();
            let Some(digits) = last_number(&name) else {
                return unreadable(
                    path,
                    "there are several files, and this one has no number in its name: which layer is it?",
                );
            };
            add(&mut layers, digits, path.clone())?;
        }
    }
    for (expected, (&found, path)) in (0..).zip(&layers) {
        if found != expected {
            return unreadable(
                path,
                format!("this is layer {found}, and there is no layer {expected}: layers are numbered from 0"),
            );
        }
    }
    Ok(layers.into_values().collect())
}

fn add(layers: &mut BTreeMap<u64, PathBuf>, digits: &str, file: PathBuf) -> Result<(), Unreadable> {
    let Ok(number) = digits.parse() else {
        return unreadable(&file, format!("{digits} is not the number of a layer"));
    };
    match layers.insert(number, file.clone()) {
        None => Ok(()),
        Some(other) => unreadable(&file, format!("this is layer {number}, and so is {}", other.display())),
    }
}

/// Returns the files of a folder with the digits in their names.
fn files_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, Unreadable> {
    let cannot = |error: std::io::Error| Unreadable::new(folder, error.to_string());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        if let Some(digits) = name.to_str().and_then(layer_digits) {
            files.push((digits.to_owned(), folder.join(&name)));
        }
    }
    if files.is_empty() {
        return unreadable(
            folder,
            "there is no file named activation_0.pt, .npy or .f32; give files by name if theirs differ",
        );
    }
    // The order of a folder is that of the file system; messages are to be the same everywhere.
    files.sort();
    Ok(files)
}

/// Returns the digits of a name such as "activation_12.pt".
fn layer_digits(name: &str) -> Option<&str> {
    let (digits, extension) = name.strip_prefix(PREFIX)?.split_once('.')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && EXTENSIONS.contains(&extension)).then_some(digits)
}

/// Returns the last digits of a name without its ending: "12" of "llama-7b-layer-12".
fn last_number(name: &str) -> Option<&str> {
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|letter: char| !letter.is_ascii_digit());
    let start = start.map_or(0, |before| before + name[before..].chars().next().map_or(0, char::len_utf8));
    Some(&name[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_folders_are_exact() {
        assert_eq!(layer_digits("activation_12.pt"), Some("12"));
        assert_eq!(layer_digits("activation_0.f32"), Some("0"));
        let others = [
            "activation_12.pt.bak",
            ".activation_1.pt",
            "activation_.pt",
            "activation_-1.pt",
            "activation_1",
            "activation_x1.npy",
        ];
        let more = [
            "Activation_1.pt",
            "activation_1.PT",
            "activation_+1.pt",
            "activation_1.5.pt",
            "model_1.pt",
            "activation_1.gz",
        ];
        for name in others.into_iter().chain(more) {
            assert_eq!(layer_digits(name), None, "{name}");
        }
    }

    #[test]
    fn number_is_the_last_of_a_name() {
        let expected = [
            ("layer12", Some("12")),
            ("opt-125m-é3", Some("3")),
            ("7", Some("7")),
            ("007x", Some("007")),
            ("none", None),
            ("", None),
        ];
        for (name, number) in expected {
            assert_eq!(last_number(name), number, "{name}");
        }
    }
}
