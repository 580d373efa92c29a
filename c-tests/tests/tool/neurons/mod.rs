//! The output, files and exit codes of `lastuse neurons`: PowerInfer's own files byte for byte, true bytes, checks of
//! files, and bad input.

mod files;
mod guide;
mod refused;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::tool::{assert_fails, command, stderr, stdout};
use lastuse_vendor::target_folder;
use serde_json::{Value, json};

/// The files that PowerInfer wrote, and their input.
fn examples() -> PathBuf {
    lastuse_c_tests::folder().join("powerinfer")
}

/// A separate empty folder for each test.
fn folder(test: &str) -> PathBuf {
    let path = target_folder().join("c-tests/neurons-tool").join(test);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("the target folder can be written to");
    path
}

fn divide(stats: &Path, options: &[&str]) -> Output {
    command(&["neurons"]).arg(stats).args(options).output().expect("the tool starts")
}

fn check(file: &Path, options: &[&str]) -> Output {
    command(&["neurons", "--check"]).arg(file).args(options).output().expect("the tool starts")
}

/// Divides neurons, which must succeed.
fn divide_json(stats: &Path, options: &[&str]) -> Value {
    let output = divide(stats, &[options, &["--json"]].concat());
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn numbers(document: &Value, key: &str) -> Vec<u64> {
    let layers = document["layers"].as_array().expect("a list");
    layers.iter().map(|layer| layer[key].as_u64().expect("a number")).collect()
}

/// Writes bare numbers of 32 bits to a file for each layer.
fn write_layers(folder: &Path, layers: &[Vec<f32>]) {
    for (number, layer) in layers.iter().enumerate() {
        let bytes: Vec<u8> = layer.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(folder.join(format!("activation_{number}.f32")), bytes).expect("it can be written");
    }
}

/// The numbers of the examples as bare ones: NumPy has 128 bytes in front of them.
fn bare(folder: &Path) -> PathBuf {
    for layer in 0..4 {
        let array = fs::read(examples().join(format!("npy/activation_{layer}.npy"))).expect("an example");
        fs::write(folder.join(format!("activation_{layer}.f32")), &array[128..]).expect("it can be written");
    }
    folder.to_owned()
}

#[test]
fn examples_are_written_byte_for_byte_from_every_format() {
    let folder = folder("examples");
    let stats = [examples().join("pt"), examples().join("npy"), bare(&folder)];
    let cases = [("small", "648", "1500000"), ("middle", "2384", "5500000")];
    for stats in &stats {
        for (name, neurons, bytes) in cases {
            let expected = fs::read(examples().join(format!("gpuidx/{name}.gpuidx"))).expect("an example");
            for options in [
                &["--neurons", neurons, "--vram-capacity", bytes][..],
                &["--neurons", neurons, "--vram-capacity", bytes, "--powerinfer"],
                &["--bytes", bytes, "--powerinfer", "--type", "f16"],
                &["--bytes", bytes, "--powerinfer", "--type", "f16", "--embd", "256", "--layers", "4", "--ff", "1024"],
            ] {
                let file = folder.join("written.gpuidx");
                let output = divide(stats, &[options, &["-o", file.to_str().expect("UTF-8")]].concat());
                assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
                assert!(fs::read(&file).expect("it is written") == expected, "{name} from {}", stats.display());
            }
        }
    }
    let output = divide(&stats[0], &["--neurons", "648", "--vram-capacity", "1500000", "-o", "-"]);
    let expected = fs::read(examples().join("gpuidx/small.gpuidx")).expect("an example");
    assert!(output.status.success() && output.stdout == expected, "the file alone goes to the standard output");
}

#[test]
fn older_format_of_torch_has_the_same_numbers() {
    let layer = |path: &str| {
        let mut document = divide_json(&examples().join(path), &["--neurons", "300"]);
        document["layers"][0]["file"].take();
        document
    };
    assert_eq!(layer("older/activation_0.pt"), layer("pt/activation_0.pt"));
}

#[test]
fn counts_and_coverage_are_those_of_the_solver() {
    let document = divide_json(&examples().join("pt"), &["--neurons", "2384"]);
    assert_eq!(numbers(&document, "on_gpu"), [512, 1024, 256, 512]);
    let covered: Vec<f64> =
        document["layers"].as_array().expect("a list").iter().filter_map(|it| it["hotness_on_gpu"].as_f64()).collect();
    assert_eq!(covered, [8_736_887.0, 33_410_200.0, 2_692_875.0, 8_002_832.0]);
    let total = &document["total"];
    assert_eq!((&total["neurons"], &total["on_gpu"]), (&json!(4096), &json!(2304)));
    assert_eq!((&total["hotness_on_gpu"], &total["hotness"]), (&json!(52_842_794.0), &json!(53_697_523.0)));
    assert_eq!((&document["format"], &document["version"]), (&json!("lastuse-split"), &json!(1)));
    assert_eq!((&document["granule"], &total["bytes"]), (&json!(256), &Value::Null));
}

#[test]
fn true_bytes_are_within_the_budget() {
    let shape = ["--embd", "256", "--type", "f16"];
    let neuron = 3 * 256 * 2 + 4;
    for (budget, groups) in [(0, 0), (256 * neuron - 1, 0), (256 * neuron, 1), (5_500_000, 13), (1u64 << 40, 16)] {
        let document = divide_json(&examples().join("npy"), &[&["--bytes", &budget.to_string()], &shape[..]].concat());
        assert_eq!(document["total"]["on_gpu"], json!(256 * groups));
        assert_eq!(document["total"]["bytes"], json!(256 * groups * neuron));
        assert_eq!(document["neuron_bytes"], json!(neuron));
    }
    let bytes = |options: &[&str]| {
        let document = divide_json(&examples().join("npy"), &[&["--neurons", "256"], options].concat());
        document["total"]["bytes"].as_u64().expect("the shape is known")
    };
    assert_eq!(bytes(&["--embd", "256", "--type", "f16", "--no-gate"]), 256 * (2 * 512 + 4));
    assert_eq!(bytes(&["--embd", "256", "--type", "Q4_K", "--down-type", "q6_K"]), 256 * (2 * 144 + 210 + 4));
    assert_eq!(bytes(&["--embd", "256", "--type", "q4_0", "--row-padding", "512"]), 256 * (3 * 144 + 4) + 3 * 144);
}

#[test]
fn written_budget_is_the_whole_one() {
    let file = folder("budget").join("neurons.gpuidx");
    let name = file.to_str().expect("UTF-8");
    let output = divide(&examples().join("pt"), &["--bytes", "2M", "--embd", "256", "--type", "f16", "-o", name]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    let told = check(&file, &["--layers", "4", "--ff", "1024"]);
    assert_eq!(told.status.code(), Some(0));
    let expected = "OK: PWRI, layers: 4, neurons in each: 1024, on the GPU: 1280, bytes allowed: 2097152\n";
    assert_eq!(stdout(&told), expected);
}

#[test]
fn room_is_filled_unless_powerinfer_is_asked_for() {
    let folder = folder("inactive");
    let mut hot = vec![0.0; 512];
    hot[300] = 5.0;
    write_layers(&folder, &[vec![0.0; 512], hot]);
    assert_eq!(numbers(&divide_json(&folder, &["--neurons", "800"]), "on_gpu"), [512, 256]);
    assert_eq!(numbers(&divide_json(&folder, &["--neurons", "800", "--powerinfer"]), "on_gpu"), [0, 256]);
    assert_eq!(numbers(&divide_json(&folder, &["--neurons", "100", "--granule", "32"]), "on_gpu"), [64, 32]);
}

#[test]
fn layers_that_256_does_not_divide_are_divided() {
    let folder = folder("odd");
    write_layers(&folder, &[(0..=999u16).map(f32::from).collect()]);
    assert_eq!(numbers(&divide_json(&folder, &["--neurons", "999"]), "on_gpu"), [768]);
    assert_eq!(numbers(&divide_json(&folder, &["--neurons", "1000"]), "on_gpu"), [1000]);
    let refused = divide(&folder, &["--neurons", "999", "--powerinfer"]);
    assert_fails(
        &refused,
        "PowerInfer cannot divide 1000 neurons in a layer, which is not a multiple of 256: leave --powerinfer out",
    );
}

/// The shape of MiniCPM-1B, where PowerInfer charges too little.
#[test]
fn estimate_that_is_too_small_is_told() {
    let folder = folder("narrow");
    write_layers(&folder, &vec![(1..=3840u16).map(f32::from).collect(); 3]);
    let shape = ["--bytes", "50000000", "--embd", "1536", "--type", "f16"];
    let output = divide(&folder, &[&shape[..], &["--powerinfer"]].concat());
    let last = stdout(&output).lines().last().unwrap_or_default().to_owned();
    assert!(
        last.starts_with("PowerInfer's estimate is too small: this is ") && last.ends_with(" over the budget"),
        "{last}"
    );
    let ours = divide_json(&folder, &shape);
    assert!(ours["total"]["bytes"].as_u64().is_some_and(|bytes| bytes <= 50_000_000), "{ours}");
}
