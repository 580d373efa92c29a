//! Training loses nothing: with every method the losses are those of ggml's own allocator, to the last bit.

use std::sync::OnceLock;

use crate::support;
use crate::support::expect;
use lastuse_c_tests::{PLAIN, TrainingDriver, TrainingPrograms, TrainingRun, TrainingSetup};
use lastuse_vendor::Package;

/// Five times 32 data points, the last of which are held out: four steps of the optimizer in each epoch.
const SHORT: [&str; 4] = ["--points", "160", "--epochs", "2"];

fn programs() -> &'static TrainingPrograms {
    static PROGRAMS: OnceLock<TrainingPrograms> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        expect(TrainingPrograms::build("-checked", &support::ggml(Package::LlamaCpp), &support::checked()))
    })
}

/// The common results of runs of the same batches.
#[derive(Default)]
struct Expected {
    losses: Vec<String>,
    layers: Option<String>,
}

/// Compares a run with those before, of any driver.
fn compare(setup: &TrainingSetup, run: &TrainingRun, expected: &mut Expected) {
    if expected.losses.is_empty() {
        expected.losses.clone_from(&run.losses);
    }
    assert_eq!(run.losses, expected.losses, "{setup:?}");
    if setup.method.keeps_layers {
        let layers = expect(run.text("layers_hash")).to_owned();
        assert_eq!(&layers, expected.layers.get_or_insert(layers.clone()), "{setup:?}: other results of layers");
    }
}

/// The compute buffer is not larger than ggml's own allocator makes it, when as much can be read after the run.
/// It has no way to keep everything.
fn assert_not_larger(setup: &TrainingSetup, run: &TrainingRun, of_ggml: &[(TrainingSetup, f64)]) {
    if setup.method.keeps_everything {
        return;
    }
    let is_alike = |(other, _): &&(TrainingSetup, f64)| other.method.keeps_layers == setup.method.keeps_layers;
    let &(_, limit) = of_ggml.iter().find(is_alike).expect("ggml's own allocator ran first");
    let bytes = expect(run.number("compute_bytes"));
    assert!(bytes <= limit, "{setup:?}: {bytes} bytes, ggml-alloc needs {limit}");
}

/// Runs every method of every driver.
fn compare_all(accumulate: u32) -> Vec<String> {
    let (programs, batch) = (programs(), (32 / accumulate).to_string());
    let mut expected = Expected::default();
    for driver in TrainingDriver::ALL {
        let mut of_ggml = Vec::new();
        for setup in TrainingSetup::all_of(driver, accumulate) {
            let run = expect(programs.run(&setup, &[&SHORT[..], &["--batch", &*batch]].concat()));
            assert_eq!(run.losses.len(), 10 * accumulate as usize, "{setup:?}");
            compare(&setup, &run, &mut expected);
            if !setup.on_lastuse {
                of_ggml.push((setup, expect(run.number("compute_bytes"))));
            }
            assert_not_larger(&setup, &run, &of_ggml);
        }
    }
    expected.losses
}

#[test]
fn losses_are_equal_to_the_last_bit() {
    let losses = compare_all(1);
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]), "a loss is repeated: {losses:?}");
}

#[test]
fn losses_are_equal_when_gradients_are_accumulated() {
    let losses = compare_all(2);
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]), "a loss is repeated: {losses:?}");
}

#[test]
fn network_learns_the_numbers_it_was_shown() {
    let programs = programs();
    let setup = TrainingSetup { driver: TrainingDriver::Loop, accumulate: 1, on_lastuse: true, method: PLAIN };
    let run = expect(programs.run(&setup, &["--layers", "1", "--modulus", "7", "--batch", "8", "--epochs", "60"]));
    let [first, last] = ["first_epoch_loss", "last_epoch_loss"].map(|key| expect(run.number(key)));
    assert!(last < 0.5 * first, "{last} after {first}");
}

#[test]
fn unknown_options_and_methods_are_refused() {
    let programs = programs();
    let cases: [(&[&str], &str); 6] = [
        (&[], "no file given"),
        (&["losses", "--driver", "fast"], "unknown driver 'fast'"),
        (&["losses", "--method", "magic"], "unknown method 'magic'"),
        (&["losses", "--method", "dedicate"], "--method dedicate needs --driver loop"),
        (&["losses", "--heads", "3"], "--width must be a multiple of --heads"),
        (&["losses", "--layers", "0"], "--layers needs a whole number from 1 to 8, not '0'"),
    ];
    for (arguments, message) in cases {
        let outcome = expect(programs.run_raw(arguments));
        assert!(outcome.code == Some(2) && outcome.stderr.contains(message), "{}", outcome.describe());
    }
}
