//! The ggmls of this process. There may be several: two packages of an interpreter, or two plugins, each with its own. Each
//! is known by the object (program or library) that defines its functions, is served by itself, and stays loaded.

use std::ops::Range;
use std::sync::{Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::ggml::{Ggml, NoGgml, Server};
use crate::ggml::bindings::ggml_backend_buffer_type;
use crate::ggml::linking::caller::caller;
use crate::ggml::linking::loaded::{Library, Object, load_count};
use crate::ggml::linking::owner::{bound_to, defines_ggml, owner_of_code};
use crate::ggml::observe::capture::captures;
use crate::ggml::process::current::{log_error, now_for};
use crate::ggml::process::decide::{Found, decide};
use crate::ggml::process::settings::settings;

/// A ggml that was found, and decided on when it is first needed.
#[derive(Debug)]
pub struct Entry {
    object: Object,
    decided: OnceLock<Result<Ggml, String>>,
}

/// What was found so far. Nothing leaves it.
struct Registry {
    ggmls: Vec<&'static Entry>,
    /// Objects whose code and data belong to a ggml.
    owners: Vec<(Range<usize>, &'static Entry)>,
    /// How many objects the process had loaded when all were last searched for ggmls.
    searched: Option<u64>,
}

static REGISTRY: RwLock<Registry> = RwLock::new(Registry { ggmls: Vec::new(), owners: Vec::new(), searched: None });

fn registry() -> RwLockReadGuard<'static, Registry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn registry_to_write() -> RwLockWriteGuard<'static, Registry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// # Errors
    /// [`NoGgml::Unusable`].
    fn decided(&'static self) -> Result<&'static Ggml, NoGgml> {
        let decided = self.decided.get().unwrap_or_else(|| {
            // What takes the dynamic linker's lock comes before ours: another thread may hold it and call us.
            let found = Found::new(&self.object, all().len() > 1);
            self.decided.get_or_init(|| decide(found))
        });
        let ggml = decided.as_ref().map_err(|why| NoGgml::Unusable(why))?;
        now_for(ggml.functions.as_ref());
        if let Server::Lastuse(_) = ggml.server {
            read_environment();
        }
        Ok(ggml)
    }
}

/// What the environment says wrongly is told in the log of the first ggml that lastuse serves.
fn read_environment() {
    static READ: Once = Once::new();
    READ.call_once(|| {
        settings();
        captures().follow_environment(log_error);
    });
}

/// The ggml of a buffer type, or the caller's where it does not tell. Nothing of it is called: it lies in the library that it
/// comes from, or begins with functions of that.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `buft` is null, or a live buffer type.
pub unsafe fn ggml_of_type(buft: *const ggml_backend_buffer_type) -> Result<&'static Ggml, NoGgml> {
    let lies_in = find_owner(&[buft.addr()]);
    // SAFETY: the caller's promise.
    let owner = lies_in.or_else(|| find_owner(&unsafe { first_words(buft) }?));
    owner.map_or_else(ggml_of_caller, Entry::decided)
}

/// The ggml of a buffer or a backend, or the caller's where it does not tell. Nothing of it is called: it begins with pointers
/// into the library that it comes from.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `object` is null, or a live buffer or backend.
pub unsafe fn ggml_of_object<T>(object: *const T) -> Result<&'static Ggml, NoGgml> {
    // SAFETY: the caller's promise.
    unsafe { owner_of_object(object) }.map_or_else(ggml_of_caller, Entry::decided)
}

/// The ggml of the first of these buffers that tells; otherwise the caller's.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// The buffers are null, or live buffers.
pub unsafe fn ggml_of_buffers<T>(buffers: impl Iterator<Item = *const T>) -> Result<&'static Ggml, NoGgml> {
    match all().as_slice() {
        // Buffers are known only where the layout of tensors is.
        several @ [_, _, ..] if several.iter().all(|entry| entry.decided().is_ok_and(|it| it.known().is_some())) => {
            // SAFETY: the caller's promise.
            let mut owners = buffers.filter_map(|buffer| unsafe { owner_of_object(buffer) });
            owners.next().map_or_else(ggml_of_caller, Entry::decided)
        }
        _ => ggml_of_caller(),
    }
}

/// The ggml that the caller of lastuse is bound to, or the only one there is.
///
/// # Errors
/// [`NoGgml`].
pub fn ggml_of_caller() -> Result<&'static Ggml, NoGgml> {
    match all().as_slice() {
        [] => Err(NoGgml::NotLoaded),
        [only] => only.decided(),
        _ => entry_of_caller().ok_or(NoGgml::Several)?.decided(),
    }
}

/// The ggml that a call of ggml's allocator would have reached without lastuse, where the stack tells it.
pub fn ggml_behind_call() -> Option<&'static Ggml> {
    entry_of_caller()?.decided().ok()
}

/// All of this process that can be served.
pub fn all_ggmls() -> Vec<&'static Ggml> {
    all().into_iter().filter_map(|entry| entry.decided().ok()).collect()
}

fn entry_of_caller() -> Option<&'static Entry> {
    // What is linked with lastuse statically is of the same ggml.
    let own = Object::own().filter(|own| defines_ggml(own)).cloned();
    own.or_else(|| bound_to(caller()?)).map(|object| entry(&object))
}

/// # Safety
/// `object` is null, or a live buffer or backend.
unsafe fn owner_of_object<T>(object: *const T) -> Option<&'static Entry> {
    // SAFETY: the caller's promise.
    find_owner(&unsafe { first_words(object) }?)
}

/// The first two words of an object; `None` for null. The first of a buffer may be zero, and further ones differ by version.
///
/// # Safety
/// `object` is null, or has as many bytes.
unsafe fn first_words<T>(object: *const T) -> Option<[usize; 2]> {
    // SAFETY: the caller's promise.
    (!object.is_null()).then(|| unsafe { object.cast::<[usize; 2]>().read() })
}

/// The ggml that code or data at the first of these addresses that tells belongs to.
fn find_owner(addresses: &[usize]) -> Option<&'static Entry> {
    let mut addresses = addresses.iter().copied().filter(|&address| address != 0);
    addresses.find_map(|address| known_owner_of(address).or_else(|| find_owner_of(address)))
}

/// As it was found before.
fn known_owner_of(address: usize) -> Option<&'static Entry> {
    registry().owners.iter().find(|(addresses, _)| addresses.contains(&address)).map(|(_, entry)| *entry)
}

fn find_owner_of(address: usize) -> Option<&'static Entry> {
    let object = Object::at(address)?;
    let owner = entry(&owner_of_code(&object)?);
    object.open().map(Library::keep)?;
    registry_to_write().owners.push((object.addresses(), owner));
    Some(owner)
}

/// All that are loaded.
fn all() -> Vec<&'static Entry> {
    let loaded = load_count();
    {
        let registry = registry();
        if registry.searched == Some(loaded) {
            return registry.ggmls.clone();
        }
    }
    Object::all().iter().filter(|object| defines_ggml(object)).for_each(|object| _ = entry(object));
    let mut registry = registry_to_write();
    registry.searched = Some(loaded);
    registry.ggmls.clone()
}

/// The ggml that an object defines.
fn entry(object: &Object) -> &'static Entry {
    let known = |registry: &Registry| registry.ggmls.iter().copied().find(|known| known.object == *object);
    let found = known(&registry());
    found.unwrap_or_else(|| {
        // Opened without our lock, and closed without it when another thread was quicker.
        let library = object.open();
        let mut registry = registry_to_write();
        known(&registry).unwrap_or_else(|| {
            if let Some(library) = library {
                library.keep();
            }
            let entry: &'static Entry = Box::leak(Box::new(Entry { object: object.clone(), decided: OnceLock::new() }));
            registry.ggmls.push(entry);
            entry
        })
    })
}
