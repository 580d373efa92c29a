//! Which layouts the kernels of real ggml read their sources in, for both versions of ggml, and that lastuse claims no
//! more than that.

mod support;

use std::collections::BTreeMap;

use lastuse::graph::Strides;
use lastuse_vendor::Package;

type Reader = (String, usize);

/// The most that each operation was seen to read of each source, of what was accepted.
fn seen(package: Package, name: &str) -> BTreeMap<Reader, Strides> {
    let mut seen = BTreeMap::new();
    for answer in support::survey::ask("read_layouts", package, name) {
        let most = seen.entry((answer.operation, answer.source)).or_insert(Strides::Contiguous);
        *most = (*most).max(answer.layout);
    }
    seen
}

/// Everything that is claimed was tried, and nothing more was accepted.
fn only_what_is_claimed(seen: &BTreeMap<Reader, Strides>) {
    for ((operation, slot), most) in seen {
        assert_eq!(*most, Strides::read_by(operation, *slot), "source {slot} of {operation}");
    }
    for (operation, slot) in Strides::readers() {
        assert!(seen.contains_key(&(operation.to_owned(), slot)), "source {slot} of {operation} was not tried");
    }
}

#[test]
fn ggml_0_26() {
    only_what_is_claimed(&seen(Package::LlamaCpp, "read_layouts-0.26"));
}

#[test]
fn ggml_0_9_5() {
    only_what_is_claimed(&seen(Package::WhisperCpp, "read_layouts-0.9.5"));
}
