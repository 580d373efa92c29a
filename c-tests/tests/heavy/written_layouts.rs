//! Which layouts the kernels of real ggml write their results in, for both versions of ggml, and that lastuse claims no
//! more than that.

use std::collections::BTreeMap;

use crate::support;
use lastuse::graph::{Op, Strides};
use lastuse_vendor::Package;

/// Returns the most general layout that each operation writes, among the accepted ones.
fn accepted(package: Package, name: &str) -> BTreeMap<String, Strides> {
    let mut accepted = BTreeMap::new();
    for supported in support::survey::run("tests/heavy/written_layouts.c", package, name) {
        let most = accepted.entry(supported.operation).or_insert(Strides::OnlyItsOwn);
        *most = (*most).max(supported.layout);
    }
    accepted
}

/// Asserts that everything claimed was tried and that nothing else was accepted.
fn only_what_is_claimed(accepted: &BTreeMap<String, Strides>) {
    for (operation, most) in accepted {
        assert_eq!(*most, Op::named(operation).writes(), "{operation}");
    }
    for op in Op::KNOWN.iter().filter(|op| op.writes() > Strides::OnlyItsOwn) {
        assert!(accepted.contains_key(op.name()), "{} was not tried", op.name());
    }
}

#[test]
fn ggml_0_26() {
    only_what_is_claimed(&accepted(Package::LlamaCpp, "written_layouts-0.26"));
}

#[test]
fn ggml_0_9_5() {
    only_what_is_claimed(&accepted(Package::WhisperCpp, "written_layouts-0.9.5"));
}
