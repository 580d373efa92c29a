//! Checks whether calls of ggml's allocator reach lastuse.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ggml::linking::caller::caller;
use crate::ggml::linking::calls::{Calls, address_in, is_first_globally, is_needed};
use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::owner::defines_ggml;
use crate::ggml::live::lock::Lock;
use crate::ggml::platform::{Library, load_count};
use crate::report::reach::Binding;

/// True after a call that creates an allocator has reached lastuse. A program can look the function up by itself.
static WAS_REACHED: AtomicBool = AtomicBool::new(false);

/// Why no call reaches lastuse, where it cannot be found out.
const UNKNOWN: &str = "liblastuse has to come before libggml-base on the link line, or be preloaded";

/// Records that a call that creates an allocator has reached lastuse.
pub fn note_reached() {
    // Written once, so that threads that create allocators do not contend for it.
    if !WAS_REACHED.load(Ordering::Relaxed) {
        WAS_REACHED.store(true, Ordering::Relaxed);
    }
}

/// Returns `true` if calls of ggml's allocator reach lastuse.
pub fn is_reached() -> bool {
    why_not_reached().is_none()
}

/// Returns why no call of ggml's allocator reaches lastuse; `None` if some do.
pub fn why_not_reached() -> Option<String> {
    static LATEST: Lock<Option<(u64, Option<String>)>> = Lock::new(None);
    if WAS_REACHED.load(Ordering::Relaxed) {
        return None;
    }
    let loaded = load_count();
    let latest = LATEST.lock().clone();
    if let Some((_, why)) = latest.filter(|(count, _)| *count == loaded) {
        return why;
    }
    let (why, is_final) = find_why();
    if !is_final {
        return why;
    }
    *LATEST.lock() = Some((loaded, why.clone()));
    why
}

/// Returns why no call reaches lastuse, and whether that holds as long as no object is loaded.
fn find_why() -> (Option<String>, bool) {
    let Some(own) = own_now().filter(|own| !own.is_program()) else {
        // lastuse is linked into the program, whose calls the static linker has bound.
        return (None, true);
    };
    let all = Calls::all();
    let is_final = !all.iter().any(Calls::are_unbound);
    if all.iter().any(|calls| calls.binding(&own) != Binding::Not) {
        return (None, is_final);
    }
    match all.iter().find(|calls| calls.object != own) {
        Some(calls) => (Some(why_past(calls, &own)), is_final),
        None => ((!may_be_reached(&own)).then(|| UNKNOWN.to_owned()), false),
    }
}

/// Returns the object of lastuse with its position among those that are loaded now.
fn own_now() -> Option<Object> {
    Object::at(Object::own()?.addresses().start)
}

/// Returns why the calls of an object, none of which reaches lastuse, go past it.
fn why_past(calls: &Calls, own: &Object) -> String {
    let name = calls.object.name();
    if calls.are_direct() {
        return format!(
            "{name} calls its own functions without the dynamic linker, as libraries do that are linked with -Bsymbolic and \
             programs that contain ggml; link lastuse into it"
        );
    }
    if calls.object.position < own.position {
        return format!(
            "the calls of {name} were bound before liblastuse was loaded, or found ggml first: preload liblastuse, load it \
             first, or put it before libggml-base on the link line"
        );
    }
    if is_first_globally(own) == Some(true) {
        return format!(
            "{name} was loaded with RTLD_DEEPBIND, so that it finds its own functions before those of lastuse"
        );
    }
    format!(
        "liblastuse was loaded with RTLD_LOCAL, so that {name} does not find its functions; preload it, or load it with \
         RTLD_GLOBAL"
    )
}

/// Returns `true` if calls may reach lastuse although no object is known to call the allocator.
fn may_be_reached(own: &Object) -> bool {
    let of_caller = || address_in(Object::at(caller()?)?.open());
    match address_in(Library::global_scope()).or_else(of_caller) {
        Some(address) => {
            own.contains(address) || !Object::at(address.addr()).is_some_and(|object| defines_ggml(&object))
        }
        // Neither is bound: lastuse is a part of the plugin that has its ggml, or a library that plugins are linked
        // with.
        None => defines_ggml(own) || is_needed(own),
    }
}

/// Returns which calls of a ggml's allocator do not reach lastuse, where others do: then none may. An allocator of
/// lastuse would come to code that knows only ggml's.
pub fn bound_in_part(ggml: &Object) -> Option<String> {
    let own = own_now()?;
    let of_ggml = Calls::all().into_iter().filter(|calls| calls.object != own && calls.call(ggml));
    let mut in_part = of_ggml.filter_map(|calls| match calls.binding(&own) {
        Binding::InPart(functions) => Some((calls, functions)),
        Binding::Whole | Binding::Not => None,
    });
    in_part.next().map(|(calls, functions)| {
        let name = calls.object.name();
        if calls.object.position < own.position {
            return format!("{name} was used before liblastuse was loaded, and only its later calls reach lastuse");
        }
        let functions = functions.join(", ");
        format!("{name} has its calls of {functions} inlined, as clang does with -flto, and only others reach lastuse")
    })
}
