//! Screenshots of the page in the documents.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::{Browser, assert_no_problems, browser, captured, drawn, expect, opened, value};

/// Pictures are compared after they are made this small, since letters differ between machines.
const SMALL: [u32; 2] = [64, 40];
/// The mean difference of a channel, of 255, up to which two pictures are one.
const TOLERANCE: f64 = 9.0;

fn picture(name: &str) -> PathBuf {
    lastuse_c_tests::folder().with_file_name("docs").join(name)
}

/// Asserts that the browser shows the picture of the documents, or writes it.
fn assert_shown(browser: &mut Browser, name: &str) {
    // Without the mark of the focus.
    value(browser, "document.activeElement.blur()");
    expect(browser.paint());
    let file = picture(name);
    if std::env::var_os("LASTUSE_UPDATE").is_some() {
        fs::write(&file, expect(browser.png())).expect("the repository can be written to");
    }
    let bytes = fs::metadata(&file).map(|file| file.len()).expect("the picture is in docs");
    assert!(bytes < 300_000, "{name}: {bytes} bytes are much for a repository");
    let shown = expect(browser.screenshot());
    opened(browser, file.to_str().expect("the folder has a name in UTF-8"));
    let [width, height] = SMALL;
    let difference = value(
        browser,
        &format!(
            "(async () => {{
                const small = (image) => {{
                    const pen = new OffscreenCanvas({width}, {height}).getContext('2d');
                    pen.imageSmoothingQuality = 'high';
                    pen.drawImage(image, 0, 0, {width}, {height});
                    return pen.getImageData(0, 0, {width}, {height}).data;
                }};
                const shown = new Image();
                shown.src = 'data:image/png;base64,' + {};
                await shown.decode();
                const [one, other] = [document.images[0], shown].map(small);
                return one.reduce((sum, channel, at) => sum + Math.abs(channel - other[at]), 0) / one.length;
            }})()",
            json!(shown)
        ),
    );
    let difference = difference.as_f64().expect("a number");
    assert!(difference < TOLERANCE, "docs/{name} differs from the page ({difference}); LASTUSE_UPDATE=1 updates it");
}

#[test]
fn screenshots_in_the_documentation_are_what_the_page_shows() {
    let mut browser = browser();
    expect(browser.resize(1440, 900));
    let llama = captured("flash-v32k-llama");
    for (dark, name) in [(false, "page-light.png"), (true, "page-dark.png")] {
        expect(browser.prefer_dark(dark));
        opened(&mut browser, &drawn(&[&llama], "documented.html", &[]));
        assert_shown(&mut browser, name);
    }
    expect(browser.prefer_dark(false));
    opened(&mut browser, &drawn(&[&captured("noflash-8k-llama")], "documented-peak.html", &[]));
    expect(browser.press("k"));
    expect(browser.press("t"));
    assert_shown(&mut browser, "page-peak.png");
    let pair = ["sd-sd1-unet-512", "sd-sd1-unet-512-flash"].map(captured);
    opened(&mut browser, &drawn(&pair.each_ref().map(String::as_str), "documented-changes.html", &[]));
    expect(browser.press("c"));
    assert_shown(&mut browser, "page-changes.png");
    assert_no_problems(&mut browser);
}
