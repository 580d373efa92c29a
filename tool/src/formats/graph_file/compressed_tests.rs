//! Files that are compressed by gzip, whole and damaged.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lastuse::graph::snapshot::Snapshot;

use crate::formats::{open_graph, read_graph};

const HEADER: &str = r#"{"format":"lastuse-graph","version":1,"label":"packed","n_leafs":0,"n_nodes":0,"buffers":[{"name":"CPU","alignment":32}]}"#;

fn compressed(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

fn reason(bytes: &[u8]) -> String {
    read_graph(bytes).expect_err("the input is wrong").to_string()
}

/// A file of this process with these bytes, gone when dropped.
struct Temporary(std::path::PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("lastuse-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("the folder for temporary files can be written");
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn opened(name: &str, bytes: &[u8]) -> Result<Snapshot, String> {
    open_graph(&Temporary::new(name, bytes).0).map_err(|error| error.to_string())
}

#[test]
fn compressed_input_reads_as_what_it_holds() {
    assert_eq!(read_graph(&*compressed(HEADER)).expect("it is whole").label, "packed");
}

#[test]
fn parts_that_were_compressed_alone_read_as_one() {
    let (first, second) = HEADER.split_at(40);
    let parts = [compressed(first), compressed(second)].concat();
    assert_eq!(read_graph(&*parts).expect("both are whole").label, "packed");
}

#[test]
fn compressed_files_are_recognized_by_their_first_bytes() {
    for (name, bytes) in
        [("a.jsonl.gz", compressed(HEADER)), ("b.jsonl", compressed(HEADER)), ("c.jsonl", HEADER.into())]
    {
        assert_eq!(opened(name, &bytes).expect("it is whole").label, "packed", "{name}");
    }
}

#[test]
fn file_named_gz_must_be_compressed() {
    let reason = "the name ends in .gz, but the file is not compressed by gzip";
    assert_eq!(opened("d.jsonl.gz", HEADER.as_bytes()).expect_err("it is plain"), reason);
    assert_eq!(opened("e.jsonl.gz", b"").expect_err("it is empty"), reason);
}

#[test]
fn compressed_input_that_was_cut_off_is_refused() {
    let whole = compressed(HEADER);
    for length in 2..whole.len() {
        let reason = reason(&whole[..length]);
        assert!(reason.ends_with("the compressed data ends too early: is the file whole?"), "{length}: {reason}");
    }
}

#[test]
fn compressed_input_that_was_changed_is_refused() {
    let whole = compressed(HEADER);
    let mut refused = 0;
    for place in 0..whole.len() {
        let mut changed = whole.clone();
        changed[place] ^= 0x55;
        // The header of gzip has a time and the like, which do not affect the data.
        match read_graph(&*changed) {
            Ok(snapshot) => assert!((4..10).contains(&place) && snapshot.label == "packed", "byte {place}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused >= whole.len() - 6, "{refused} of {}", whole.len());
}

#[test]
fn what_follows_the_compressed_data_must_be_compressed_too() {
    let reason = reason(&[compressed(HEADER), b"this is plain text".to_vec()].concat());
    assert!(reason.contains("the compressed data is damaged"), "{reason}");
}
