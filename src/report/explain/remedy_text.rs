//! What can be done about a peak, as text.

use std::fmt::{self, Write};

use crate::graph::kernels::KernelCosts;
use crate::placement::Bytes;
use crate::report::sizes::{exact, fixed};

use super::change::counted;
use super::explanation::KernelUse;
use super::program::Program;
use super::remedies::{Batch, Inherent, Large, Lowered, Pass, Pattern, Remedies, Tiled};

/// Writes the kinds of the largest tensors of a peak of `bytes` live bytes, and their remedies, with the arguments of the
/// program that built the graph.
pub fn write_remedies(out: &mut String, remedies: &Remedies, bytes: Bytes, program: Option<Program>) -> fmt::Result {
    if !remedies.largest.is_empty() {
        writeln!(out, "\n  The largest, and what can be done about them:")?;
    }
    remedies.largest.iter().try_for_each(|large| write_large(out, large, bytes, program))?;
    if let Some(batch) = &remedies.batch {
        write_batch(out, batch, bytes, program)?;
    }
    if remedies.kept_for_backward > 0 {
        let kept = remedies.kept_for_backward;
        writeln!(
            out,
            "    {} of the peak, {}, are results of the forward pass that the backward pass reads: compute them again there \
             (lastuse plan --recompute, lastuse_graph_recompute)",
            percent(kept, bytes),
            fixed(kept)
        )?;
    }
    write_passes(out, &remedies.passes)?;
    if let Some(inherent) = &remedies.inherent {
        write_inherent(out, inherent, bytes)?;
    }
    Ok(())
}

fn write_large(out: &mut String, large: &Large, bytes: Bytes, program: Option<Program>) -> fmt::Result {
    let Large { tensor, shape, bytes: held, lower_bound_without, peak_without, pattern } = large;
    writeln!(out, "    {tensor}, {shape}, {}, {} of the peak", fixed(*held), percent(*held, bytes))?;
    if let Some(pattern) = pattern {
        writeln!(out, "      {}", remedy(pattern, *held, program))?;
    }
    if *lower_bound_without == 0 {
        return writeln!(out, "      without it the buffer would be empty");
    }
    writeln!(out, "      without it the peak would be {} at {peak_without}", fixed(*lower_bound_without))
}

/// Writes the kind of a tensor, and the remedy.
fn remedy(pattern: &Pattern, held: Bytes, program: Option<Program>) -> String {
    match pattern {
        Pattern::AttentionScores => {
            let argument = match program {
                Some(Program::LlamaCpp) => "; llama.cpp: --flash-attn on",
                Some(Program::WhisperCpp) => "; whisper.cpp: --flash-attn",
                Some(Program::StableDiffusionCpp) => "; stable-diffusion.cpp: --diffusion-fa",
                None => "",
            };
            format!("scores of attention: flash attention never has them as a whole (FLASH_ATTN_EXT{argument})")
        }
        Pattern::Logits { tokens } => {
            let each = Bytes::try_from(*tokens).map_or(held, |tokens| held / tokens.max(1));
            let argument = match program {
                Some(Program::LlamaCpp) => " (llama.cpp, where it has it: n_outputs_max of its context parameters)",
                _ => "",
            };
            format!("logits of {tokens} tokens, {} each: reserve those that are read{argument}", fixed(each))
        }
        Pattern::Columns => {
            let (direct, tiles) = match program {
                Some(Program::StableDiffusionCpp) => {
                    ("; stable-diffusion.cpp: --vae-conv-direct, --diffusion-conv-direct", " (--vae-tiling)")
                }
                _ => ("", ""),
            };
            format!(
                "columns of a convolution (IM2COL): a direct convolution has none (CONV_2D{direct}), and tiles have \
                 fewer{tiles}"
            )
        }
        Pattern::KeptForBackward { backward } => format!(
            "kept for the backward pass, which starts at {backward}: compute it again there \
             (lastuse plan --recompute, lastuse_graph_recompute)"
        ),
        Pattern::NotComputed => {
            "an alternative that no backend computes: leave it out of the graph, or switch on the rule \
             \"inactive\""
                .to_owned()
        }
    }
}

fn write_batch(out: &mut String, batch: &Batch, bytes: Bytes, program: Option<Program>) -> fmt::Result {
    let Batch { tokens, grows, lower_bound_of_half } = batch;
    writeln!(
        out,
        "    {tokens} tokens are computed at once: {} of the peak, {}, grow with their number",
        percent(*grows, bytes),
        fixed(*grows)
    )?;
    if *lower_bound_of_half >= bytes {
        return writeln!(out, "      with half as many the peak would be as high");
    }
    let argument = match program {
        Some(Program::LlamaCpp) => format!(" (llama.cpp: --ubatch-size {})", tokens / 2),
        _ => String::new(),
    };
    writeln!(
        out,
        "      with half as many{argument} it would be {}, {} less",
        fixed(*lower_bound_of_half),
        fixed(bytes - lower_bound_of_half)
    )
}

/// Writes what each pass saves, and how to have it.
fn write_passes(out: &mut String, passes: &[Lowered]) -> fmt::Result {
    if !passes.is_empty() {
        writeln!(out, "    Passes of lastuse lower the peak, each alone:")?;
    }
    for Lowered { pass, saves, lower_bound } in passes {
        let how = match pass {
            Pass::Tiling => "tiling, for some more time (LASTUSE_BUDGET, lastuse_graph_tile, lastuse plan --tile)",
            Pass::Recomputation => {
                "recomputation, for some more time (LASTUSE_RECOMPUTE, lastuse_graph_recompute, lastuse plan --recompute)"
            }
            Pass::Reorder => {
                "another order of the nodes (LASTUSE_REORDER, lastuse_graph_reorder, lastuse plan --reorder)"
            }
            Pass::RemoveCopies => "no copies into caches (lastuse_graph_remove_copies)",
        };
        writeln!(out, "      saves {}: {how}; then it is {}", exact(*saves), fixed(*lower_bound))?;
    }
    Ok(())
}

fn write_inherent(out: &mut String, inherent: &Inherent, bytes: Bytes) -> fmt::Result {
    writeln!(
        out,
        "    This is inherent: {}, {} of the peak, are live when {} runs, in every order of the nodes",
        exact(inherent.bytes()),
        percent(inherent.bytes(), bytes),
        inherent.node
    )?;
    write!(out, "      {} for its sources and its result", fixed(inherent.of_node))?;
    if inherent.across > 0 {
        write!(out, ", {} for what is computed before it and read after it", fixed(inherent.across))?;
    }
    writeln!(out, ": with these sharing rules, no order and no placement takes less")
}

/// Formats a part in percent, with one digit.
pub fn percent(part: Bytes, whole: Bytes) -> String {
    let tenths = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Writes the savings, and how to have them.
pub fn write_tiling(out: &mut String, tiled: &Tiled) -> fmt::Result {
    let Tiled { saves, size, tensor, tiles, others } = tiled;
    let tiles = counted(*tiles as usize, "tile", "tiles");
    let others = match others {
        0 => String::new(),
        1 => ", and another tensor".to_owned(),
        some => format!(", and {some} other tensors"),
    };
    writeln!(
        out,
        "\nWith {tensor} in {tiles}{others}, the graph needs {}, {} less, for some more time; a budget between decides how \
         much is tiled (lastuse plan --tile, lastuse_graph_tile)",
        exact(*size),
        exact(*saves)
    )
}

/// Writes the costs as a sentence for each placement.
pub fn write_kernels(out: &mut String, kernels: &KernelUse) -> fmt::Result {
    let KernelUse { planned, ggml_alloc, without_reuse } = kernels;
    writeln!(out, "\n  Kernels of the device: {}.", costs(planned))?;
    if let Some(ggml_alloc) = ggml_alloc {
        writeln!(out, "  With the addresses of ggml-alloc: {}.", costs(ggml_alloc))?;
    }
    writeln!(out, "  If no memory were used twice: {}.", costs(without_reuse))
}

fn costs(costs: &KernelCosts) -> String {
    let KernelCosts { fused, not_fused, barriers } = costs;
    let sequences = counted((fused + not_fused) as usize, "sequence", "sequences");
    let barriers = counted(*barriers as usize, "barrier", "barriers");
    format!("{fused} of {sequences} fused, {barriers}")
}
