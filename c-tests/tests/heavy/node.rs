//! The package for Node, as far as it needs no package on ggml: `cargo packages npm` tests it with those.

use std::fs;
use std::process::Command;

use crate::support;
use lastuse_c_tests::folder;
use lastuse_c_tests::packages::output_of;

#[test]
fn package_loads_the_library_and_says_what_is_wrong() {
    let sources = folder().with_file_name("packaging/node");
    let root = std::env::temp_dir().join(format!("lastuse-node-{}", std::process::id()));
    let package = root.join("node_modules/lastuse");
    fs::create_dir_all(&package).expect("a folder");
    for name in ["index.js", "package.json"] {
        fs::copy(sources.join(name), package.join(name)).expect("a copy");
    }
    fs::copy(&support::release().shared, package.join("liblastuse.so")).expect("a copy of the library");
    fs::copy(sources.join("tests/index.test.js"), root.join("index.test.js")).expect("a copy of the tests");
    let mut node = Command::new("node");
    node.args(["--test", "index.test.js"]).current_dir(&root);
    let done = output_of(node);
    fs::remove_dir_all(&root).expect("it can be removed");
    assert!(done.as_ref().is_ok_and(|text| text.contains("pass 8")), "{done:?}");
}
