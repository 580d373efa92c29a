//! The live contexts of this process. A pointer to any other is recognized without being followed.

use std::collections::BTreeMap;
#[cfg(debug_assertions)]
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::address_space::NoAddressSpace;
use super::live_context::{ContextMode, ContextOptions, LiveContext};
use crate::ggml::bindings::ggml_context;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::refusal::Refusal;

/// The number of freed contexts whose addresses debug builds keep, to detect use after free.
#[cfg(debug_assertions)]
const KEPT_FREED: usize = 64;

/// The number of live contexts with a buffer type. Usually 0: then no graph is searched for pending tensors.
static BACKED: AtomicUsize = AtomicUsize::new(0);

static REGISTRY: Mutex<ContextRegistry> = Mutex::new(ContextRegistry::new());

struct ContextRegistry {
    /// Live contexts by the address of ggml's struct.
    live: BTreeMap<usize, Arc<LiveContext>>,
    /// Live contexts with a buffer type, by their first address.
    backed: BTreeMap<usize, Arc<LiveContext>>,
    /// Contexts freed lately, the latest last.
    #[cfg(debug_assertions)]
    freed: VecDeque<LiveContext>,
}

/// Why a context cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLive {
    /// It was freed.
    Freed,
    /// It was freed by `ggml_free`, which frees only ggml's part of it.
    FreedByGgml,
    /// It was not created by lastuse, or was freed long ago.
    Unknown,
}

impl fmt::Display for NotLive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Freed => "the context was freed before",
            Self::FreedByGgml => "the context was freed with ggml_free; call lastuse_context_free instead",
            Self::Unknown => "the context was not created by lastuse_context_new, or was freed before",
        })
    }
}

/// Why the tensors of a context cannot be allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRealized {
    /// The context cannot be used.
    NotLive(NotLive),
    /// They are allocated with a graph.
    Deferred,
    /// There is not enough memory, or the backend fails.
    Refused(Refusal),
}

impl fmt::Display for NotRealized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLive(why) => write!(f, "{why}"),
            Self::Deferred => write!(f, "the tensors of a deferred context are allocated when a graph is"),
            Self::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl ContextRegistry {
    const fn new() -> Self {
        Self {
            live: BTreeMap::new(),
            backed: BTreeMap::new(),
            #[cfg(debug_assertions)]
            freed: VecDeque::new(),
        }
    }

    /// Adds a context. Returns the one that was at its address before, which `ggml_free` must have freed by mistake.
    fn add(&mut self, context: Arc<LiveContext>) -> Option<Arc<LiveContext>> {
        let mistaken = self.remove(context.as_ptr());
        if context.buffer_type().is_some() {
            self.backed.insert(context.addresses().start, Arc::clone(&context));
        }
        self.live.insert(context.as_ptr().addr(), context);
        self.update_count();
        mistaken
    }

    fn remove(&mut self, context: *mut ggml_context) -> Option<Arc<LiveContext>> {
        let removed = self.live.remove(&context.addr())?;
        self.backed.remove(&removed.addresses().start);
        self.update_count();
        Some(removed)
    }

    fn update_count(&self) {
        BACKED.store(self.backed.len(), Ordering::Release);
    }

    fn not_live(&self, context: *mut ggml_context) -> NotLive {
        #[cfg(debug_assertions)]
        if self.freed.iter().any(|freed| freed.as_ptr() == context) {
            return NotLive::Freed;
        }
        let _ = context;
        NotLive::Unknown
    }

    /// Keeps the addresses of a freed context. Returns the oldest one if too many are kept.
    #[cfg(debug_assertions)]
    fn keep_freed(&mut self, context: LiveContext) -> Option<LiveContext> {
        self.freed.push_back(context);
        if self.freed.len() > KEPT_FREED { self.freed.pop_front() } else { None }
    }
}

fn registry() -> MutexGuard<'static, ContextRegistry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates a context, which [`free_context`] frees.
///
/// # Errors
/// [`NoAddressSpace`].
pub fn new_context(runtime: &'static Runtime, options: ContextOptions) -> Result<*mut ggml_context, NoAddressSpace> {
    let context = Arc::new(LiveContext::new(runtime, options)?);
    let pointer = context.as_ptr();
    let mistaken = registry().add(context);
    drop(mistaken);
    Ok(pointer)
}

/// Frees a context, the buffers of its tensors and its addresses.
///
/// # Errors
/// [`NotLive`]; if `ggml_free` has freed its part, the rest is freed.
///
/// # Safety
/// No other thread uses the context, and nothing uses it or its tensors afterwards. Any address may be passed: one that is
/// not of a live context is recognized.
pub unsafe fn free_context(context: *mut ggml_context) -> Result<(), NotLive> {
    let removed = {
        let mut registry = registry();
        registry.remove(context).ok_or_else(|| registry.not_live(context))?
    };
    let is_intact = removed.is_intact();
    // A thread that realizes it right now, against the rules, drops the last reference instead.
    if let Ok(context) = Arc::try_unwrap(removed)
        && is_intact
    {
        retire(context);
    }
    if is_intact { Ok(()) } else { Err(NotLive::FreedByGgml) }
}

#[cfg(not(debug_assertions))]
fn retire(context: LiveContext) {
    drop(context);
}

#[cfg(debug_assertions)]
fn retire(mut context: LiveContext) {
    context.retire();
    let oldest = registry().keep_freed(context);
    drop(oldest);
}

/// Allocates the pending tensors of a context.
///
/// # Errors
/// [`NotRealized`].
///
/// # Safety
/// No other thread uses the context. Any address may be passed: one that is not of a live context is recognized.
pub unsafe fn realize_context(context: *mut ggml_context) -> Result<(), NotRealized> {
    let found = {
        let registry = registry();
        registry.live.get(&context.addr()).cloned().ok_or_else(|| registry.not_live(context))
    };
    let live = found.and_then(|live| if live.is_intact() { Ok(live) } else { Err(NotLive::FreedByGgml) });
    let live = live.map_err(NotRealized::NotLive)?;
    match live.kind() {
        ContextMode::Deferred => Err(NotRealized::Deferred),
        ContextMode::Immediate => live.realize().map_err(NotRealized::Refused),
    }
}

/// Returns `true` if `address` is, or lies in, a context freed lately. Only debug builds keep track of them.
#[cfg(debug_assertions)]
pub fn is_freed(address: usize) -> bool {
    let holds = |freed: &LiveContext| freed.as_ptr().addr() == address || freed.addresses().contains(&address);
    registry().freed.iter().any(holds)
}

/// Returns `false`: only debug builds keep track of freed contexts.
#[cfg(not(debug_assertions))]
pub fn is_freed(_address: usize) -> bool {
    false
}

/// Returns `true` if there are live contexts with a buffer type.
pub fn has_backed_contexts() -> bool {
    BACKED.load(Ordering::Acquire) > 0
}

/// Returns the addresses of the live contexts with a buffer type, in order. Only addresses: another thread may free a
/// context that the caller's graph does not read.
pub fn backed_contexts() -> Vec<Range<usize>> {
    if !has_backed_contexts() {
        return Vec::new();
    }
    registry().backed.values().filter(|context| context.is_intact()).map(|context| context.addresses()).collect()
}

/// Returns the live context with a buffer type that `address` lies in.
pub fn backed_at(address: usize) -> Option<Arc<LiveContext>> {
    let registry = registry();
    let (_, context) = registry.backed.range(..=address).next_back()?;
    context.addresses().contains(&address).then(|| Arc::clone(context))
}
