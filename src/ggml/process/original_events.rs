//! Writes events of ggml's own allocators, if they serve and a report is requested. Their buffer sizes are read after
//! each call.

use std::ffi::{CStr, c_int};

use super::ggml::{Ggml, Server};
use crate::ggml::bindings::ggml_backend_buffer_type;
use crate::ggml::linking::original::ggml_gallocr;
use crate::ggml::live::lock::Lock;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::observe::statistics::next_number;
use crate::placement::Bytes;

use crate::ggml::observe::events::{BufferEvent, Events};

/// One of ggml's own allocators.
#[derive(Debug)]
struct Watched {
    /// The address of the allocator.
    address: usize,
    number: u64,
    /// By buffer id; `None` for one that repeats the type of an earlier one.
    names: Vec<Option<String>>,
    /// By buffer id: bytes, as reported last.
    sizes: Vec<Bytes>,
}

static WATCHED: Lock<Vec<Watched>> = Lock::new(Vec::new());

/// Reports that `galloc` was created for buffer types. If one of ggml's functions creates it through another one, both
/// report it, and the first report counts.
///
/// # Safety
/// `types` holds `count` buffer types, which are live or null.
pub unsafe fn report_new(
    ggml: &Ggml,
    galloc: *mut ggml_gallocr,
    types: *const *mut ggml_backend_buffer_type,
    count: c_int,
) {
    let Some(events) = events_of(ggml).filter(|_| !galloc.is_null()) else { return };
    let mut watched = WATCHED.lock();
    if watched.iter().any(|known| known.address == galloc.addr()) {
        return;
    }
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: `types` holds `count` entries, as the caller guarantees.
    let types = if count > 0 { unsafe { std::slice::from_raw_parts(types, count) } } else { &[] };
    let names = types.iter().enumerate().map(|(id, &buffer_type)| {
        // SAFETY: null or a live buffer type, as the caller guarantees.
        (!types[..id].contains(&buffer_type)).then(|| unsafe { name(events, buffer_type) })
    });
    let (names, sizes) = (names.collect(), vec![0; types.len()]);
    watched.push(Watched { address: galloc.addr(), number: next_number(), names, sizes });
    events.write_start();
}

/// Reports the buffers of `galloc` if they have changed. `graph` is the cause, if the layout of graphs is known.
///
/// # Safety
/// `galloc` is live.
pub unsafe fn report_buffers(ggml: &Ggml, galloc: *mut ggml_gallocr, graph: Option<GraphRef<'_>>) {
    let (Some(events), Some(original)) = (events_of(ggml), ggml.original) else { return };
    let mut watched = WATCHED.lock();
    let Some(known) = watched.iter_mut().find(|known| known.address == galloc.addr()) else { return };
    let ids = (0..).take(known.names.len());
    // SAFETY: a live allocator, which has these ids.
    let size = |id: c_int| unsafe { (original.gallocr_get_buffer_size)(galloc, id) as Bytes };
    let sizes: Vec<Bytes> = ids.map(size).collect();
    if sizes == known.sizes {
        return;
    }
    known.sizes = sizes;
    let buffers = known.names.iter().zip(&known.sizes).enumerate();
    let events_by_buffer =
        buffers.filter_map(|(id, (name, &bytes))| Some(BufferEvent { id, name: name.as_ref()?, bytes, planned: None }));
    let count = |list: fn(GraphRef<'_>) -> usize| graph.map(|graph| list(graph) as u64);
    let counts = [count(|graph| graph.leafs.len()), count(|graph| graph.nodes.len())];
    events.write_buffers(known.number, counts, events_by_buffer);
}

/// Reports that `galloc` is about to be freed.
pub fn report_free(ggml: &Ggml, galloc: *mut ggml_gallocr) {
    let Some(events) = events_of(ggml) else { return };
    let mut watched = WATCHED.lock();
    let Some(at) = watched.iter().position(|known| known.address == galloc.addr()) else { return };
    events.write_free(watched.swap_remove(at).number);
}

/// # Safety
/// The buffer type is live, or null.
unsafe fn name(events: &Events, buffer_type: *mut ggml_backend_buffer_type) -> String {
    if buffer_type.is_null() {
        return String::new();
    }
    // SAFETY: not null, so a live buffer type, as the caller guarantees.
    let name = unsafe { (events.functions().ggml_backend_buft_name)(buffer_type) };
    // SAFETY: names end in NUL.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Returns the report if ggml's own allocators serve.
fn events_of(ggml: &Ggml) -> Option<&Events> {
    ggml.events.as_ref().filter(|_| matches!(ggml.server, Server::Original(_)))
}
