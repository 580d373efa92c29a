//! Which layouts the kernels of real ggml read their sources in, for both versions of ggml, and that lastuse claims no
//! more than that.

use std::collections::BTreeMap;

use crate::support;
use lastuse::graph::{Op, Strides};
use lastuse_vendor::Package;

type Reader = (String, usize);

/// `GGML_MAX_SRC`.
const MOST_SOURCES: usize = 10;

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
        assert_eq!(*most, Op::named(operation).reads(*slot), "source {slot} of {operation}");
    }
    for (op, slot) in Op::KNOWN.iter().flat_map(|op| (0..MOST_SOURCES).map(move |slot| (op, slot))) {
        let is_tried = op.reads(slot) <= Strides::Contiguous || accepted.contains_key(&(op.name().to_owned(), slot));
        assert!(is_tried, "source {slot} of {} was not tried", op.name());
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
