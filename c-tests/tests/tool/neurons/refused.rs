//! Statistics and options that are refused.

use std::fs;

use super::{assert_fails, divide, examples, folder, stderr, write_layers};

#[test]
fn bad_statistics_are_refused_by_file() {
    let folder = folder("bad");
    write_layers(&folder, &[vec![1.0; 64], vec![1.0; 63]]);
    let refused = divide(&folder, &["--neurons", "64"]);
    let (first, second) = (folder.join("activation_0.f32"), folder.join("activation_1.f32"));
    assert_fails(&refused, &format!("{}: it has 63 neurons, and {} has 64", second.display(), first.display()));
    write_layers(&folder, &[vec![1.0; 64], vec![f32::NAN; 64]]);
    let refused = divide(&folder, &["--neurons", "64"]);
    let second = second.display();
    assert_fails(
        &refused,
        &format!("{second}: the hotness of neuron 0 is NaN; a finite number, 0 or more, is expected"),
    );
    let damaged = folder.join("damaged.pt");
    let mut file = fs::read(examples().join("pt/activation_0.pt")).expect("an example");
    file[0x1c0] ^= 1;
    fs::write(&damaged, file).expect("it can be written");
    let refused = divide(&damaged, &["--neurons", "64"]);
    assert!(
        stderr(&refused).contains("damaged.pt: record \"activation_0/data/0\" has the checksum"),
        "{}",
        stderr(&refused)
    );
    let output = folder.join("none.gpuidx");
    let name = output.to_str().expect("UTF-8");
    let refused = divide(&damaged, &["--neurons", "64", "--vram-capacity", "1", "-o", name]);
    assert!(refused.status.code() == Some(1) && !output.exists(), "no file is left");
    let refused = divide(&examples().join("pt"), &["--neurons", "64", "--ff", "512"]);
    assert!(stderr(&refused).contains("activation_0.pt: it has 1024 neurons, and --ff is 512"));
    assert_fails(
        &divide(&examples().join("pt"), &["--neurons", "64", "--layers", "5"]),
        "there is hotness of 4 layers, and --layers is 5",
    );
}

#[test]
fn wrong_usage_exits_with_2() {
    let stats = examples().join("pt");
    let cases: [(&[&str], &str); 12] = [
        (&[], "a budget is needed: --neurons or --bytes"),
        (&["--bytes", "1M"], "--bytes needs --embd and --type"),
        (&["--bytes", "1M", "--powerinfer"], "needs --type"),
        (&["--bytes", "0.2", "--embd", "256", "--type", "f16"], "\"0.2\" is not a size"),
        (&["--bytes", "1X", "--embd", "256", "--type", "f16"], "\"1X\" is not a size"),
        (&["--bytes", "18446744073709551616", "--embd", "256", "--type", "f16"], "is not a size"),
        (&["--neurons", "1", "--bytes", "1M"], "cannot be used with"),
        (&["--neurons", "1", "--granule", "100"], "100 is not a granule: give a multiple of 32"),
        (&["--neurons", "1", "--granule", "32", "--powerinfer"], "leave --granule out"),
        (&["--neurons", "1", "-o", "x.gpuidx"], "--output needs --vram-capacity"),
        (&["--neurons", "1", "--type", "q4"], "\"q4\" is not an element type; expected f32, f16,"),
        (&["--neurons", "1", "--check", "x.gpuidx"], "cannot be used with"),
    ];
    for (options, message) in cases {
        let output = divide(&stats, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(message), "{message:?} in: {}", stderr(&output));
    }
    let output = divide(&stats, &["--bytes", "1M", "--embd", "100", "--type", "q4_0"]);
    assert_fails(&output, "a row of 100 elements is not a whole number of blocks of q4_0 (32 elements)");
}
