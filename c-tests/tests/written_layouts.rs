//! Which layouts the kernels of real ggml write their results in, for both versions of ggml, and that lastuse claims no
//! more than that.

mod support;

use std::collections::BTreeMap;

use lastuse::graph::Writes;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const CASES: [&str; 8] = ["elementwise", "binary", "rows", "gates", "copies", "backward", "parts", "others"];

/// The most that each operation was seen to write, of what was accepted.
fn seen(package: Package, name: &str) -> BTreeMap<String, Writes> {
    let sources = support::sources("written_layouts", &["in_place", "written"]);
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let (ggml, lastuse) = (support::ggml(package), support::release());
    let program = support::expect(Program::build(name, &sources, &ggml, Linked::LastuseArchive(&lastuse), &[]));
    let mut seen = BTreeMap::new();
    for case in CASES {
        let outcome = support::passes(&program, &[case]);
        for line in outcome.stdout.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["writes", operation, layout] => {
                    let most = seen.entry((*operation).to_owned()).or_insert(Writes::OnlyItsOwn);
                    *most = (*most).max(writes(layout));
                }
                ["could", ..] => println!("{name}: {line}"),
                _ => {}
            }
        }
    }
    seen
}

fn writes(name: &str) -> Writes {
    match name {
        "CONTIGUOUS" => Writes::Contiguous,
        "PADDED_ROWS" => Writes::PaddedRows,
        "ROWS" => Writes::Rows,
        "ANYTHING" => Writes::Anything,
        _ => panic!("no such layout: {name}"),
    }
}

/// Everything that is claimed was tried, and nothing more was accepted.
fn only_what_is_claimed(seen: &BTreeMap<String, Writes>) {
    for (operation, most) in seen {
        assert_eq!(*most, Writes::of(operation), "{operation}");
    }
    for operation in Writes::known() {
        assert!(seen.contains_key(operation), "{operation} was not tried");
    }
}

#[test]
fn ggml_0_26() {
    only_what_is_claimed(&seen(Package::LlamaCpp, "written_layouts-0.26"));
}

#[test]
fn ggml_0_9_5() {
    only_what_is_claimed(&seen(Package::WhisperCpp, "written_layouts-0.9.5"));
}
