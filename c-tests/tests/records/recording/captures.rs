//! Which files captures make, and what happens when they cannot be made.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Folder, graph, program, run};
use crate::support::expect;

fn capture(place: &OsStr) -> [(&'static str, &OsStr); 1] {
    [("LASTUSE_CAPTURE", place)]
}

/// The names of all tensors that have one.
fn names(folder: &Folder) -> Vec<String> {
    let mut names: Vec<String> = folder.graphs().into_iter().map(|mut graph| graph.tensors.remove(0).name).collect();
    names.sort();
    names
}

#[test]
fn threads_and_processes_write_each_graph_once() {
    for (test, files) in [("processes", ""), ("processes-compressed", "graph-%s.jsonl.gz")] {
        let folder = Folder::new(test);
        let place = folder.join(files);
        let run = || program().command(&["in_threads", "20"], &capture(place.as_os_str())).spawn().expect("it starts");
        let processes: Vec<_> = (0..4).map(|_| run()).collect();
        for mut process in processes {
            assert!(process.wait().expect("it ends").success());
        }
        let seeds: HashSet<String> = names(&folder).into_iter().collect();
        assert_eq!((folder.names().len(), seeds.len()), (20, 20), "{:?}", folder.names());
    }
}

#[test]
fn killed_program_leaves_whole_files() {
    for (test, files) in [("killed", ""), ("killed-compressed", "%s.jsonl.gz")] {
        let folder = Folder::new(test);
        let place = folder.join(files);
        let mut command = program().command(&["forever", "1000"], &capture(place.as_os_str()));
        let mut process = command.stdout(Stdio::null()).spawn().expect("it starts");
        let start = Instant::now();
        while folder.names().len() < 30 {
            assert!(start.elapsed() < Duration::from_secs(60), "it writes nothing");
            sleep(Duration::from_millis(1));
        }
        process.kill().expect("it runs");
        process.wait().expect("it ends");
        let (hidden, files): (Vec<String>, Vec<String>) =
            folder.names().into_iter().partition(|name| name.starts_with('.'));
        assert!(files.len() >= 20 && hidden.len() <= 4, "{hidden:?}");
        files.iter().for_each(|name| _ = graph(&folder.join(name)));
    }
}

#[test]
fn temporary_files_of_ended_processes_are_ignored() {
    let folder = Folder::new("stale");
    for process in 1..1000 {
        fs::write(folder.join(&format!(".lastuse-{process}-0-0.tmp")), "half a gra").expect("it can be written");
    }
    run(&["one_graph"], &capture(folder.0.as_os_str()));
    let new: Vec<String> = folder.names().into_iter().filter(|name| !name.starts_with('.')).collect();
    let [name] = &new[..] else { panic!("{new:?}") };
    assert!(name.starts_with("graph-") && name.ends_with(".jsonl"), "{name}");
    assert_eq!(graph(&folder.join(name)).tensors[0].name, "the one graph");
}

#[test]
fn names_may_hold_any_bytes() {
    let folder = Folder::new("odd-names");
    run(&["odd_names"], &capture(folder.0.as_os_str()));
    let expected = [
        "\"quoted\" \\ name",
        "leaf_0",
        "no UTF-8: \u{fffd}\u{fffd}\u{fffd}(\u{fffd}",
        "two\nlines\r\tand \u{1}\u{1f}\u{7f}",
        "é𝄞",
    ];
    assert_eq!(names(&folder), expected);
    for name in folder.names() {
        let text = fs::read_to_string(folder.join(&name)).expect("UTF-8");
        assert_eq!(text.lines().count(), 1 + graph(&folder.join(&name)).tensors.len(), "one line a tensor");
    }
}

#[test]
fn folder_is_created_and_files_follow_the_pattern() {
    let folder = Folder::new("made");
    let place = folder.join("on/the/way/llama-%s.json.txt");
    run(&["one_graph"], &capture(place.as_os_str()));
    let inner = Folder(folder.join("on/the/way"));
    let names = inner.names();
    let [name] = &names[..] else { panic!("{names:?}") };
    assert!(name.starts_with("llama-") && name.ends_with(".json.txt") && name.len() == 6 + 16 + 9, "{name}");
    assert_eq!(inner.graphs().len(), 1);
}

#[test]
fn name_depends_on_the_graph_alone() {
    let [first, second] = ["same-name-1", "same-name-2"].map(Folder::new);
    for folder in [&first, &second] {
        run(&["one_graph"], &capture(folder.0.as_os_str()));
    }
    assert_eq!(first.names(), second.names());
}

#[test]
fn graph_is_written_with_what_it_is_planned_with() {
    let folder = Folder::new("header");
    let rules = OsStr::new("ggml,views");
    run(&["one_graph"], &[("LASTUSE_CAPTURE", folder.0.as_os_str()), ("LASTUSE_RULES", rules)]);
    let [snapshot] = &folder.graphs()[..] else { panic!("{:?}", folder.names()) };
    assert!(snapshot.label.starts_with("written by lastuse 0."), "{}", snapshot.label);
    assert_eq!(
        snapshot.buffers[0].rules.map(|rules| rules.to_string()).as_deref(),
        Some("none,in-place,views,keep-inputs")
    );
    let [input, first, second] = &snapshot.tensors[..] else { panic!("{:?}", snapshot.tensors) };
    assert_eq!([&*input.op, &*first.op, &*second.desc, &*second.element], ["NONE", "SQR", "SQR", "f32"]);
    assert_eq!((input.nbytes, input.size, snapshot.buffers[0].name.as_str()), (32, 32, "CPU"));
    assert_eq!(snapshot.buffers[0].ggml_alloc_size, Some(32));
}

#[test]
fn graph_planned_again_is_written_once() {
    let folder = Folder::new("again");
    run(&["same_again"], &capture(folder.0.as_os_str()));
    // Of two sizes.
    assert_eq!(names(&folder), ["again", "in turn", "in turn"]);
}

#[test]
fn leaf_may_be_listed_twice() {
    let folder = Folder::new("leaf-twice");
    let outcome = run(&["leaf_twice"], &capture(folder.0.as_os_str()));
    let [snapshot] = &folder.graphs()[..] else { panic!("{:?}", folder.names()) };
    assert_eq!(snapshot.graph.leafs(), [0, 0]);
    let size = snapshot.plan_as_recorded().expect("a plan").buffers[0].placement.size();
    assert_eq!(outcome.value("size"), Some(&*size.to_string()));
}

#[test]
fn measured_graph_is_written() {
    let folder = Folder::new("measured");
    run(&["measured"], &capture(folder.0.as_os_str()));
    assert_eq!(names(&folder), ["measured"]);
}

#[test]
fn program_can_set_the_folder() {
    let folder = Folder::new("by-call");
    run(&["capture_can_be_set"], &[("RECORDING_FOLDER", folder.0.as_os_str())]);
    let second = Folder(folder.join("made/on/the/way"));
    assert_eq!(second.graphs().len(), 3);
    let sizes = |folder: &Folder| -> HashSet<u64> { folder.graphs().iter().map(|it| it.tensors[0].nbytes).collect() };
    assert_eq!(sizes(&second), [8, 12, 16].into_iter().collect());
    fs::remove_dir_all(folder.join("made")).expect("it was made");
    assert_eq!(sizes(&folder), [8].into_iter().collect());
}

#[test]
fn folder_that_cannot_be_written_to_is_reported_once() {
    let folder = Folder::new("unwritable");
    let file = folder.join("file");
    fs::write(&file, "").expect("it can be written");
    for place in [file.join("graphs"), file.clone(), "/proc/no/such/folder".into()] {
        let outcome = run(&["same_again"], &capture(place.as_os_str()));
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        let [line] = lines[..] else { panic!("{lines:?}") };
        let start = "lastuse 0.1.0: LASTUSE_CAPTURE has no effect: cannot write to the folder ";
        assert!(line.starts_with(start) && line.contains(&*place.to_string_lossy()), "{line}");
    }
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn one_file_for_many_graphs_is_refused() {
    let folder = Folder::new("one-file");
    let place = folder.join("graph.jsonl");
    let outcome = run(&["one_graph"], &capture(place.as_os_str()));
    assert!(outcome.stderr.contains("graph.jsonl is one file, and each graph gets its own"), "{}", outcome.stderr);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn folder_that_is_removed_is_reported_once() {
    let outcome = run(&["folder_is_removed"], &[]);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let [line] = lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("lastuse 0.1.0: a graph cannot be written to /tmp/lastuse-recording-"), "{line}");
    assert!(line.ends_with("No such file or directory (os error 2); this is logged once"), "{line}");
}

#[test]
fn full_disk_leaves_no_half_files() {
    for (test, files) in [("full", ""), ("full-compressed", "%s.jsonl.gz")] {
        let folder = Folder::new(test);
        let outcome = run(&["disk_is_full"], &capture(folder.join(files).as_os_str()));
        assert!(outcome.stderr.contains("a graph cannot be written to "), "{}", outcome.stderr);
        assert_eq!((outcome.stderr.lines().count(), folder.names()), (1, vec![]), "{}", outcome.stderr);
    }
}

/// The first file with the name of zlib is not a library.
#[test]
fn without_zlib_files_are_not_compressed() {
    let folder = Folder::new("no-zlib");
    let libraries = Folder::new("no-zlib-libraries");
    fs::write(libraries.join("libz.so.1"), "no library").expect("it can be written");
    let place = folder.join("%s.jsonl.gz");
    let variables = [("LASTUSE_CAPTURE", place.as_os_str()), ("LD_LIBRARY_PATH", libraries.0.as_os_str())];
    let outcome = run(&["odd_names"], &variables);
    let expected = "lastuse 0.1.0: graphs are written uncompressed: libz.so.1 cannot be loaded; install zlib to have them \
                    compressed; this is logged once\n";
    assert_eq!(outcome.stderr, expected);
    assert_eq!(folder.graphs().len(), 5);
    assert!(folder.names().iter().all(|name| name.ends_with(".jsonl")), "{:?}", folder.names());
}

#[test]
fn nothing_is_written_by_default() {
    let folder = Folder::new("nothing");
    let outcome = expect(
        program().command(&["one_graph"], &[]).current_dir(&folder.0).output().map_err(|error| error.to_string()),
    );
    assert!(outcome.status.success() && outcome.stderr.is_empty());
    for empty in ["", "/dev/null/x"] {
        let mut command = program().command(&["one_graph"], &capture(OsStr::new(empty)));
        assert!(command.current_dir(&folder.0).output().expect("it starts").status.success());
    }
    assert_eq!(folder.names(), [""; 0]);
}
