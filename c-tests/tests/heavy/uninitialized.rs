//! lastuse reads no byte that ggml leaves uninitialized: checked by valgrind, with everything on that reads graphs.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::Program;
use lastuse_vendor::{Package, ggml_base_for_any_machine, target_folder};

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let sources = ["tests/heavy/custom_operations.c"];
        let ggml = support::expect(ggml_base_for_any_machine(Package::LlamaCpp));
        support::expect(Program::build_on_base("custom_operations", &sources, &ggml, Some(&support::release())))
    })
}

#[test]
fn graphs_that_differ_in_padding_are_recognized() {
    support::passes(program(), &["graphs_are_recognized"]);
}

#[test]
fn valgrind_finds_no_use_of_padding() {
    let captures = target_folder().join("c-tests/recorded/uninitialized");
    let variables = [("LASTUSE_VERIFY", OsStr::new("plan")), ("LASTUSE_CAPTURE", captures.as_os_str())];
    let plain = program().command(&["graphs_are_used"], &variables);
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99"]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.output().expect("valgrind is installed: .ci/run does so");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
