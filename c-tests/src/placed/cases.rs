//! Cases whose devices are registered by the program: the kernels of the CPU compute for them.

use super::program::PlacedModel;
use super::sweep::PlacedCase;

/// Six layers, and an output head that is larger than the compute buffer.
pub const DENSE: PlacedModel = PlacedModel {
    name: "dense.gguf",
    shape: "--layers 6 --width 512 --heads 8 --kv-heads 4 --ffn 1536 --vocab 4096 --context 256",
};

/// The same, whose output head is the token embedding.
pub const TIED: PlacedModel = PlacedModel {
    name: "tied.gguf",
    shape: "--layers 6 --width 512 --heads 8 --kv-heads 4 --ffn 1536 --vocab 4096 --context 256 --tied 1",
};

/// Four layers of eight experts each.
pub const EXPERTS: PlacedModel = PlacedModel {
    name: "experts.gguf",
    shape: "--layers 4 --width 256 --heads 8 --kv-heads 4 --ffn 512 --experts 8 --vocab 4096 --context 256",
};

/// Returns a dense model and one of experts on one and on two devices, with and without operator offload, flash
/// attention, whole layers, pipelines and small buffers, for captured graphs and in one command.
pub fn on_any_machine() -> Vec<PlacedCase> {
    let one = PlacedCase {
        name: "dense, one GPU",
        model: DENSE,
        program: "--gpus 1 -t 1",
        devices: &["GPU0"],
        properties: "",
        has_pipelines: false,
        place: "",
        kind: None,
        parts: &[0, 10, 50, 120, 300, 500, 700, 970],
    };
    let few = PlacedCase { parts: &[0, 20, 120, 500, 970], ..one };
    let two = PlacedCase {
        name: "dense, two GPUs",
        program: "--gpus 2 -t 1",
        devices: &["GPU0", "GPU1"],
        properties: ",events=off",
        parts: &[0, 50, 300, 970],
        ..one
    };
    let pipelines = PlacedCase {
        name: "dense, two GPUs, pipelines",
        program: "--gpus 2 -t 1 --pipelines",
        properties: "",
        has_pipelines: true,
        place: "--layers",
        ..two
    };
    vec![
        one,
        PlacedCase { name: "dense, no operator offload", place: "--no-op-offload", ..few },
        PlacedCase { name: "dense, no flash attention", program: "--gpus 1 -t 1 -fa off", ..few },
        PlacedCase { name: "dense, whole layers", place: "--layers", ..few },
        PlacedCase { name: "tied head", model: TIED, ..few },
        PlacedCase { name: "tied head, whole layers", model: TIED, place: "--layers", ..few },
        PlacedCase { name: "tied head, one command", model: TIED, kind: Some("layers"), ..few },
        PlacedCase {
            name: "dense, buffers of 5 MiB",
            program: "--gpus 1 -t 1 --alignment 256 --max-buffer 5242880",
            ..few
        },
        PlacedCase { name: "experts, one GPU", model: EXPERTS, ..one },
        PlacedCase { name: "experts, no operator offload", model: EXPERTS, place: "--no-op-offload", ..few },
        two,
        PlacedCase { name: "dense, two GPUs, whole layers", place: "--layers", ..two },
        pipelines,
        PlacedCase {
            name: "dense, two GPUs, pipelines, one command",
            place: "",
            kind: Some("layers"),
            parts: &[300],
            ..pipelines
        },
        PlacedCase { name: "dense, two GPUs, one command", properties: "", kind: Some("layers"), ..two },
        PlacedCase { name: "dense, two GPUs, no flash attention", program: "--gpus 2 -t 1 -fa off", ..two },
        PlacedCase { name: "experts, two GPUs", model: EXPERTS, ..two },
        PlacedCase { name: "tied head, two GPUs", model: TIED, ..two },
        PlacedCase { name: "dense, one command, layers", kind: Some("layers"), ..few },
        PlacedCase { name: "dense, one command, FFNs", kind: Some("ffns"), ..few },
        PlacedCase { name: "dense, one command, tensors", kind: Some("tensors"), ..few },
        PlacedCase { name: "experts, one command, experts", model: EXPERTS, kind: Some("experts"), ..few },
        PlacedCase { name: "experts, one command, tensors", model: EXPERTS, kind: Some("tensors"), ..few },
    ]
}
