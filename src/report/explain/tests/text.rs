//! Explanations as text.

use super::scene::Scene;
use crate::graph::Rules;
use crate::report::explain::explanation_text;

#[test]
fn text_lists_peak_reuse_and_advice() {
    let mut scene = Scene::new(Rules::ALL);
    let (x0, x1) = (scene.input(16), scene.input(160));
    scene.name(x1, "late");
    let a = scene.node(2048, &[x0]);
    let b = scene.sketch.in_place(2048, &[a]);
    let c = scene.node(16, &[b]);
    scene.node(16, &[c, x1]);
    let expected = "\
scene: 4 nodes, steps counted from 0

Buffer 0, buffer 0: 2.17 KiB (2224 bytes); ggml-alloc needs the same
  Peak: step 0, MUL_MAT \"n2\": 2.17 KiB (2224 bytes).
  Equally high at 1 other step: 2.
  Fragmentation: none, the plan is at its lower bound.

  Live at that step, largest first:
    bytes                    tensor                    defined  last use
     2048  2.00 KiB  92.0 %  MUL_MAT \"n2\", f32 [2048]  step 0   step 1, ADD \"n3\"
                               from \"x0\", f32 [16]
      160     160 B   7.1 %  \"late\", f32 [160]         start    step 3, MUL_MAT \"n5\"
       16      16 B   0.7 %  \"x0\", f32 [16]            start    step 0, MUL_MAT \"n2\"

  The largest, and what can be done about them:
    MUL_MAT \"n2\", f32 [2048], 2.00 KiB, 92.0 % of the peak
      without it the peak would be 192 B at step 3, MUL_MAT \"n5\"
    \"late\", f32 [160], 160 B, 7.1 % of the peak
      without it the peak would be 2.02 KiB at step 0, MUL_MAT \"n2\"
    This is inherent: 2.02 KiB (2064 bytes), 92.8 % of the peak, are live when step 0, MUL_MAT \"n2\" runs, in every order of the \
nodes
      2.02 KiB for its sources and its result: with these sharing rules, no order and no placement takes less

  Reused: 2.00 KiB (2048 bytes); without that the lower bound would be 4.16 KiB (4256 bytes)
    1 in place:
      ADD \"n3\", 2.00 KiB, in the memory of MUL_MAT \"n2\"

  Changes that lower the peak most, each alone:
    saves 160 bytes: \"late\", 160 B, is live from the start, but its first use is step 3, MUL_MAT \"n5\": fill it right before that
      then the peak is step 0, MUL_MAT \"n2\"
";
    assert_eq!(explanation_text(&scene.explain(), 20), expected);
    let short = explanation_text(&scene.explain(), 1);
    assert!(short.contains("      176     176 B   7.9 %  2 more tensors\n"), "{short}");
}

#[test]
fn empty_buffer_is_reported() {
    let text = explanation_text(&Scene::new(Rules::ALL).explain(), 20);
    assert_eq!(
        text,
        "scene: 0 nodes, steps counted from 0\n\nBuffer 0, buffer 0: 0 bytes; ggml-alloc needs the same\n  The buffer is empty.\n"
    );
}

#[test]
fn control_characters_in_names_are_escaped() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(16);
    scene.name(x0, "a\u{1b}[31m\nb");
    let n1 = scene.node(16, &[x0]);
    scene.name(n1, "");
    let text = explanation_text(&scene.explain(), 20);
    assert!(text.contains("\"a\\u{1b}[31m\\nb\"") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("step 0, MUL_MAT:"), "{text}");
}
