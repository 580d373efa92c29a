//! Files and folders of hotness.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::malformed::Unreadable;
use crate::npy::npy_file;

use super::read_hotness;

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = TempDir::new().expect("a temporary folder");
    for (name, content) in files {
        fs::write(folder.path().join(name), content).expect("it can be written to");
    }
    folder
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn read(paths: &[&Path]) -> Result<Vec<Vec<f64>>, Unreadable> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    read_hotness(&paths).map(|layers| layers.into_iter().map(|layer| layer.hotness).collect())
}

/// Asserts that the reason names a file and has these words.
fn assert_refused(paths: &[&Path], file: &str, words: &str) {
    let refused = read(paths).expect_err("these are not hotness counts");
    let told = refused.to_string();
    assert!(refused.path.ends_with(file) && told.contains(file) && told.contains(words), "{words:?} in: {told}");
}

#[test]
fn layers_are_ordered_by_number() {
    let files: Vec<(String, Vec<u8>)> =
        (0..12u8).map(|layer| (format!("activation_{layer}.f32"), floats(&[layer.into()]))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (&name[..], &content[..])).collect();
    let folder = folder(&files);
    let expected: Vec<Vec<f64>> = (0..12u8).map(|layer| vec![layer.into()]).collect();
    assert_eq!(read(&[folder.path()]), Ok(expected.clone()));
    // As a shell lists them: 0, 1, 10, 11, 2, ...
    let mut paths: Vec<PathBuf> = files.iter().map(|(name, _)| folder.path().join(name)).collect();
    paths.sort();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    assert_eq!(read(&paths), Ok(expected));
}

#[test]
fn nothing_else_in_a_folder_is_a_layer() {
    let one = floats(&[1.0]);
    let others = [
        "README.md",
        "activation_2.pt.bak",
        "activation_2.txt",
        "model_2.pt",
        "activation_x.f32",
        ".activation_2.f32",
        "activation_mean.npy",
    ];
    let mut files: Vec<(&str, &[u8])> = others.iter().map(|name| (*name, &b"no numbers"[..])).collect();
    files.extend([("activation_0.f32", &one[..]), ("activation_1.f32", &one[..])]);
    assert_eq!(read(&[folder(&files).path()]), Ok(vec![vec![1.0]; 2]));
    let folder = folder(&files[..others.len()]);
    let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
    assert_refused(&[folder.path()], &name, "there is no file named activation_0.pt");
}

#[test]
fn missing_and_double_layers_are_refused() {
    let one = floats(&[1.0]);
    let gap = folder(&[("activation_0.f32", &one), ("activation_2.f32", &one)]);
    assert_refused(&[gap.path()], "activation_2.f32", "this is layer 2, and there is no layer 1");
    let first = folder(&[("activation_1.f32", &one)]);
    assert_refused(&[first.path()], "activation_1.f32", "there is no layer 0");
    let array = npy_file("<f4", "(1,)", &one);
    let double = folder(&[("activation_0.f32", &one), ("activation_0.npy", &array)]);
    assert_refused(&[double.path()], "activation_0.npy", "this is layer 0, and so is");
    let zeros = folder(&[("activation_0.f32", &one), ("activation_00.f32", &one)]);
    assert_refused(&[zeros.path()], "activation_00.f32", "this is layer 0, and so is");
    let huge = folder(&[("activation_99999999999999999999.f32", &one)]);
    assert_refused(&[huge.path()], "activation_99999999999999999999.f32", "is not the number of a layer");
    let unnamed = folder(&[("a.f32", &one), ("layer-0.f32", &one)]);
    let (a, b) = (unnamed.path().join("a.f32"), unnamed.path().join("layer-0.f32"));
    assert_refused(&[&a, &b], "a.f32", "no number in its name");
    assert_eq!(read(&[&a]), Ok(vec![vec![1.0]]), "a single file may have any name");
}

#[test]
fn format_is_that_of_the_name_or_else_of_the_content() {
    let one = floats(&[1.0]);
    let array = npy_file("<f8", "(2,)", &[1.0f64.to_le_bytes(), 2.0f64.to_le_bytes()].concat());
    let table = npy_file("<f4", "(1, 1)", &one);
    let files = folder(&[
        ("a.bin", &array),
        ("b.bin", &one),
        ("c.npy", &one),
        ("d.pt", &array),
        ("e.F32", &one),
        ("f.npy", &table),
    ]);
    let at = |name: &str| files.path().join(name);
    assert_eq!(read(&[&at("a.bin")]), Ok(vec![vec![1.0, 2.0]]));
    assert_eq!(read(&[&at("e.F32")]), Ok(vec![vec![1.0]]));
    assert_refused(&[&at("b.bin")], "b.bin", "a name that ends in .f32");
    assert_refused(&[&at("c.npy")], "c.npy", "not a NumPy array");
    assert_refused(&[&at("d.pt")], "d.pt", "not a file of torch.save");
    assert_refused(&[&at("f.npy")], "f.npy", "the shape is [1, 1]");
    assert_refused(&[&at("none.pt")], "none.pt", "no such file");
}

#[test]
fn numbers_that_are_no_hotness_are_refused_by_file() {
    let good = floats(&[1.0, 2.0]);
    let cases: [(&[u8], &str); 7] = [
        (&floats(&[1.0, f32::NAN]), "the hotness of neuron 1 is NaN"),
        (&floats(&[f32::INFINITY, 1.0]), "the hotness of neuron 0 is inf"),
        (&floats(&[1.0, -1.0]), "the hotness of neuron 1 is -1"),
        (&floats(&[1.0]), "it has 1 neurons, and"),
        (&floats(&[1.0, 2.0, 3.0]), "it has 3 neurons, and"),
        (&[0; 7], "it has 7 bytes, no whole number of 4-byte numbers"),
        (&[], "there are no neurons"),
    ];
    for (content, words) in cases {
        let folder = folder(&[("activation_0.f32", &good), ("activation_1.f32", content)]);
        assert_refused(&[folder.path()], "activation_1.f32", words);
    }
}
