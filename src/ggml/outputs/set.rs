//! Checks and redirects one result: a tensor that is computed in the memory of another.

use std::fmt;

use crate::graph::{Effect, Flags, Op, Rules, Strides};

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::outputs::check::{range, writes};
use crate::ggml::outputs::redirect::{OUTPUT_SLOT, OutputTarget, redirect};

/// Why a result cannot be computed in that memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOutputError {
    /// The tensor and `dst` are the same.
    OnItself,
    /// Their element types differ.
    OtherType,
    /// Their extents differ.
    OtherShape,
    /// There is no element.
    Empty,
    /// The element type has blocks of elements.
    Quantized,
    /// The result is not computed by an operation.
    NotComputed,
    /// Only parts of the result are computed.
    Tiled,
    /// The result is only a view of its source.
    OnlyAView,
    /// The result is written into the memory of another tensor already.
    IsAView,
    /// The result has memory.
    HasMemory,
    /// The result is an input or a parameter, whose memory the program fills.
    FilledByTheProgram,
    /// All slots for sources are taken.
    NoSlot,
    /// `dst` is a view of the result.
    ViewOfTheResult,
    /// `dst` is computed from the result.
    Cycle,
    /// Elements of `dst` share bytes.
    ElementsOverlap,
    /// The operation is not known to write the layout of `dst`.
    Layout,
    /// The operation is known to write the layout of `dst` only in memory of ggml's CPU backend.
    NotOnCpu,
    /// A source of the operation is in that memory, and is read after the first byte was written.
    OverASource,
}

impl fmt::Display for SetOutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnItself => "t and dst are the same tensor",
            Self::OtherType => "t and dst have different element types",
            Self::OtherShape => "t and dst have different shapes",
            Self::Empty => "t has no elements",
            Self::Quantized => "dst is quantized, and no operation but a copy writes that",
            Self::NotComputed => "no operation computes t",
            Self::Tiled => "only tiles of t are computed since its graph was changed by lastuse_graph_tile",
            Self::OnlyAView => "t is only a view of its source, and nothing is computed for it",
            Self::IsAView => "t is written into the memory of another tensor already",
            Self::HasMemory => "t has memory already; its context must be one without (no_alloc)",
            Self::FilledByTheProgram => "t is an input, a parameter or a loss",
            Self::NoSlot => "the operation of t has no slot left for one more source",
            Self::ViewOfTheResult => "dst is a view of t",
            Self::Cycle => "dst is computed from t",
            Self::ElementsOverlap => "elements of dst overlap",
            Self::Layout => "the operation of t is not known to write a result with the strides of dst",
            Self::NotOnCpu => "only ggml's CPU backend is known to write a result with the strides of dst",
            Self::OverASource => "a source of t lies in the memory of dst, and would be overwritten before it is read",
        })
    }
}

/// Flags of tensors whose memory the program fills: INPUT, PARAM, LOSS.
const FILLED: [Flags; 3] = [Flags::INPUT, Flags(4), Flags(8)];

/// Makes the operation of `tensor` write its result into the memory of `dst`. `tensor` then is a view of that memory.
///
/// # Errors
/// [`SetOutputError`]; nothing is changed.
pub fn set_output(runtime: &'static Runtime, tensor: TensorRef<'_>, dst: TensorRef<'_>) -> Result<(), SetOutputError> {
    let target = target_for(runtime, tensor, dst)?;
    redirect(tensor, target, dst);
    Ok(())
}

/// Returns the memory for the result, if it can be computed there.
fn target_for<'g>(
    runtime: &'static Runtime,
    tensor: TensorRef<'g>,
    dst: TensorRef<'g>,
) -> Result<OutputTarget<'g>, SetOutputError> {
    check_pair(runtime, tensor, dst)?;
    check_result(runtime, tensor)?;
    check_layout(runtime, tensor, dst)?;
    check_sources(runtime, tensor, dst)?;
    check_cycle(tensor, dst)?;
    let strides = dst.layout().to_layout().tidied(tensor.nb()[0] as u64).nb;
    let nb = strides.map(|stride| usize::try_from(stride).unwrap_or(usize::MAX));
    Ok(OutputTarget { nb, ..OutputTarget::of(dst) })
}

fn refuse_if(condition: bool, error: SetOutputError) -> Result<(), SetOutputError> {
    if condition { Err(error) } else { Ok(()) }
}

fn check_pair(runtime: &'static Runtime, tensor: TensorRef<'_>, dst: TensorRef<'_>) -> Result<(), SetOutputError> {
    refuse_if(tensor == dst, SetOutputError::OnItself)?;
    refuse_if(dst.view_source() == Some(tensor), SetOutputError::ViewOfTheResult)?;
    refuse_if(tensor.element() != dst.element(), SetOutputError::OtherType)?;
    refuse_if(tensor.ne() != dst.ne(), SetOutputError::OtherShape)?;
    refuse_if(tensor.ne().contains(&0), SetOutputError::Empty)?;
    refuse_if(runtime.is_quantized(dst), SetOutputError::Quantized)
}

fn check_result(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Result<(), SetOutputError> {
    let effect = runtime.operations.op(tensor.op()).effect();
    refuse_if(effect == Effect::Nothing, SetOutputError::NotComputed)?;
    refuse_if(tensor.is_replaced_by_tiles(), SetOutputError::Tiled)?;
    refuse_if(effect == Effect::View, SetOutputError::OnlyAView)?;
    refuse_if(tensor.view_source().is_some(), SetOutputError::IsAView)?;
    refuse_if(tensor.has_memory(), SetOutputError::HasMemory)?;
    refuse_if(FILLED.iter().any(|&flag| Flags(tensor.flags()).has(flag)), SetOutputError::FilledByTheProgram)?;
    refuse_if(tensor.source(OUTPUT_SLOT).is_some(), SetOutputError::NoSlot)
}

fn check_layout(runtime: &'static Runtime, tensor: TensorRef<'_>, dst: TensorRef<'_>) -> Result<(), SetOutputError> {
    let (own, there) = (tensor.layout().to_layout(), dst.layout().to_layout());
    refuse_if(there.has_overlapping_elements(own.nb[0]), SetOutputError::ElementsOverlap)?;
    refuse_if(!writes(runtime, tensor).allows(&own, &there), SetOutputError::Layout)?;
    let buffer_type = runtime.buffer_type_of(OutputTarget::of(dst).root);
    let is_on_cpu = buffer_type.is_none_or(BufferType::belongs_to_cpu);
    refuse_if(!is_on_cpu && !Strides::Contiguous.allows(&own, &there), SetOutputError::NotOnCpu)
}

/// A source may be in that memory if ggml itself computes the operation in place, no other source is there, and each
/// element of the result has the address of the source's.
fn check_sources(runtime: &'static Runtime, tensor: TensorRef<'_>, dst: TensorRef<'_>) -> Result<(), SetOutputError> {
    let root = OutputTarget::of(dst).root;
    let there = range(runtime, dst, 0);
    let is_there =
        |source: TensorRef<'_>| OutputTarget::of(source).root == root && range(runtime, source, 0).overlaps(there);
    // A fused kernel for RMS_NORM and MUL reads the sources of both.
    let of_norms = tensor.sources().filter(|source| runtime.operations.op(source.op()) == Op::RmsNorm);
    refuse_if(of_norms.flat_map(TensorRef::sources).any(is_there), SetOutputError::OverASource)?;
    let mut over = tensor.sources().enumerate().filter(|&(_, source)| is_there(source));
    let Some((slot, source)) = over.next() else { return Ok(()) };
    let in_place = runtime.operations.operation(tensor.op()).in_place;
    let is_in_place = Rules::GGML.allow(in_place, slot)
        && over.next().is_none()
        && source.layout() == tensor.layout()
        && dst.layout().to_layout().tidied(tensor.nb()[0] as u64).by_ref() == tensor.layout()
        && range(runtime, source, 0) == there;
    refuse_if(!is_in_place, SetOutputError::OverASource)
}

/// Visits every tensor that `dst` depends on once.
fn check_cycle(tensor: TensorRef<'_>, dst: TensorRef<'_>) -> Result<(), SetOutputError> {
    let mut visited = Ids::with_capacity(1);
    visited.id(dst);
    let mut next = 0;
    while let Some(&known) = visited.tensors().get(next) {
        for source in known.sources().chain(known.view_source()) {
            refuse_if(source == tensor, SetOutputError::Cycle)?;
            visited.id(source);
        }
        next += 1;
    }
    Ok(())
}
