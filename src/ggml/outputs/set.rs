//! Results where they are wanted: a tensor that is computed in the memory of another.

use std::fmt;

use crate::graph::order::Effect;
use crate::graph::{Flags, Strides};

use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::ids::Ids;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::outputs::check::{range, writes};
use crate::ggml::outputs::redirect::{Place, WANTED_SLOT, redirect};

/// Why a result cannot be in that memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOutput {
    /// Both tensors are the same.
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
    /// The result is only another look at its source.
    OnlyAView,
    /// The result is written into the memory of another tensor already.
    IsAView,
    /// The result has memory.
    HasMemory,
    /// The result is an input or a parameter, whose memory the program fills.
    FilledByTheProgram,
    /// All slots for sources are taken.
    NoSlot,
    /// The other tensor is a view of the result.
    ViewOfTheResult,
    /// The other tensor is computed from the result.
    Cycle,
    /// Two elements of the other tensor are at the same place.
    ElementsOverlap,
    /// The operation is not known to write such a layout.
    Layout,
    /// It is known to do so only in memory of ggml's CPU backend.
    NotOnCpu,
    /// A source of the operation lies there, and is read after the first byte was written.
    OverASource,
}

impl fmt::Display for NoOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnItself => "a tensor cannot be the memory of its own result: t and dst are the same",
            Self::OtherType => "t and dst have different element types",
            Self::OtherShape => "t and dst have different shapes",
            Self::Empty => "t has no elements",
            Self::Quantized => "dst is quantized, and no operation but a copy writes that",
            Self::NotComputed => "no operation computes t",
            Self::OnlyAView => "t is only a view of its source, and nothing is computed for it",
            Self::IsAView => "t is written into the memory of another tensor already",
            Self::HasMemory => "t has memory already; its context must be one without (no_alloc)",
            Self::FilledByTheProgram => "t is an input, a parameter or a loss",
            Self::NoSlot => "the operation of t has no slot left for one more source",
            Self::ViewOfTheResult => "dst is a view of t",
            Self::Cycle => "dst is computed from t",
            Self::ElementsOverlap => "elements of dst lie over one another",
            Self::Layout => "the operation of t is not known to write a result with the strides of dst",
            Self::NotOnCpu => "only ggml's CPU backend is known to write a result with the strides of dst",
            Self::OverASource => "a source of t lies in the memory of dst, and would be overwritten before it is read",
        })
    }
}

/// Flags of tensors whose memory the program fills: INPUT, PARAM, LOSS.
const FILLED: [Flags; 3] = [Flags::INPUT, Flags(4), Flags(8)];

/// Makes the operation of `tensor` write its result where `wanted` lies. `tensor` then is a view of that memory.
///
/// # Errors
/// [`NoOutput`]; nothing was changed then.
pub fn set_output(runtime: &'static Runtime, tensor: TensorRef<'_>, wanted: TensorRef<'_>) -> Result<(), NoOutput> {
    let place = place_for(runtime, tensor, wanted)?;
    redirect(tensor, place, wanted);
    Ok(())
}

/// Where `tensor` will lie, and that it can.
fn place_for<'g>(
    runtime: &'static Runtime,
    tensor: TensorRef<'g>,
    wanted: TensorRef<'g>,
) -> Result<Place<'g>, NoOutput> {
    check_pair(runtime, tensor, wanted)?;
    check_result(runtime, tensor)?;
    check_layout(runtime, tensor, wanted)?;
    check_sources(runtime, tensor, wanted)?;
    check_cycle(tensor, wanted)?;
    let strides = wanted.layout().to_layout().tidied(tensor.nb()[0] as u64).nb;
    let nb = strides.map(|stride| usize::try_from(stride).unwrap_or(usize::MAX));
    Ok(Place { nb, ..Place::of(wanted) })
}

fn refuse_if(is_so: bool, why: NoOutput) -> Result<(), NoOutput> {
    if is_so { Err(why) } else { Ok(()) }
}

fn check_pair(runtime: &'static Runtime, tensor: TensorRef<'_>, wanted: TensorRef<'_>) -> Result<(), NoOutput> {
    refuse_if(tensor == wanted, NoOutput::OnItself)?;
    refuse_if(wanted.view_source() == Some(tensor), NoOutput::ViewOfTheResult)?;
    refuse_if(tensor.element() != wanted.element(), NoOutput::OtherType)?;
    refuse_if(tensor.ne() != wanted.ne(), NoOutput::OtherShape)?;
    refuse_if(tensor.ne().contains(&0), NoOutput::Empty)?;
    refuse_if(runtime.is_quantized(wanted), NoOutput::Quantized)
}

fn check_result(runtime: &'static Runtime, tensor: TensorRef<'_>) -> Result<(), NoOutput> {
    let effect = runtime.operations.effect(tensor.op());
    refuse_if(effect == Effect::Nothing, NoOutput::NotComputed)?;
    refuse_if(effect == Effect::View, NoOutput::OnlyAView)?;
    refuse_if(tensor.view_source().is_some(), NoOutput::IsAView)?;
    refuse_if(tensor.has_memory(), NoOutput::HasMemory)?;
    refuse_if(FILLED.iter().any(|&flag| Flags(tensor.flags()).has(flag)), NoOutput::FilledByTheProgram)?;
    refuse_if(tensor.source(WANTED_SLOT).is_some(), NoOutput::NoSlot)
}

fn check_layout(runtime: &'static Runtime, tensor: TensorRef<'_>, wanted: TensorRef<'_>) -> Result<(), NoOutput> {
    let (own, there) = (tensor.layout().to_layout(), wanted.layout().to_layout());
    refuse_if(there.has_elements_over_one_another(own.nb[0]), NoOutput::ElementsOverlap)?;
    refuse_if(!writes(runtime, tensor).allows(&own, &there), NoOutput::Layout)?;
    let buffer_type = runtime.buffer_type_of(Place::of(wanted).root);
    let is_on_cpu = buffer_type.is_none_or(BufferType::belongs_to_cpu);
    refuse_if(!is_on_cpu && !Strides::Contiguous.allows(&own, &there), NoOutput::NotOnCpu)
}

/// A source may lie there when the operation is one that ggml itself computes in place, no other source lies there, and
/// each element is where that of the source is.
fn check_sources(runtime: &'static Runtime, tensor: TensorRef<'_>, wanted: TensorRef<'_>) -> Result<(), NoOutput> {
    let root = Place::of(wanted).root;
    let there = range(runtime, wanted, 0);
    let lies_there =
        |source: TensorRef<'_>| Place::of(source).root == root && range(runtime, source, 0).overlaps(there);
    // A kernel that computes RMS_NORM and its product at once reads the sources of both.
    let of_norms = tensor.sources().filter(|source| runtime.operations.is_named(source.op(), c"RMS_NORM"));
    refuse_if(of_norms.flat_map(TensorRef::sources).any(lies_there), NoOutput::OverASource)?;
    let mut over = tensor.sources().enumerate().filter(|&(_, source)| lies_there(source));
    let Some((slot, source)) = over.next() else { return Ok(()) };
    let operation = runtime.operations.operation(tensor.op());
    let is_in_place = operation.is_listed()
        && operation.may_write_over(slot)
        && over.next().is_none()
        && source.layout() == tensor.layout()
        && wanted.layout().to_layout().tidied(tensor.nb()[0] as u64).by_ref() == tensor.layout()
        && range(runtime, source, 0) == there;
    refuse_if(!is_in_place, NoOutput::OverASource)
}

/// Whatever `wanted` is computed from is looked at once.
fn check_cycle(tensor: TensorRef<'_>, wanted: TensorRef<'_>) -> Result<(), NoOutput> {
    let mut seen = Ids::with_capacity(1);
    seen.id(wanted);
    let mut next = 0;
    while let Some(&known) = seen.tensors().get(next) {
        for source in known.sources().chain(known.view_source()) {
            refuse_if(source == tensor, NoOutput::Cycle)?;
            seen.id(source);
        }
        next += 1;
    }
    Ok(())
}
