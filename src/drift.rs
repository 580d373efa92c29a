//! Committed files that are generated must be what the generator writes.
//!
//! `cargo test -p lastuse --features header,bindings --lib drift`; the second feature needs libclang.

/// Fails with the command that updates the file.
fn assert_same(name: &str, committed: &str, generated: &str, feature: &str) {
    let update = format!("LASTUSE_UPDATE=1 cargo build -p lastuse --features {feature}");
    assert!(committed == generated, "{name} is not what its generator writes; update it with: {update}");
}

#[cfg(feature = "header")]
#[test]
fn header_is_what_cbindgen_writes() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/lastuse.h"));
    assert_same("include/lastuse.h", include_str!("../include/lastuse.h"), generated, "header");
}

#[cfg(feature = "bindings")]
#[test]
fn bindings_are_what_bindgen_writes() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/bindings.rs"));
    assert_same("src/ggml/bindings.rs", include_str!("ggml/bindings.rs"), generated, "bindings");
}
