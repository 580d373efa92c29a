//! What programs that ask the kernels of the CPU print: see `support/survey.h` beside them.

use lastuse::graph::Strides;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const CASES: [&str; 8] = ["elementwise", "binary", "rows", "gates", "copies", "backward", "parts", "others"];

/// A layout that lastuse says an operation can do, and that it could.
pub struct Answer {
    pub operation: String,
    pub source: usize,
    pub layout: Strides,
}

/// Runs all cases of a program with real ggml. What could be claimed too is printed.
pub fn ask(program: &str, package: Package, name: &str) -> Vec<Answer> {
    let sources = super::sources(program, &["in_place", "written", "survey"]);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (super::ggml(package), super::release());
    let program = super::expect(Program::build(name, &sources, &ggml, Linked::LastuseArchive(&lastuse), &[]));
    let mut answers = Vec::new();
    for case in CASES {
        let outcome = super::passes(&program, &[case]);
        for line in outcome.stdout.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["could", ..] => println!("{name}: {line}"),
                [_, operation, source, layout] => answers.push(Answer {
                    operation: (*operation).to_owned(),
                    source: source.parse().expect("the number of a source"),
                    layout: strides(layout),
                }),
                _ => {}
            }
        }
    }
    answers
}

fn strides(name: &str) -> Strides {
    match name {
        "CONTIGUOUS" => Strides::Contiguous,
        "PADDED_ROWS" => Strides::PaddedRows,
        "ROWS" => Strides::Rows,
        "ANYTHING" => Strides::Anything,
        _ => panic!("no such layout: {name}"),
    }
}
