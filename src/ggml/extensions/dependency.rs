//! Order as a part of the graph: a tensor that is another one, but only after a third has run.

use std::fmt;

use crate::ggml::bindings::ggml_context;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::TensorRef;
use crate::ggml::live::tensor_mut::TensorMut;

/// Why there is no such tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDependency {
    /// Both tensors are the same.
    OnItself,
    /// The context has no room for one more tensor.
    ContextIsFull,
}

impl fmt::Display for NoDependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnItself => write!(f, "a tensor cannot come after itself: a and b are the same"),
            Self::ContextIsFull => write!(f, "the context has no room for one more tensor"),
        }
    }
}

/// A view of all of `tensor`, made in `context`, that has `before` as its second source.
///
/// It is a RESHAPE to the same shape: no backend computes anything for it, no scheduler copies its sources, and its
/// gradient is that of its first source, whatever the layout. Every walker of graphs looks at all sources, so `before`
/// comes first; and no cycle is closed, since nothing reads the view yet.
///
/// # Errors
/// [`NoDependency`].
///
/// # Safety
/// `context` is alive, as are the tensors for as long as the graph is used, and no other thread uses them.
pub unsafe fn depend<'g>(
    runtime: &Runtime,
    context: *mut ggml_context,
    tensor: TensorRef<'g>,
    before: TensorRef<'g>,
) -> Result<TensorRef<'g>, NoDependency> {
    if tensor == before {
        return Err(NoDependency::OnItself);
    }
    // SAFETY: a live context and a live tensor.
    let view = unsafe { (runtime.functions.ggml_view_tensor)(context, tensor.as_ptr()) };
    // SAFETY: null, or a new tensor in a live context.
    let view = unsafe { TensorRef::new(view) }.ok_or(NoDependency::ContextIsFull)?;
    // SAFETY: the view was just made, and nothing refers to it yet.
    let mut writer = unsafe { TensorMut::new(view) };
    writer.set_operation(runtime.operations.reshape());
    writer.set_source(0, tensor);
    writer.set_source(1, before);
    Ok(view)
}
