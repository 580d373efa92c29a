//! How a tensor gets into a buffer, and why it cannot.

use std::fmt;

use crate::graph::{Effect, Flags};
use crate::placement::Bytes;

use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;

/// How a tensor gets into a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its operation writes there.
    Produced,
    /// One more node copies it there.
    Copied,
}

/// Why a tensor cannot be dedicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedicateError {
    /// The result is not computed by an operation.
    NotComputed,
    /// Only parts of the tensor are computed.
    Tiled,
    /// The tensor is an input, whose memory the program fills.
    Input,
    /// There is no element.
    Empty,
    /// The tensor has memory: it was dedicated before, its graph is allocated, or the program gave it some.
    HasMemory,
    /// The tensor is a view of a tensor that was dedicated before.
    ViewOfDedicated {
        /// The name of that tensor.
        root: String,
    },
    /// The tensor is a view of a tensor of a graph that is allocated already.
    AlreadyAllocated {
        /// The name of that tensor.
        root: String,
    },
    /// A view of quantized elements that are not in order cannot be copied.
    Quantized,
    /// The device of the buffer can neither compute the tensor nor copy it.
    NotSupported {
        /// The name of the buffer type.
        buffer: String,
    },
    /// The buffer is one of the allocator's own.
    ComputeBuffer,
    /// Buffers of this type have no addresses.
    NoAddresses {
        /// The name of the buffer type.
        buffer: String,
    },
    /// The buffer has too few free bytes.
    TooSmall {
        /// Bytes that the tensor takes there.
        wanted: Bytes,
        /// Bytes of the buffer that are left, after alignment.
        free: Bytes,
        /// Bytes that earlier tensors have taken.
        taken: Bytes,
        /// Bytes of the buffer.
        size: Bytes,
    },
    /// ggml could not create the tensor for the copy.
    NoContext,
    /// The backend could not initialize the tensor.
    InitFailed,
}

impl fmt::Display for DedicateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotComputed => write!(
                f,
                "no operation computes t; a tensor that the program fills gets memory in a buffer by \
                 ggml_backend_tensor_alloc"
            ),
            Self::Tiled => write!(
                f,
                "only parts of t are computed since its graph was changed by lastuse_graph_tile; dedicate it before"
            ),
            Self::Input => write!(f, "t is an input, which the program fills"),
            Self::Empty => write!(f, "t has no elements"),
            Self::HasMemory => write!(
                f,
                "t has memory already: it was dedicated before, or its graph is allocated; dedicate a tensor once, \
                 before its graph is reserved or allocated"
            ),
            Self::ViewOfDedicated { root } => write!(f, "t is a view of \"{root}\", which is dedicated already"),
            Self::AlreadyAllocated { root } => write!(
                f,
                "t is a view of \"{root}\", whose graph is allocated already; dedicate it before its graph is reserved \
                 or allocated"
            ),
            Self::Quantized => write!(f, "t is a view of quantized elements that are not in order"),
            Self::NotSupported { buffer } => {
                write!(f, "the device of the buffer, whose type is {buffer}, can neither compute t nor copy it")
            }
            Self::ComputeBuffer => {
                write!(f, "buffer is the compute buffer of galloc, which each graph overwrites; allocate another one")
            }
            Self::NoAddresses { buffer } => {
                write!(f, "buffers of the type {buffer} place their tensors themselves; use a buffer of one device")
            }
            Self::TooSmall { wanted, free, taken, size } => write!(
                f,
                "buffer is too small: t takes {wanted} bytes, and {free} of {size} are free; tensors dedicated before \
                 take {taken} (lastuse_gallocr_dedicated_reset gives them back)"
            ),
            Self::NoContext => write!(f, "ggml cannot create a tensor for the copy"),
            Self::InitFailed => write!(f, "the backend cannot initialize t in the buffer"),
        }
    }
}

/// Decides how `tensor` gets into `buffer`. `is_compute_buffer` returns whether a buffer is one of the allocator's own,
/// `is_dedicated` whether tensors were dedicated in it.
///
/// # Errors
/// [`DedicateError`].
pub fn way_into(
    runtime: &'static Runtime,
    tensor: TensorRef<'_>,
    buffer: BufferRef,
    is_compute_buffer: impl Fn(BufferRef) -> bool,
    is_dedicated: impl Fn(BufferRef) -> bool,
) -> Result<Way, DedicateError> {
    check_buffer(runtime, buffer, &is_compute_buffer)?;
    let effect = runtime.operations.effect(tensor.op());
    refuse_if(effect == Effect::Nothing, DedicateError::NotComputed)?;
    refuse_if(tensor.is_replaced_by_tiles(), DedicateError::Tiled)?;
    refuse_if(Flags(tensor.flags()).has(Flags::INPUT), DedicateError::Input)?;
    refuse_if(tensor.ne().contains(&0), DedicateError::Empty)?;
    let Some(root) = tensor.view_source() else {
        refuse_if(tensor.has_memory(), DedicateError::HasMemory)?;
        return Ok(if runtime.supports(buffer, tensor) { Way::Produced } else { Way::Copied });
    };
    if let Some(there) = root.buffer_ref() {
        let root_is_computed = runtime.operations.effect(root.op()) != Effect::Nothing;
        let name = || root.name();
        refuse_if(is_compute_buffer(there), DedicateError::AlreadyAllocated { root: name() })?;
        refuse_if(root_is_computed && is_dedicated(there), DedicateError::ViewOfDedicated { root: name() })?;
    }
    let is_copyable = !runtime.is_quantized(tensor) || runtime.is_contiguous(tensor);
    refuse_if(!is_copyable, DedicateError::Quantized)?;
    Ok(Way::Copied)
}

fn check_buffer(
    runtime: &'static Runtime,
    buffer: BufferRef,
    is_compute_buffer: impl Fn(BufferRef) -> bool,
) -> Result<(), DedicateError> {
    refuse_if(is_compute_buffer(buffer), DedicateError::ComputeBuffer)?;
    match runtime.type_of(buffer) {
        Some(buffer_type) if buffer_type.places_tensors_itself() => {
            Err(DedicateError::NoAddresses { buffer: buffer_type.name() })
        }
        _ => Ok(()),
    }
}

fn refuse_if(condition: bool, error: DedicateError) -> Result<(), DedicateError> {
    if condition { Err(error) } else { Ok(()) }
}

impl Runtime {
    /// Returns `true` if the device of a buffer can run the operation of `tensor`, as far as it says so. Buffers
    /// without a device are host memory.
    pub fn supports(&'static self, buffer: BufferRef, tensor: TensorRef<'_>) -> bool {
        let functions = &self.functions;
        let (Some(get_device), Some(supports_op)) =
            (functions.ggml_backend_buft_get_device, functions.ggml_backend_dev_supports_op)
        else {
            return true;
        };
        let Some(buffer_type) = self.type_of(buffer) else { return true };
        // SAFETY: a live buffer type.
        let device = unsafe { get_device(buffer_type.as_ptr()) };
        // SAFETY: a device of this ggml, and a live tensor.
        device.is_null() || unsafe { supports_op(device, tensor.as_ptr()) }
    }
}
