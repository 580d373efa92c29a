//! Pictures saved from the page.

use serde_json::json;

use lastuse_c_tests::Browser;

use super::super::{NASTY, Node, captured, drawn, expect, graph_file_with, in_light_and_dark, value};
use super::LLAMA;

/// Presses a button that saves a picture, and keeps the picture in the page.
fn saved(browser: &mut Browser, button: &str) -> String {
    value(browser, "saveFile = (name, blob) => { window.saved = { name, blob }; }");
    value(browser, &format!("window.saved = null, document.getElementById('{button}').click()"));
    expect(browser.wait_for("window.saved !== null"));
    value(browser, "window.saved.name").as_str().expect("it has a name").to_owned()
}

/// Decodes the saved picture into `window.NAME`, as pixels of a picture with the given width.
fn decode(browser: &mut Browser, name: &str) {
    let script = format!(
        "new Promise((done, fail) => {{
            const image = new Image();
            image.onerror = () => fail(new Error('the picture cannot be decoded'));
            image.onload = () => {{
                const pen = new OffscreenCanvas(700, 400).getContext('2d');
                pen.drawImage(image, 0, 0, 700, 400);
                window.{name} = pen.getImageData(0, 0, 700, 400).data;
                done(image.naturalWidth / image.naturalHeight);
            }};
            image.src = URL.createObjectURL(window.saved.blob);
        }})"
    );
    value(browser, &script);
}

#[test]
fn png_and_svg_show_what_the_page_shows() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "export.html", &[]), "export", |browser| {
        value(browser, "setView(20, 120, 0.1, 0.9)");
        expect(browser.paint());
        assert_eq!(saved(browser, "png"), "llama.cpp-llama-8-layers-voc-flash-attention-512-tokens.png");
        decode(browser, "png_pixels");
        let size = value(browser, "createImageBitmap(window.saved.blob).then((one) => [one.width, one.height])");
        assert!(
            size[0].as_u64().is_some_and(|width| width > 1600) && size[1].as_u64().is_some_and(|height| height > 800),
            "{size}"
        );
        assert!(saved(browser, "svg").ends_with(".svg"));
        let text = value(browser, "window.saved.blob.text()");
        let text = text.as_str().expect("it is text").to_owned();
        assert!(
            text.contains("l_out-") && text.contains("ggml-alloc") && text.contains("matrix product"),
            "names are in it"
        );
        assert!(!text.contains("NaN") && !text.contains("undefined") && !text.contains("Infinity"));
        decode(browser, "svg_pixels");
        // Both are one picture, but for the smoothing of letters and edges.
        let difference = value(
            browser,
            "window.png_pixels.reduce((sum, one, at) => sum + Math.abs(one - window.svg_pixels[at]), 0) / window.png_pixels.length",
        );
        assert!(difference.as_f64().is_some_and(|difference| difference < 6.0), "{difference}");
        let ground = value(browser, "[...window.png_pixels.slice(0, 3)]");
        let page = value(browser, "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)");
        assert_eq!(ground, page);
        // For the screenshot.
        value(
            browser,
            "(() => { const image = new Image(1380); image.src = URL.createObjectURL(window.saved.blob); document.body.replaceChildren(image); return image.decode(); })()",
        );
    });
}

#[test]
fn names_do_no_harm_in_a_saved_svg() {
    let graph = graph_file_with(
        "nasty-export.jsonl",
        NASTY,
        &[Node::new(NASTY, "MUL_MAT", 512, &[0]), Node::new("\u{1}\u{fffe}", "ADD", 512, &[1])],
    );
    in_light_and_dark(&drawn(&[&graph], "nasty-export.html", &[]), "nasty-export", |browser| {
        assert_eq!(saved(browser, "svg"), "script-b.svg");
        let found = value(
            browser,
            "window.saved.blob.text().then((text) => { const made = new DOMParser().parseFromString(text, 'image/svg+xml');
            return [made.querySelectorAll('parsererror, script, b').length, made.querySelector('title').textContent]; })",
        );
        assert_eq!(found, json!([0, NASTY]));
    });
}

#[test]
fn hidden_plans_are_not_saved() {
    in_light_and_dark(&drawn(&[&captured(LLAMA)], "export-one.html", &[]), "export-one", |browser| {
        expect(browser.press("1"));
        saved(browser, "svg");
        let text = value(browser, "window.saved.blob.text()");
        let text = text.as_str().expect("it is text");
        assert!(!text.contains("ggml-alloc") && text.contains(">lastuse  72.51 MiB<"), "one plan is in it");
    });
}
