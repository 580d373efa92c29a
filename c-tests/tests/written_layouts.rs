//! Which layouts the kernels of real ggml write their results in, for both versions of ggml, and that lastuse claims no
//! more than that.

mod support;

use std::collections::BTreeMap;

use lastuse::graph::Strides;
use lastuse_vendor::Package;

/// The most that each operation was seen to write, of what was accepted.
fn seen(package: Package, name: &str) -> BTreeMap<String, Strides> {
    let mut seen = BTreeMap::new();
    for answer in support::survey::ask("written_layouts", package, name) {
        let most = seen.entry(answer.operation).or_insert(Strides::OnlyItsOwn);
        *most = (*most).max(answer.layout);
    }
    seen
}

/// Everything that is claimed was tried, and nothing more was accepted.
fn only_what_is_claimed(seen: &BTreeMap<String, Strides>) {
    for (operation, most) in seen {
        assert_eq!(*most, Strides::written_by(operation), "{operation}");
    }
    for operation in Strides::writers() {
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
