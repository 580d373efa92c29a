//! The accounting of live graphs, contexts and buffers, on request of the program.

use std::fmt;
use std::ptr::NonNull;

use crate::ggml::bindings::{ggml_backend, ggml_backend_sched, ggml_context};
use crate::ggml::context::allocate::tensors;
use crate::ggml::live::buffer_ref::BufferRef;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::owned::for_each_owned;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::observe::accounting::{Books, DescribedBuffer, GraphDraft, content, recorder};
use crate::ggml::observe::verify::{forget_places, places_are_recorded};
use crate::offload::accounting::{Accounting, Location, Moment};

/// The parts of an accounting.
#[derive(Debug)]
pub struct AccountingRequest<'g> {
    /// Graphs whose tensors have memory.
    pub graphs: Vec<GraphRef<'g>>,
    /// Contexts with weights and caches.
    pub contexts: Vec<NonNull<ggml_context>>,
    /// Further buffers.
    pub buffers: Vec<BufferRef>,
    /// The scheduler that runs the graphs.
    pub scheduler: Option<NonNull<ggml_backend_sched>>,
    /// The backend that runs the graphs.
    pub backend: Option<NonNull<ggml_backend>>,
}

/// A buffer that combines several was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinedBuffer(pub usize);

impl fmt::Display for CombinedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {} combines several buffers: give the context whose tensors are in it instead", self.0)
    }
}

/// Returns the memory that the process holds now, as far as lastuse knows: its own buffers, those in which tensors of
/// the graphs and contexts lie, and those that are given or were noted.
///
/// # Errors
/// [`CombinedBuffer`].
///
/// # Safety
/// Everything in the request is live and of this ggml, and no other thread uses it.
pub unsafe fn account(
    runtime: &'static Runtime,
    request: &AccountingRequest<'_>,
) -> Result<Accounting, CombinedBuffer> {
    let mut books = recorder().books().unwrap_or_default();
    if !request.graphs.is_empty() {
        books.ledger.forget_graphs();
    }
    for_each_owned(|owned| {
        if let Some(described) = DescribedBuffer::new(owned.runtime, owned.buffer, Some(owned.asked), false) {
            books.add(described, false);
        }
    });
    for (number, &buffer) in request.buffers.iter().enumerate() {
        // SAFETY: a live buffer.
        if runtime.functions.ggml_backend_buffer_is_multi_buffer.is_some_and(|is| unsafe { is(buffer.as_ptr()) }) {
            return Err(CombinedBuffer(number));
        }
        add_found(&mut books, DescribedBuffer::new(runtime, buffer, None, false));
    }
    for &context in &request.contexts {
        // SAFETY: a live context, as the caller guarantees.
        let tensors = unsafe { tensors(context, &runtime.functions) };
        tensors.into_iter().for_each(|tensor| add_content(runtime, &mut books, tensor));
    }
    for &graph in &request.graphs {
        // SAFETY: the backends of live schedulers are live, as the caller guarantees.
        let executes = |node| unsafe { executing(runtime, request, node) };
        let draft = GraphDraft::new(runtime, graph, |_| None, executes);
        let graph = books.settle(draft, |_| None);
        books.ledger.add_graph(graph);
    }
    for memory in books.devices() {
        let says = runtime.memory_of(memory);
        books.note_memory(memory, says);
    }
    let accounting = books.ledger.accounting(Moment::Now);
    Ok(Accounting { process: std::process::id(), ggml: runtime.version().to_owned(), ..accounting })
}

/// Adds a buffer, unless more is known of it.
fn add_found(books: &mut Books, described: Option<DescribedBuffer>) {
    let Some(mut described) = described else { return };
    if let Some((asked, is_mapped)) = books.ledger.asked(described.address, &described.held) {
        (described.held.asked, described.held.is_mapped) = (asked, is_mapped);
    }
    books.add(described, false);
}

fn add_content(runtime: &'static Runtime, books: &mut Books, tensor: TensorRef<'_>) {
    let Some((described, mut tensor, offset)) = content(runtime, tensor) else { return };
    let address = described.address;
    add_found(books, Some(described));
    tensor.location = books.ledger.id(address).map(|buffer| Location { buffer, offset });
    tensor.device = books.ledger.device_of(address);
    tensor.buffer_type = books.ledger.type_of(address);
    books.ledger.add_content(address, tensor);
}

/// Returns the name of the backend that executes a node: that of the scheduler, or the one that is given; where neither is
/// known, the device of its memory.
///
/// # Safety
/// The scheduler, the backend and the node are live.
unsafe fn executing(runtime: &'static Runtime, request: &AccountingRequest<'_>, node: TensorRef<'_>) -> Option<String> {
    let by_scheduler = request.scheduler.zip(runtime.functions.ggml_backend_sched_get_tensor_backend);
    // SAFETY: a live scheduler and a live tensor.
    let backend = by_scheduler.map(|(scheduler, get)| unsafe { get(scheduler.as_ptr(), node.as_ptr()) });
    let backend = backend.and_then(NonNull::new).or(request.backend);
    // SAFETY: a live backend.
    let name = backend.and_then(|backend| unsafe { runtime.backend_name(backend) });
    name.or_else(|| {
        let owner = node.view_source().unwrap_or(node);
        runtime.buffer_type_of(owner).map(|buffer_type| buffer_type.device_facts().name)
    })
}

/// Notes the tensors of a context that was allocated just now, if anything is recorded of buffers or of tensors.
///
/// # Safety
/// `context` is a live context of the ggml of `buffer_type`.
pub unsafe fn note_context(context: NonNull<ggml_context>, buffer_type: BufferType) {
    if recorder().is_recording() || places_are_recorded() {
        let runtime = buffer_type.runtime();
        // SAFETY: a live context of this ggml.
        let tensors = unsafe { tensors(context, &runtime.functions) };
        forget_places(&tensors);
        if recorder().is_recording() {
            recorder().note_context(runtime, &tensors);
        }
    }
}
