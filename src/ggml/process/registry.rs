//! The ggmls of this process. There may be several: two packages of an interpreter, or two plugins, each with its own.
//! Each is identified by the object (program or library) that defines its functions, is served independently, and stays
//! loaded.

use std::ops::Range;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::ggml::{Ggml, LinkedGgml, NoGgml, Server, decide};
use crate::ggml::bindings::ggml_backend_buffer_type;
use crate::ggml::linking::caller::{caller, callers};
use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::owner::{bound_to, defines_ggml, owner_of_code};
use crate::ggml::log::set_current_ggml;
use crate::ggml::platform::{Library, load_count};
use crate::ggml::process::settings::read_environment;

/// How many functions may be between lastuse and the code that is bound to a ggml.
const MOST_BETWEEN: usize = 16;

/// A loaded ggml, for which [`decide`] runs on first use.
#[derive(Debug)]
pub struct LoadedGgml {
    object: Object,
    decided: OnceLock<Result<Ggml, String>>,
}

/// The ggmls found so far. Nothing is ever removed.
struct GgmlRegistry {
    ggmls: Vec<&'static LoadedGgml>,
    /// Objects whose code and data belong to a ggml.
    owners: Vec<(Range<usize>, &'static LoadedGgml)>,
    /// The [`load_count`] when all objects were last searched for ggmls.
    searched: Option<u64>,
}

static REGISTRY: RwLock<GgmlRegistry> =
    RwLock::new(GgmlRegistry { ggmls: Vec::new(), owners: Vec::new(), searched: None });

fn registry() -> RwLockReadGuard<'static, GgmlRegistry> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner)
}

fn registry_to_write() -> RwLockWriteGuard<'static, GgmlRegistry> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner)
}

impl LoadedGgml {
    /// # Errors
    /// [`NoGgml::Unusable`].
    fn decided(&'static self) -> Result<&'static Ggml, NoGgml> {
        let decided = self.decided.get().unwrap_or_else(|| {
            // The dynamic linker's lock is taken before ours: another thread may hold it and call us.
            let linked = LinkedGgml::new(&self.object, all().len() > 1);
            self.decided.get_or_init(|| decide(linked))
        });
        let ggml = decided.as_ref().map_err(|why| NoGgml::Unusable(why))?;
        set_current_ggml(ggml.functions.as_ref());
        if let Server::Lastuse(_) = ggml.server {
            read_environment();
        }
        Ok(ggml)
    }
}

/// Returns the ggml of a buffer type, or the caller's if that is unknown. ggml is not called: a buffer type lies in the
/// library that defines it, or begins with pointers to its functions.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `buft` is null, or a live buffer type.
pub unsafe fn ggml_of_type(buft: *const ggml_backend_buffer_type) -> Result<&'static Ggml, NoGgml> {
    let by_address = find_owner(&[buft.addr()]);
    // SAFETY: null or a live buffer type, as the caller guarantees.
    let owner = by_address.or_else(|| find_owner(&unsafe { first_words(buft) }?));
    owner.map_or_else(ggml_of_caller, LoadedGgml::decided)
}

/// Returns the ggml of a buffer or a backend, or the caller's if that is unknown. ggml is not called: these objects
/// begin with pointers into the library that defines them.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// `object` is null, or a live buffer or backend.
pub unsafe fn ggml_of_object<T>(object: *const T) -> Result<&'static Ggml, NoGgml> {
    // SAFETY: null or a live buffer or backend, as the caller guarantees.
    unsafe { owner_of_object(object) }.map_or_else(ggml_of_caller, LoadedGgml::decided)
}

/// Returns the ggml of the first of these buffers whose owner is known; otherwise the caller's.
///
/// # Errors
/// [`NoGgml`].
///
/// # Safety
/// The buffers are null, or live buffers.
pub unsafe fn ggml_of_buffers<T>(buffers: impl Iterator<Item = *const T>) -> Result<&'static Ggml, NoGgml> {
    match all().as_slice() {
        // The buffers of tensors are known only if the layout of tensors is.
        several @ [_, _, ..]
            if several.iter().all(|loaded| loaded.decided().is_ok_and(|it| it.runtime().is_some())) =>
        {
            // SAFETY: null or a live buffer, as the caller guarantees.
            let mut owners = buffers.filter_map(|buffer| unsafe { owner_of_object(buffer) });
            owners.next().map_or_else(ggml_of_caller, LoadedGgml::decided)
        }
        _ => ggml_of_caller(),
    }
}

/// Returns the ggml that the caller of lastuse is bound to, or the only one that is loaded.
///
/// # Errors
/// [`NoGgml`].
pub fn ggml_of_caller() -> Result<&'static Ggml, NoGgml> {
    match all().as_slice() {
        [] => Err(NoGgml::NotLoaded),
        [only] => only.decided(),
        _ => loaded_of_caller().ok_or(NoGgml::Several)?.decided(),
    }
}

/// Returns the ggml that a call of ggml's allocator would have reached without lastuse, if the stack can be unwound.
pub fn ggml_behind_call() -> Option<&'static Ggml> {
    loaded_of_caller()?.decided().ok()
}

/// Returns all ggmls of this process that can be served.
pub fn all_ggmls() -> Vec<&'static Ggml> {
    all().into_iter().filter_map(|loaded| loaded.decided().ok()).collect()
}

/// Returns the ggmls of this process for which it is decided which code serves them.
pub fn decided_ggmls() -> Vec<&'static Ggml> {
    let decided = |loaded: &&'static LoadedGgml| loaded.decided.get()?.as_ref().ok();
    registry().ggmls.iter().filter_map(decided).collect()
}

fn loaded_of_caller() -> Option<&'static LoadedGgml> {
    // Code that lastuse is linked into statically uses the same ggml.
    let own = Object::own().filter(|own| defines_ggml(own)).cloned();
    // Between may be a library that is bound to none, such as the guard.
    let of_callers = || bound_to(caller()?).or_else(|| callers(MOST_BETWEEN).into_iter().find_map(bound_to));
    own.or_else(of_callers).map(|object| registered(&object))
}

/// # Safety
/// `object` is null, or a live buffer or backend.
unsafe fn owner_of_object<T>(object: *const T) -> Option<&'static LoadedGgml> {
    // SAFETY: null or a live buffer or backend, which begins with two words or more.
    find_owner(&unsafe { first_words(object) }?)
}

/// Returns the first two words of an object; `None` for null. The first word of a buffer may be zero, and later ones
/// differ by version.
///
/// # Safety
/// `object` is null, or has at least two words.
unsafe fn first_words<T>(object: *const T) -> Option<[usize; 2]> {
    // SAFETY: not null, so it has at least two words, as the caller guarantees.
    (!object.is_null()).then(|| unsafe { object.cast::<[usize; 2]>().read() })
}

/// Returns the ggml of the code or data at the first of these addresses whose owner is known.
fn find_owner(addresses: &[usize]) -> Option<&'static LoadedGgml> {
    let mut addresses = addresses.iter().copied().filter(|&address| address != 0);
    addresses.find_map(|address| known_owner_of(address).or_else(|| find_owner_of(address)))
}

/// Returns the owner of an address in an object that was searched before.
fn known_owner_of(address: usize) -> Option<&'static LoadedGgml> {
    registry().owners.iter().find(|(addresses, _)| addresses.contains(&address)).map(|(_, owner)| *owner)
}

fn find_owner_of(address: usize) -> Option<&'static LoadedGgml> {
    let object = Object::at(address)?;
    let owner = registered(&owner_of_code(&object)?);
    object.open().map(Library::keep)?;
    registry_to_write().owners.push((object.addresses(), owner));
    Some(owner)
}

/// Returns all ggmls that are loaded, searching again if objects were loaded since the last search.
fn all() -> Vec<&'static LoadedGgml> {
    let loaded = load_count();
    {
        let registry = registry();
        if registry.searched == Some(loaded) {
            return registry.ggmls.clone();
        }
    }
    Object::all().iter().filter(|object| defines_ggml(object)).for_each(|object| _ = registered(object));
    let mut registry = registry_to_write();
    registry.searched = Some(loaded);
    registry.ggmls.clone()
}

/// Returns the ggml that an object defines, registering it if it is new.
fn registered(object: &Object) -> &'static LoadedGgml {
    let known = |registry: &GgmlRegistry| registry.ggmls.iter().copied().find(|known| known.object == *object);
    let found = known(&registry());
    found.unwrap_or_else(|| {
        // Opened without our lock, and closed without it if another thread was faster.
        let library = object.open();
        let mut registry = registry_to_write();
        known(&registry).unwrap_or_else(|| {
            if let Some(library) = library {
                library.keep();
            }
            let loaded = LoadedGgml { object: object.clone(), decided: OnceLock::new() };
            let loaded: &'static LoadedGgml = Box::leak(Box::new(loaded));
            registry.ggmls.push(loaded);
            loaded
        })
    })
}
