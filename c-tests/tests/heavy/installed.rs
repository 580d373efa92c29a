//! The tool as `cargo install` makes it: a single file, with the libraries inside.

use std::fs;
use std::process::Command;

use crate::support::{expect, llama_style};
use lastuse_c_tests::{Linked, tool_with_libraries_inside};
use lastuse_vendor::{Package, target_folder};

#[test]
fn the_tool_alone_brings_its_library() {
    let folder = target_folder().join("c-tests/installed");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let tool = folder.join("lastuse");
    fs::copy(expect(tool_with_libraries_inside()), &tool).expect("it can be copied");
    let model = llama_style::build("installed-model", Package::LlamaCpp, Linked::SharedGgml);
    for _ in 0..2 {
        let mut command = Command::new(&tool);
        command.arg("run").arg(model.path()).args(llama_style::SMALL).env("XDG_CACHE_HOME", folder.join("cache"));
        let output = command.output().expect("the tool starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("allocator=lastuse "), "{text}");
    }
    assert!(folder.join("cache/lastuse").is_dir(), "the library was not unpacked");
}
