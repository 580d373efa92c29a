//! What `lastuse offload` promises for devices that count and refuse, and what llama.cpp asks them for. `cargo hosts vulkan`
//! runs more cases, and a Vulkan device.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::support;
use lastuse_c_tests::{PlacedCase, PlacedProgram, head_on_host, on_any_machine, sweep};
use lastuse_vendor::{llama, target_folder};

/// Returns the program, which is built once.
pub fn program() -> &'static PlacedProgram {
    static PROGRAM: OnceLock<PlacedProgram> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        support::tool::file();
        support::release();
        let folder = target_folder().join("c-tests/placed-devices");
        support::expect(PlacedProgram::build("placed", &support::expect(llama()), folder, Vec::new()))
    })
}

fn case(name: &str) -> PlacedCase {
    on_any_machine().into_iter().find(|case| case.name == name).expect("a case of this name")
}

/// Runs a case with these parts of all that is placed, and returns the arguments that llama.cpp got.
fn checked(name: &str, parts: &'static [u64]) -> Vec<Vec<String>> {
    let rows = support::expect(sweep(&PlacedCase { parts, ..case(name) }, program(), |_| {}));
    assert_eq!(rows.len(), parts.len() + 2);
    let wrong: Vec<&String> = rows.iter().flat_map(|row| &row.wrong).collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    rows.into_iter().map(|row| row.promise.expect("a placement for each budget").arguments).collect()
}

#[test]
fn a_device_is_asked_for_what_was_promised() {
    let arguments = checked("dense, one GPU", &[300]);
    assert_eq!(arguments.last().expect("the last has everything"), &["-ngl", "7"]);
    assert!(arguments[0].contains(&"-ot".to_owned()), "{arguments:?}");
    assert_eq!(arguments.iter().collect::<HashSet<_>>().len(), arguments.len(), "{arguments:?}");
}

#[test]
fn two_devices_are_asked_for_what_was_promised() {
    let arguments = checked("experts, two GPUs", &[500]);
    assert!(arguments.iter().all(|of_row| of_row.contains(&"-ts".to_owned())), "{arguments:?}");
}

/// llama.cpp has the head on the device of the output and, as the token embedding, on the host.
#[test]
fn an_embedding_that_is_the_head_too_is_on_the_device_of_the_output() {
    for (name, has_layers) in
        [("tied head", false), ("tied head, whole layers", true), ("tied head, one command", true)]
    {
        let arguments = checked(name, &[20, 500]);
        assert_eq!(arguments.last().expect("the last has everything"), &["-ngl", "7"], "{name}");
        let is_named = |of_row: &Vec<String>| of_row.iter().any(|word| word.contains(r"^token_embd\.weight$=CPU"));
        // Single tensors leave out others in its place.
        assert!(!has_layers || arguments.iter().any(is_named), "without room for the head, {name}: {arguments:?}");
    }
    checked("tied head, two GPUs", &[300]);
}

/// With the copies of pipelines, a layer less would have room.
#[test]
fn one_command_finds_that_devices_have_no_events_and_prefers_the_first() {
    let arguments = checked("dense, two GPUs, one command", &[500]);
    assert_eq!(arguments.last().expect("the last has everything"), &["-ngl", "7", "-ts", "7,0"]);
}

/// Runs the tool with these devices on the program with these arguments, and returns its exit code and messages.
fn refused(devices: &[&str], own: &str) -> (Option<i32>, String) {
    let case = case("dense, two GPUs");
    let model = support::expect(program().model(&case.model));
    let own: Vec<String> = own.split(' ').map(str::to_owned).collect();
    let devices: Vec<&str> = devices.iter().flat_map(|device| ["--device", device]).collect();
    let outcome = support::expect(program().with_tool(&[&["offload", "--json"], &devices[..]].concat(), &model, &own));
    (outcome.code, outcome.stderr)
}

#[test]
fn programs_that_do_not_do_what_is_planned_are_told_what_to_change() {
    let none_selected = "give --device for each device that the program uses, in its order: GPU0, GPU1";
    for (devices, own, code, message) in [
        (&["GPU0=1G"][..], "--gpus 1 -nkvo", 1, "leave out -nkvo of the program's own arguments"),
        (&["GPU0=1G"], "--gpus 1 --contexts 2", 1, "the program has 2 graph allocators"),
        (&["GPU1=1G"], "--gpus 2", 2, none_selected),
        (&["GPU1=1G", "GPU0=1G"], "--gpus 2", 2, none_selected),
    ] {
        let (found, stderr) = refused(devices, own);
        assert!(found == Some(code) && stderr.contains(message), "{devices:?}, {own}: {found:?}, {stderr}");
    }
}

#[test]
fn copies_of_pipelines_are_part_of_the_promise() {
    let arguments = checked("dense, two GPUs, pipelines", &[]);
    let everything = |arguments: Vec<Vec<String>>| arguments.last().expect("the last has everything")[..2].join(" ");
    assert_eq!(everything(arguments), "-ngl 7");
    assert_eq!(everything(checked("dense, two GPUs, pipelines, one command", &[])), "-ngl 7");
}

#[test]
fn one_command_keeps_its_promise() {
    let arguments = checked("experts, one command, experts", &[500]);
    assert!(arguments[0].contains(&"--n-cpu-moe".to_owned()), "{arguments:?}");
    assert_eq!(arguments.last().expect("the last has everything"), &["-ngl", "5"]);
    checked("dense, one command, tensors", &[500]);
}

#[test]
fn output_head_on_the_host_has_a_copy_on_the_device() {
    let found = support::expect(head_on_host(&case("dense, one GPU"), program(), 128));
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
    assert_eq!(found.with.weights - found.without.weights, found.head);
    // The copy takes most of the expected saving.
    let saved = found.with.peak - found.without.peak;
    assert!(saved < found.head / 2, "{saved} of {} bytes saved", found.head);
}
