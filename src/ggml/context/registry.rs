//! The live contexts of this process: what is asked about any other is answered, and not followed.

use std::collections::BTreeMap;
#[cfg(debug_assertions)]
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::address_space::NoAddressSpace;
use super::live::{Kind, LiveContext, Wanted};
use crate::ggml::bindings::ggml_context;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::refusal::Refusal;

/// So many freed contexts keep their addresses in debug builds, so that whoever uses one is found out.
#[cfg(debug_assertions)]
const FREED: usize = 64;

/// How many live contexts give their tensors memory in a buffer type. Mostly none: then no graph is searched for them.
static GROWING: AtomicUsize = AtomicUsize::new(0);

static REGISTRY: Mutex<Registry> = Mutex::new(Registry::new());

struct Registry {
    /// By the address of ggml's struct.
    live: BTreeMap<usize, Arc<LiveContext>>,
    /// By their first address, those that give their tensors memory in a buffer type.
    growing: BTreeMap<usize, Arc<LiveContext>>,
    /// The latest last.
    #[cfg(debug_assertions)]
    freed: VecDeque<LiveContext>,
}

/// Why a context cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAlive {
    /// It was freed.
    Freed,
    /// ggml has freed its own part of it, which nobody should have asked for.
    FreedByGgml,
    /// It is not one of lastuse's, or was freed long ago.
    Unknown,
}

impl fmt::Display for NotAlive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Freed => "the context was freed before",
            Self::FreedByGgml => "the context was freed with ggml_free; lastuse_context_free is what frees it",
            Self::Unknown => "the context does not come from lastuse_context_new, or was freed before",
        })
    }
}

/// Why the tensors of a context have no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRealized {
    /// The context cannot be used.
    NotAlive(NotAlive),
    /// They are to get it from the allocator of a graph.
    Deferred,
    /// There is not enough memory, or the backend fails.
    Refused(Refusal),
}

impl fmt::Display for NotRealized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAlive(why) => write!(f, "{why}"),
            Self::Deferred => write!(f, "the tensors of a deferred context get their memory when a graph is allocated"),
            Self::Refused(why) => write!(f, "{why}"),
        }
    }
}

impl Registry {
    const fn new() -> Self {
        Self {
            live: BTreeMap::new(),
            growing: BTreeMap::new(),
            #[cfg(debug_assertions)]
            freed: VecDeque::new(),
        }
    }

    /// Answers the context that was at this place: ggml has freed it, or it would still be there.
    fn add(&mut self, context: Arc<LiveContext>) -> Option<Arc<LiveContext>> {
        let mistaken = self.remove(context.as_ptr());
        if context.buffer_type().is_some() {
            self.growing.insert(context.addresses().start, Arc::clone(&context));
        }
        self.live.insert(context.as_ptr().addr(), context);
        self.count();
        mistaken
    }

    fn remove(&mut self, context: *mut ggml_context) -> Option<Arc<LiveContext>> {
        let removed = self.live.remove(&context.addr())?;
        self.growing.remove(&removed.addresses().start);
        self.count();
        Some(removed)
    }

    fn count(&self) {
        GROWING.store(self.growing.len(), Ordering::Release);
    }

    fn why_not(&self, context: *mut ggml_context) -> NotAlive {
        #[cfg(debug_assertions)]
        if self.freed.iter().any(|freed| freed.as_ptr() == context) {
            return NotAlive::Freed;
        }
        let _ = context;
        NotAlive::Unknown
    }

    /// Keeps the addresses of a freed context for a while. Answers the one that was kept longest.
    #[cfg(debug_assertions)]
    fn keep_freed(&mut self, context: LiveContext) -> Option<LiveContext> {
        self.freed.push_back(context);
        if self.freed.len() > FREED { self.freed.pop_front() } else { None }
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new context, which [`free_context`] frees.
///
/// # Errors
/// [`NoAddressSpace`].
pub fn new_context(runtime: &'static Runtime, wanted: Wanted) -> Result<*mut ggml_context, NoAddressSpace> {
    let context = Arc::new(LiveContext::new(runtime, wanted)?);
    let pointer = context.as_ptr();
    let mistaken = registry().add(context);
    drop(mistaken);
    Ok(pointer)
}

/// Frees a context, the buffers of its tensors and its addresses.
///
/// # Errors
/// [`NotAlive`]; where ggml has freed its part, the rest is freed.
pub fn free_context(context: *mut ggml_context) -> Result<(), NotAlive> {
    let removed = {
        let mut registry = registry();
        registry.remove(context).ok_or_else(|| registry.why_not(context))?
    };
    let is_intact = removed.is_intact();
    // Whoever realizes it at this moment, against the rules, frees it a moment later.
    if let Ok(context) = Arc::try_unwrap(removed)
        && is_intact
    {
        retire(context);
    }
    if is_intact { Ok(()) } else { Err(NotAlive::FreedByGgml) }
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

/// Gives memory to the tensors of a context that wait for some.
///
/// # Errors
/// [`NotRealized`].
pub fn realize_context(context: *mut ggml_context) -> Result<(), NotRealized> {
    let found = {
        let registry = registry();
        registry.live.get(&context.addr()).cloned().ok_or_else(|| registry.why_not(context))
    };
    let live = found.and_then(|live| if live.is_intact() { Ok(live) } else { Err(NotAlive::FreedByGgml) });
    let live = live.map_err(NotRealized::NotAlive)?;
    match live.kind() {
        Kind::Deferred => Err(NotRealized::Deferred),
        Kind::Immediate => live.realize().map_err(NotRealized::Refused),
    }
}

/// Is it the address of a context freed lately, or of something in it? Only debug builds remember them.
#[cfg(debug_assertions)]
pub fn is_freed(address: usize) -> bool {
    let holds = |freed: &LiveContext| freed.as_ptr().addr() == address || freed.addresses().contains(&address);
    registry().freed.iter().any(holds)
}

/// Is it the address of a context freed lately? Only debug builds remember them.
#[cfg(not(debug_assertions))]
pub fn is_freed(_address: usize) -> bool {
    false
}

/// Are there contexts that give their tensors memory in a buffer type?
pub fn are_some_growing() -> bool {
    GROWING.load(Ordering::Acquire) > 0
}

/// The addresses of those contexts, in order. Only addresses: a context that no graph of ours reads may be freed
/// meanwhile, with all that belongs to it.
pub fn growing() -> Vec<Range<usize>> {
    if !are_some_growing() {
        return Vec::new();
    }
    registry().growing.values().filter(|context| context.is_intact()).map(|context| context.addresses()).collect()
}

/// The one of those contexts that the address lies in.
pub fn growing_at(address: usize) -> Option<Arc<LiveContext>> {
    let registry = registry();
    let (_, context) = registry.growing.range(..=address).next_back()?;
    context.addresses().contains(&address).then(|| Arc::clone(context))
}
