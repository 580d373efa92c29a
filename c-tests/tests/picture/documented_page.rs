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

/// What is written on the page, where, and the place that it tells of: expressions for a point of the window.
const NOTES: [(&str, [u32; 2], &str); 6] = [
    ("1  a tensor", [220, 330], "of(0, 'l_out-2')"),
    ("2  the peak", [165, 262], "peak(0)"),
    ("3  what lastuse saves", [880, 226], "saving()"),
    ("4  size of the buffer", [930, 340], "size(1)"),
    ("5  live bytes", [988, 560], "curve(1)"),
    ("6  live at the peak", [1276, 143], "list()"),
];

/// Writes the notes on the page, each with a line to its place.
fn annotate(browser: &mut Browser) {
    let notes: String =
        NOTES.iter().map(|(text, [x, y], to)| format!("note({}, {x}, {y}, {to});", json!(text))).collect();
    value(
        browser,
        &format!(
            "(() => {{
                const [view, painters] = [state.view, state.painters];
                const ready = (plan) => {{ const painter = painters[plan]; painter.frame.fit(...painter.size);
                    return [painter, painter.frame, painter.frame.maps[0], painter.canvas.getBoundingClientRect()]; }};
                const of = (plan, name) => {{ const [painter, , , box] = ready(plan);
                    const span = painter.plan.spanOf(state.graph.tensors.name.indexOf(name));
                    const place = painter.place(view, span, painter.plan.visibleUntil[span]);
                    return [box.left + place.left + place.width / 2, box.top + place.top + 4]; }};
                const peak = (plan) => {{ const [painter, frame, map, box] = ready(plan);
                    return [box.left + frame.x(view, painter.plan.buffers[0].peaks[0][0] + 0.5), box.top + frame.y(view, map, 54 << 20)]; }};
                const size = (plan) => {{ const [painter, frame, map, box] = ready(plan);
                    return [box.left + frame.x(view, 150), box.top + frame.y(view, map, painter.plan.size)]; }};
                const saving = () => {{ const [x, y] = size(1); return [x + 62, y - 104]; }};
                const curve = (plan) => {{ const [, frame, , box] = ready(plan);
                    return [box.left + frame.x(view, 235), box.top + frame.curveTops[0] + 62]; }};
                const list = () => {{ const box = document.querySelectorAll('#details .largest')[0].getBoundingClientRect();
                    return [box.left + 207, box.top + 27]; }};
                const note = (text, x, y, [toX, toY]) => {{
                    const made = node('div', {{ style: `position: fixed; z-index: 9; left: ${{x}}px; top: ${{y}}px; padding: 4px 9px; font-weight: 600;
                        background: #fff3b0; color: #16191d; border: 2px solid #16191d; border-radius: 6px;` }}, text);
                    document.body.append(made);
                    const box = made.getBoundingClientRect();
                    const [fromX, fromY] = [Math.min(Math.max(toX, box.left + 12), box.right - 12), toY > y ? box.bottom : box.top];
                    const [long, turn] = [Math.hypot(toX - fromX, toY - fromY), Math.atan2(toY - fromY, toX - fromX)];
                    document.body.append(node('div', {{ style: `position: fixed; z-index: 8; left: ${{fromX}}px; top: ${{fromY - 1}}px; height: 2px;
                        width: ${{long}}px; background: #16191d; transform-origin: 0 1px; transform: rotate(${{turn}}rad);` }}));
                    document.body.append(node('div', {{ style: `position: fixed; z-index: 9; left: ${{toX - 4}}px; top: ${{toY - 4}}px; width: 8px; height: 8px;
                        border-radius: 4px; background: #16191d;` }}));
                }};
                {notes}
            }})()"
        ),
    );
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
    opened(&mut browser, &drawn(&[&llama], "documented.html", &[]));
    annotate(&mut browser);
    assert_shown(&mut browser, "page-annotated.png");
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
