//! Which layouts the kernels of real ggml read their sources in, for both versions of ggml, and that lastuse claims no
//! more than that.

use std::collections::BTreeMap;

use crate::support;
use lastuse::graph::Strides;
use lastuse_vendor::Package;

type Reader = (String, usize);

/// Returns the most general layout that each operation reads of each source, among the accepted ones.
fn accepted(package: Package, name: &str) -> BTreeMap<Reader, Strides> {
    let mut accepted = BTreeMap::new();
    for supported in support::survey::run("tests/heavy/read_layouts.c", package, name) {
        let most = accepted.entry((supported.operation, supported.source)).or_insert(Strides::Contiguous);
        *most = (*most).max(supported.layout);
    }
    accepted
}

/// Asserts that everything claimed was tried and that nothing else was accepted.
fn only_what_is_claimed(accepted: &BTreeMap<Reader, Strides>) {
    for ((operation, slot), most) in accepted {
        assert_eq!(*most, Strides::read_by(operation, *slot), "source {slot} of {operation}");
    }
    for (operation, slot) in Strides::readers() {
        assert!(accepted.contains_key(&(operation.to_owned(), slot)), "source {slot} of {operation} was not tried");
    }
}

#[test]
fn ggml_0_26() {
    only_what_is_claimed(&accepted(Package::LlamaCpp, "read_layouts-0.26"));
}

#[test]
fn ggml_0_9_5() {
    only_what_is_claimed(&accepted(Package::WhisperCpp, "read_layouts-0.9.5"));
}
