//! Checks of files, and files that ggml itself reads.

use std::fs;
use std::path::Path;

use crate::support;
use lastuse_c_tests::Linked;
use lastuse_neurons::gguf::TensorType;
use lastuse_vendor::Package;
use serde_json::{Value, json};

use super::{assert_fails, check, divide, examples, folder, stderr, stdout};

/// Changes one number of the middle example, and expects a rule for a tensor or key.
fn assert_broken(position: usize, bytes: &[u8], line: &str) {
    let mut file = fs::read(examples().join("gpuidx/middle.gpuidx")).expect("an example");
    file[position..position + bytes.len()].copy_from_slice(bytes);
    let path = folder(&format!("broken-{position}")).join("broken.gpuidx");
    fs::write(&path, file).expect("it can be written");
    let output = check(&path, &[]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), ""));
    assert_eq!(stdout(&output), format!("{line}\nThe file is invalid: 1 defect\n"));
    let document: Value = serde_json::from_slice(&check(&path, &["--json"]).stdout).expect("it is JSON");
    let defect = &document["defects"][0];
    assert_eq!(document["ok"], json!(false));
    let place = defect["place"].as_str().map_or(String::new(), |place| format!("{place}: "));
    let told = format!(
        "{place}{} (rule {})",
        defect["message"].as_str().unwrap_or_default(),
        defect["rule"].as_str().unwrap_or_default()
    );
    assert_eq!(told, line);
}

#[test]
fn broken_files_are_refused_by_tensor_and_rule() {
    // The data starts at 544: 1024 numbers for layer 0, then its bucket of 512.
    assert_broken(544, &[2], "blk.0.gpu_idx: neuron 0 has 2; 0 or 1 is expected (rule index-values)");
    let bucket = 544 + 4096;
    assert_broken(
        bucket,
        &1024i32.to_le_bytes(),
        "blk.0.gpu_bucket: id 1024 at position 0 is not a neuron: there are 1024 (rule bucket-range)",
    );
    // Behind the first key.
    assert_broken(
        24 + 8 + 20 + 4 + 8,
        b"h",
        "general.architecture: it is \"heneric.gpu_index\"; \"generic.gpu_index\" is expected (rule architecture)",
    );
}

#[test]
fn files_that_are_cut_off_or_of_another_model_are_refused() {
    let path = folder("cut").join("cut.gpuidx");
    let file = fs::read(examples().join("gpuidx/small.gpuidx")).expect("an example");
    fs::write(&path, &file[..file.len() - 32]).expect("it can be written");
    let output = check(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("the last tensor ends at 18976: is the file whole? (rule length)"));
    let small = examples().join("gpuidx/small.gpuidx");
    assert_eq!(check(&small, &["--layers", "4", "--ff", "1024"]).status.code(), Some(0));
    assert_eq!(check(&small, &["--vram-capacity", "1500000"]).status.code(), Some(0));
    let output = check(&small, &["--vram-capacity", "1499999"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).starts_with("1500000 bytes are allowed for neurons; 1499999 are left for them (rule model)")
    );
    let output = check(&small, &["--layers", "5", "--ff", "512"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "there are 4 layers; the model has 5 (rule model)\n\
                    there are 1024 neurons in a layer; the model has 512 (rule model)\nThe file is invalid: 2 defects\n";
    assert_eq!(stdout(&output), expected);
    let missing = check(Path::new("/nonexistent.gpuidx"), &[]);
    assert_fails(&missing, "/nonexistent.gpuidx: no such file");
}

#[test]
fn ggml_reads_files_of_its_dialect() {
    let file = folder("ggml").join("neurons.gguf");
    let name = file.to_str().expect("UTF-8");
    let options = ["--neurons", "2384", "--vram-capacity", "5500000", "--format", "gguf", "-o", name];
    assert_eq!(divide(&examples().join("pt"), &options).status.code(), Some(0));
    let program = support::build(
        "gguf-reader",
        "tests/tool/neurons/gguf_reader.c",
        &support::ggml(Package::LlamaCpp),
        Linked::Ggml,
    );
    let expected = "general.architecture generic.gpu_index\ngeneric.gpu_index.block_count 4\nsplit.vram_capacity 5500000\n\
                    blk.0.gpu_idx 1024 512\nblk.0.gpu_bucket 512 258327\n\
                    blk.1.gpu_idx 1024 1024\nblk.1.gpu_bucket 1024 523776\n\
                    blk.2.gpu_idx 1024 256\nblk.2.gpu_bucket 256 136455\n\
                    blk.3.gpu_idx 1024 512\nblk.3.gpu_bucket 512 261588\n";
    assert_eq!(support::passes(&program, &[name]).stdout, expected);
    assert_eq!(check(&file, &["--layers", "4", "--ff", "1024"]).status.code(), Some(0));
    let types: String = TensorType::all()
        .iter()
        .map(|it| format!("{} {} {} {}\n", it.id, it.name, it.block_elements, it.block_bytes))
        .collect();
    assert_eq!(support::passes(&program, &["types"]).stdout, types);
}
