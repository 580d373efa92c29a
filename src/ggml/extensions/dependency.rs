//! Dependencies between nodes: a view of a tensor that is computed only after another tensor.

use crate::graph::Op;
use std::fmt;

use crate::ggml::bindings::ggml_context;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;

/// Why a dependency cannot be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyError {
    /// Both tensors are the same.
    OnItself,
    /// The context has no room for one more tensor.
    ContextIsFull,
}

impl fmt::Display for DependencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnItself => write!(f, "a tensor cannot depend on itself: a and b are the same"),
            Self::ContextIsFull => write!(f, "the context has no room for one more tensor"),
        }
    }
}

/// Creates a view of all of `tensor` in `context`, with `before` as its second source.
///
/// It is a RESHAPE to the same shape: no backend computes anything for it, no scheduler copies its sources, and its
/// gradient is that of its first source, whatever the layout. Every traversal of a graph visits all sources, so
/// `before` comes first. The view closes no cycle, since nothing reads it yet.
///
/// # Errors
/// [`DependencyError`].
///
/// # Safety
/// `context` is live, the tensors stay live while the graph is used, and no other thread uses them.
pub unsafe fn depend<'g>(
    runtime: &Runtime,
    context: *mut ggml_context,
    tensor: TensorRef<'g>,
    before: TensorRef<'g>,
) -> Result<TensorRef<'g>, DependencyError> {
    if tensor == before {
        return Err(DependencyError::OnItself);
    }
    // SAFETY: a live context and a live tensor.
    let view = unsafe { (runtime.functions.ggml_view_tensor)(context, tensor.as_ptr()) };
    // SAFETY: null, or a new tensor in a live context.
    let view = unsafe { TensorRef::new(view) }.ok_or(DependencyError::ContextIsFull)?;
    // SAFETY: the view is new, and nothing refers to it.
    let mut writer = unsafe { TensorMut::new(view) };
    writer.set_operation(runtime.operations.number(Op::Reshape));
    writer.set_source(0, tensor);
    writer.set_source(1, before);
    Ok(view)
}
