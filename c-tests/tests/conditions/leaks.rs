//! The sanitizers that programs with the word `sanitized` in their first line run under find what they must.

use crate::support;
use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

const SANITIZE: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

#[test]
fn sanitizers_are_on() {
    let ggml = support::ggml(Package::LlamaCpp);
    let program = Program::build("leak", &["tests/conditions/leak.c"], &ggml, Linked::Ggml, SANITIZE);
    let program = support::expect(program);
    for (fault, named) in [("leak", "LeakSanitizer"), ("overrun", "AddressSanitizer")] {
        let outcome = support::expect(program.run(&[fault]));
        assert_ne!(outcome.code, Some(0), "{}", outcome.describe());
        assert!(outcome.stderr.contains(named), "{}", outcome.describe());
    }
}
