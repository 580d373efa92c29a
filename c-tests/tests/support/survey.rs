//! Runs the programs that try which layouts the kernels of the CPU read and write (`support/survey.h` of the C
//! programs).

use lastuse::graph::Strides;
use lastuse_c_tests::Linked;
use lastuse_vendor::Package;

/// A layout that lastuse claims for an operation, and that its kernel handled correctly.
pub struct Supported {
    pub operation: String,
    pub source: usize,
    pub layout: Strides,
}

/// Runs all cases of a program with real ggml. Prints what could be claimed in addition.
pub fn run(program: &str, package: Package, name: &str) -> Vec<Supported> {
    let (ggml, lastuse) = (super::ggml(package), super::release());
    let program = super::build(name, program, &ggml, Linked::LastuseArchive(&lastuse));
    let mut supported = Vec::new();
    for case in super::listed_cases(&program, &[]) {
        let outcome = super::passes(&program, &[&case]);
        for line in outcome.stdout.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["could", ..] => println!("{name}: {line}"),
                [_, operation, source, layout] => supported.push(Supported {
                    operation: (*operation).to_owned(),
                    source: source.parse().expect("the number of a source"),
                    layout: strides(layout),
                }),
                _ => {}
            }
        }
    }
    supported
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
