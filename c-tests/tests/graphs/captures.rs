//! The committed graphs are the current output of the programs in `captures/`.

use std::path::PathBuf;

use crate::support::expect;
use lastuse_c_tests::{Capture, captured_graphs, graphs_in};

/// Those of llama.cpp and whisper.cpp, which have to be compiled first, are compared by `cargo capture --check`.
#[test]
fn graphs_of_our_own_programs_are_up_to_date() {
    let captures: Vec<Capture> = Capture::all().into_iter().filter(|capture| capture.generator.is_cheap()).collect();
    assert!(!captures.is_empty(), "there is nothing to compare");
    let differing: Vec<&str> =
        captures.iter().filter(|capture| !expect(capture.is_up_to_date())).map(|capture| &*capture.name).collect();
    assert!(
        differing.is_empty(),
        "different from the committed files, see `cargo capture --help`: {}",
        differing.join(", ")
    );
}

#[test]
fn folder_of_graphs_holds_the_captures_and_nothing_else() {
    let captures: Vec<PathBuf> = Capture::all().iter().map(Capture::path).collect();
    let files = expect(graphs_in(&captured_graphs()));
    let missing: Vec<&PathBuf> = captures.iter().filter(|capture| !files.contains(capture)).collect();
    let unknown: Vec<&PathBuf> = files.iter().filter(|file| !captures.contains(file)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing: {missing:?}, unknown: {unknown:?}");
}
