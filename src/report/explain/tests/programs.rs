//! Remedies with the arguments of the program that built a graph, and of no other.

use super::passes::attention;
use crate::graph::TensorId;
use crate::report::explain::{DEFAULT_TOP, Program, explanation_text};

const PROGRAMS: [&str; 3] = ["llama.cpp", "whisper.cpp", "stable-diffusion.cpp"];

/// Names for tensors of a graph.
type Names<'n> = &'n [(TensorId, &'n str)];

/// Explains attention with names for some of its tensors.
fn explained(names: Names<'_>) -> (Option<Program>, String) {
    let mut scene = attention("SOFT_MAX");
    names.iter().for_each(|&(id, name)| scene.name(id, name));
    let explanation = scene.explain();
    (explanation.program, explanation_text(&explanation, DEFAULT_TOP))
}

const QUERIES: TensorId = 1;
const RESULT: TensorId = 6;

#[test]
fn graphs_of_unknown_programs_have_no_arguments() {
    let names: [Names<'_>; 6] = [
        &[],
        &[(RESULT, "result_output")],
        &[(QUERIES, "blk.0.attn_q.weight"), (RESULT, "logits")],
        &[(QUERIES, "v.blk.0.attn_q.weight"), (RESULT, "result_output")],
        &[(QUERIES, "blk.a.weight"), (RESULT, "result_output")],
        &[(QUERIES, "encoder.blocks.0.attn.query.weight"), (RESULT, "k_cross")],
    ];
    for names in names {
        let (program, text) = explained(names);
        assert_eq!(program, None, "{names:?}");
        assert!(!PROGRAMS.iter().any(|name| text.contains(name)) && !text.contains(" --flash"), "{text}");
        assert!(text.contains("flash attention never has them as a whole (FLASH_ATTN_EXT)\n"), "{text}");
        assert!(text.contains("      with half as many it would be "), "{text}");
    }
}

#[test]
fn graphs_of_known_programs_have_its_arguments() {
    let names: [(Program, &str, Names<'_>); 5] = [
        (
            Program::LlamaCpp,
            "llama.cpp: --flash-attn on",
            &[(QUERIES, "blk.0.attn_q.weight"), (RESULT, "result_output")],
        ),
        (Program::LlamaCpp, "llama.cpp: --ubatch-size 128", &[(QUERIES, "Qcur-0"), (RESULT, "result_norm (view)")]),
        (Program::WhisperCpp, "whisper.cpp: --flash-attn", &[(RESULT, "embd_enc")]),
        (Program::WhisperCpp, "whisper.cpp: --flash-attn", &[(QUERIES, "embd_conv (view)")]),
        (
            Program::StableDiffusionCpp,
            "stable-diffusion.cpp: --diffusion-fa",
            &[(RESULT, "ggml_runner_final_result_tensor")],
        ),
    ];
    for (expected, argument, names) in names {
        let (program, text) = explained(names);
        assert_eq!(program, Some(expected), "{names:?}");
        assert!(text.contains(argument), "{text}");
        let others = PROGRAMS.iter().filter(|name| !argument.starts_with(**name));
        assert_eq!(others.filter(|name| text.contains(**name)).count(), 0, "{text}");
    }
}
