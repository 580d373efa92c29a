//! Programs whose graphs are recognized: remedies have other arguments in each.

use crate::graph::snapshot::Snapshot;

/// A program that names tensors by a fixed scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Program {
    /// llama.cpp.
    #[cfg_attr(feature = "serde", serde(rename = "llama.cpp"))]
    LlamaCpp,
    /// whisper.cpp.
    #[cfg_attr(feature = "serde", serde(rename = "whisper.cpp"))]
    WhisperCpp,
    /// stable-diffusion.cpp.
    #[cfg_attr(feature = "serde", serde(rename = "stable-diffusion.cpp"))]
    StableDiffusionCpp,
}

impl Program {
    /// Returns the program that built a graph, by names that it gives and other programs do not:
    ///
    /// - llama.cpp: a result of the model ("result_norm", "result_output", "result_embd"), and a weight or a result of a layer
    ///   ("blk.0.attn_q.weight", "l_out-0");
    /// - whisper.cpp: the result of an encoder ("embd_conv", "embd_enc");
    /// - stable-diffusion.cpp: the result of each graph ("ggml_runner_final_result_tensor").
    ///
    /// `None` where the names do not tell.
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        Self::of_names(snapshot.tensors.iter().map(|tensor| &*tensor.name))
    }

    /// Returns the program that built a graph whose tensors have these names, as [`Program::of`] does.
    pub fn of_names<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        let any = |is: &dyn Fn(&str) -> bool| names.clone().any(|name| is(without_additions(name)));
        let is_result =
            |name: &str| ["result_norm", "result_output", "result_embd", "result_embd_pooled"].contains(&name);
        match () {
            () if any(&is_result) && any(&is_of_layer) => Some(Self::LlamaCpp),
            () if any(&|name| ["embd_conv", "embd_enc"].contains(&name)) => Some(Self::WhisperCpp),
            () if any(&|name| name == "ggml_runner_final_result_tensor") => Some(Self::StableDiffusionCpp),
            () => None,
        }
    }
}

/// Returns the name without what ggml appends for views: " (view)", " (permuted)" and the like.
fn without_additions(name: &str) -> &str {
    name.split_once(" (").map_or(name, |(name, _)| name)
}

/// Returns whether a name is that of a weight or a result of a layer in llama.cpp.
fn is_of_layer(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let weight = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    weight.is_some_and(|(layer, _)| is_number(layer))
        || name.rsplit_once('-').is_some_and(|(_, layer)| is_number(layer))
}
