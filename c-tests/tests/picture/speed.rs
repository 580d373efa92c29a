//! How long pages take to open, and frames to paint, for the files of a folder that a variable names. These tests assert nothing:
//! times are of the machine.

use lastuse_c_tests::graphs_in;

use super::{assert_no_problems, browser, drawn, expect, opened, text_of, value};

/// From the start of the navigation to the first frame after all scripts, in milliseconds.
const OPENED: &str = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const [page] = performance.getEntriesByType('navigation');
    done({ bytes: page.decodedBodySize, loaded: page.loadEventEnd, painted: performance.getEntriesByName('first-contentful-paint')[0]?.startTime });
})))";

fn graphs() -> Vec<String> {
    let Some(folder) = std::env::var_os("LASTUSE_GRAPHS") else {
        println!("skipped: LASTUSE_GRAPHS names no folder");
        return Vec::new();
    };
    expect(graphs_in(folder.as_ref())).iter().map(|path| text_of(path)).collect()
}

/// How long frames take while a large graph is zoomed.
#[test]
fn frames_of_a_folder() {
    let mut browser = browser();
    for graph in graphs() {
        opened(&mut browser, &drawn(&[&graph], "frames.html", &[]));
        let times = value(&mut browser, include_str!("frames.js"));
        println!("{graph}: {times}");
    }
    assert_no_problems(&mut browser);
}

/// How long a page with all graphs of the folder takes to open.
#[test]
fn opening_a_page_of_a_folder() {
    let graphs = graphs();
    if graphs.is_empty() {
        return;
    }
    let mut browser = browser();
    let page = drawn(&graphs.iter().map(String::as_str).collect::<Vec<_>>(), "opening.html", &[]);
    let bytes = std::fs::metadata(&page).map_or(0, |file| file.len());
    for _ in 0..5 {
        opened(&mut browser, &page);
        println!("{} graphs, {bytes} bytes: {}", graphs.len(), value(&mut browser, OPENED));
    }
    assert_no_problems(&mut browser);
}
