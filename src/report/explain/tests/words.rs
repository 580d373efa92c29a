//! Explanations as text.

use super::scene::Scene;
use crate::graph::Rules;
use crate::report::explain::explanation_text;

#[test]
fn text_tells_everything_in_its_order() {
    let mut scene = Scene::new(Rules::ALL);
    let (x0, x1) = (scene.input(16), scene.input(160));
    scene.name(x1, "late");
    let a = scene.node(2048, &[x0]);
    let b = scene.sketch.in_place(2048, &[a]);
    let c = scene.node(16, &[b]);
    scene.node(16, &[c, x1]);
    let expected = "\
scene: 4 nodes, steps counted from 0

Buffer 0, buffer 0: 2.17 KiB (2224 bytes); ggml-alloc takes the same
  The most is alive at step 0, MUL_MAT \"n2\": 2.17 KiB (2224 bytes).
  As much is alive at 1 other step: 2.
  Fragmentation: none, the plan is as large as what is alive.

  Alive at that step, largest first:
    bytes                    tensor        made    last read
     2048  2.00 KiB  92.0 %  MUL_MAT \"n2\"  step 0  step 1, ADD \"n3\"
      160     160 B   7.1 %  \"late\"        start   step 3, MUL_MAT \"n5\"
       16      16 B   0.7 %  \"x0\"          start   step 0, MUL_MAT \"n2\"

  Reused: 2.00 KiB (2048 bytes) in sum; without that 4.16 KiB (4256 bytes) would be alive at the worst step
    1 in place:
      ADD \"n3\", 2.00 KiB, in the memory of MUL_MAT \"n2\"

  What would lower it most, each change alone:
    160 bytes less: \"late\", 160 B, has memory from the start, and is first read at step 3, MUL_MAT \"n5\": make it right before that
      the most is then alive at step 0, MUL_MAT \"n2\"
";
    assert_eq!(explanation_text(&scene.explain(), 20), expected);
    let short = explanation_text(&scene.explain(), 1);
    assert!(short.contains("      176     176 B   7.9 %  2 more tensors\n"), "{short}");
}

#[test]
fn buffer_with_nothing_in_it_says_so() {
    let text = explanation_text(&Scene::new(Rules::ALL).explain(), 20);
    assert_eq!(
        text,
        "scene: 0 nodes, steps counted from 0\n\nBuffer 0, buffer 0: 0 bytes; ggml-alloc takes the same\n  Nothing is alive in it at any step.\n"
    );
}

#[test]
fn names_that_would_disturb_a_terminal_are_escaped() {
    let mut scene = Scene::new(Rules::ALL);
    let x0 = scene.input(16);
    scene.name(x0, "a\u{1b}[31m\nb");
    let n1 = scene.node(16, &[x0]);
    scene.name(n1, "");
    let text = explanation_text(&scene.explain(), 20);
    assert!(text.contains("\"a\\u{1b}[31m\\nb\"") && !text.contains('\u{1b}'), "{text}");
    assert!(text.contains("step 0, MUL_MAT:"), "{text}");
}
