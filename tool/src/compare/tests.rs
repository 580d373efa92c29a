//! Words are files or a program, and accountings tell what was live at the peak.

use std::ffi::OsString;
use std::path::Path;

use lastuse::accounting::{
    AccountedBuffer, AccountedDevice, AccountedGraph, AccountedTensor, Accounting, BufferUsage, Location, MemoryClass,
    Steps, Sums,
};

use super::accountings::holders;
use super::files::are_meant;

pub fn tensor(name: &str) -> AccountedTensor {
    AccountedTensor {
        name: name.to_owned(),
        op: "ADD".to_owned(),
        element: "f32".to_owned(),
        ne: [8, 1, 1, 1],
        class: MemoryClass::Compute,
        bytes: 32,
        view_of: None,
        resides: Some("CPU".to_owned()),
        buffer_type: Some("CPU".to_owned()),
        location: None,
        steps: None,
        executes: None,
    }
}

/// A tensor of the compute buffer, with the steps at which it is live.
fn placed(name: &str, [offset, bytes]: [u64; 2], [first, last]: [u32; 2]) -> AccountedTensor {
    let location = Some(Location { buffer: 2, offset });
    AccountedTensor { bytes, location, steps: Some(Steps { first, last }), ..tensor(name) }
}

fn accounting(tensors: Vec<AccountedTensor>) -> Accounting {
    let buffer = |id, usage, sums: Sums| AccountedBuffer {
        id,
        device: "CPU".to_owned(),
        buffer_type: "CPU".to_owned(),
        usage,
        mapped: false,
        asked: sums.total(),
        bytes: sums.total(),
        resident: None,
        sums,
    };
    let weights = Sums { weights: 64, ..Sums::default() };
    let compute = Sums { compute: 256, ..Sums::default() };
    let sums = Sums { weights: 64, ..compute };
    Accounting {
        devices: vec![AccountedDevice { name: "CPU".to_owned(), sums, ..AccountedDevice::default() }],
        buffers: vec![buffer(1, BufferUsage::Weights, weights), buffer(2, BufferUsage::Compute, compute)],
        graphs: vec![AccountedGraph { tensors, ..AccountedGraph::default() }],
        ..Accounting::default()
    }
}

#[test]
fn accountings_tell_what_is_live_at_the_peak() {
    let weight = AccountedTensor {
        class: MemoryClass::Weights,
        op: "NONE".to_owned(),
        location: Some(Location { buffer: 1, offset: 0 }),
        bytes: 64,
        ..tensor("blk.3.w")
    };
    let input = AccountedTensor { op: "NONE".to_owned(), ..placed("tokens", [0, 32], [2, 3]) };
    let view = AccountedTensor { view_of: Some("a-0".to_owned()), ..placed("a-0 (view)", [32, 96], [0, 1]) };
    let tensors = vec![
        weight.clone(),
        weight,
        input,
        placed("a-0", [32, 96], [0, 1]),
        view,
        // In place: it has the memory of its source.
        placed("b-0", [32, 96], [1, 2]),
        placed("c-0", [128, 64], [1, 1]),
        placed("d-0", [128, 128], [3, 3]),
    ];
    let all = holders(&[accounting(tensors)]);
    let found: Vec<(&str, u64)> =
        all[0].tensors.iter().flatten().map(|tensor| (&*tensor.group, tensor.bytes)).collect();
    assert_eq!(found, [("blk.*.w", 64), ("tokens", 32), ("a-*", 96), ("c-*", 64)]);
}

#[test]
fn processes_add_up() {
    let all = holders(&[accounting(vec![placed("a", [0, 32], [0, 0])]), accounting(Vec::new())]);
    assert_eq!((all.len(), all[0].sums.total(), all[0].tensors.as_ref().map(Vec::len)), (1, 640, Some(1)));
}

#[test]
fn programs_go_before_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("it can be written to");
        file.into_os_string()
    };
    let path = |file: &OsString| Path::new(file).as_os_str().to_owned();
    let (data, script, notes) = (write("a.txt", " {\"format\":"), write("run", "#!/bin/sh\n"), write("notes", "x"));
    let (cut, missing) = (write("cut.json", "x"), OsString::from("nowhere.jsonl"));
    for files in
        [vec![path(&data)], vec![cut, data.clone()], vec![missing, notes.clone()], vec![notes.clone(), data.clone()]]
    {
        assert!(are_meant(&files), "{files:?}");
    }
    let words = [
        vec![script, data.clone()],
        vec!["true".into(), data.clone()],
        vec![notes.clone()],
        vec![notes.clone(), notes.clone(), data],
    ];
    for program in words.into_iter().chain([vec!["none".into()], vec![folder.path().as_os_str().to_owned()]]) {
        // The folder has an accounting by name.
        let is_folder = program[0] == folder.path().as_os_str();
        assert_eq!(are_meant(&program), is_folder, "{program:?}");
    }
}
