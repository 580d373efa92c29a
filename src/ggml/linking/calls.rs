//! How the calls of the allocator's functions in the objects of the process are bound: to lastuse, or past it.

use std::ffi::{CStr, c_void};

use crate::ggml::linking::loaded::Object;
use crate::ggml::linking::owner::defines_ggml;
use crate::ggml::platform::{BoundCall, Library, LoadedObject, for_each_object};
use crate::report::reach::{ALLOCATOR, Binding, SCHEDULER};

/// The name that those of [`ALLOCATOR`] begin with.
const PREFIX: &[u8] = b"ggml_gallocr_";

/// Where calls of a function go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// To the code at this address.
    Bound(usize),
    /// To the function that the linker finds at the first call.
    NotBound,
}

/// The calls of the allocator's functions in an object that has some, or the functions.
#[derive(Debug)]
pub struct Calls {
    pub object: Object,
    /// For each of [`ALLOCATOR`]; `None` if the dynamic linker binds no call of it.
    targets: [Option<Target>; ALLOCATOR.len()],
    /// True if ggml's scheduler is in the object.
    has_scheduler: bool,
}

impl Calls {
    /// Returns those of all objects that are loaded now, in load order.
    pub fn all() -> Vec<Self> {
        let mut found = Vec::new();
        for_each_object(|object| found.extend(Found::of(object)));
        let with_object = |found: Found| {
            let object = Object::at(found.address)?;
            let target = |(target, own): (usize, Option<usize>)| match own {
                Some(own) if own == target => Target::Bound(target),
                _ if object.addresses().contains(&target) => Target::NotBound,
                _ => Target::Bound(target),
            };
            let targets = found.targets.map(|found| found.map(target));
            Some(Self { object, targets, has_scheduler: found.has_scheduler })
        };
        found.into_iter().filter_map(with_object).collect()
    }

    /// Returns how they are bound to lastuse, whose code is in `own`.
    pub fn binding(&self, own: &Object) -> Binding {
        let at = |name: &str| ALLOCATOR.iter().position(|known| *known == name).and_then(|at| self.targets[at]);
        let reaches = |name: &'static str| at(name).map(|target| self.reaches(own, target));
        Binding::new(reaches, self.has_scheduler && self.object != *own)
    }

    /// Returns `true` if the dynamic linker binds no call.
    pub fn are_direct(&self) -> bool {
        self.targets.iter().all(Option::is_none)
    }

    /// Returns `true` if the linker has still to bind calls.
    pub fn are_unbound(&self) -> bool {
        self.targets.contains(&Some(Target::NotBound))
    }

    /// Returns `true` if a call is bound to the code of `object`, or made there without the dynamic linker.
    pub fn call(&self, object: &Object) -> bool {
        let is_there = |target: &Target| match target {
            Target::Bound(address) => object.addresses().contains(address),
            Target::NotBound => false,
        };
        self.object == *object || self.targets.iter().flatten().any(is_there)
    }

    /// Returns `true` if the linker will find lastuse first when it binds a call.
    fn will_reach(&self, own: &Object) -> bool {
        let is_linked = || address_in(self.object.open()).is_some_and(|address| own.contains(address));
        // Objects loaded later may have been loaded for an object that is linked with lastuse.
        let is_for_another = || self.object.position > own.position && is_needed(own);
        is_first_globally(own).unwrap_or_else(|| is_linked() || is_for_another())
    }

    fn reaches(&self, own: &Object, target: Target) -> bool {
        let Target::Bound(address) = target else {
            // All calls of an object that was loaded after lastuse are bound alike.
            let is_past = |target: &Target| *target != Target::NotBound && !self.reaches(own, *target);
            let are_past = self.object.position > own.position && self.targets.iter().flatten().any(is_past);
            return !are_past && self.will_reach(own);
        };
        // A library without a ggml that is interposed before the allocator forwards calls to the next one: lastuse, unless
        // that was loaded after ggml, for calls that name it.
        let is_other = || Object::at(address).is_some_and(|object| object != self.object && !defines_ggml(&object));
        let is_between = || is_other() && is_first_globally(own) != Some(false);
        own.addresses().contains(&address) || is_between()
    }
}

/// Returns `true` if lastuse comes first in the global scope; `None` if the allocator is not in it.
pub fn is_first_globally(own: &Object) -> Option<bool> {
    let address = address_in(Library::global_scope())?;
    Some(own.contains(address) || Object::at(address.addr()).is_some_and(|it| !defines_ggml(&it)))
}

/// Returns `true` if the dynamic linker has bound an object other than lastuse itself to lastuse.
pub fn is_needed(own: &Object) -> bool {
    let others = Object::all().into_iter().filter(|object| object != own);
    others.filter_map(|object| address_in(object.open())).any(|address| own.contains(address))
}

/// Returns the address that a look-up of the allocator in a library finds.
pub fn address_in(library: Option<Library>) -> Option<*const c_void> {
    library.map(|library| library.symbol(c"ggml_gallocr_new_n")).filter(|address| !address.is_null())
}

/// The contents of an object's tables.
struct Found {
    /// An address in the object.
    address: usize,
    /// For each of [`ALLOCATOR`] that is called through the linker: where calls go, and the object's own definition.
    targets: [Option<(usize, Option<usize>)>; ALLOCATOR.len()],
    has_scheduler: bool,
}

impl Found {
    /// Returns what the tables of an object say; `None` if it neither calls nor has the allocator.
    fn of(object: &LoadedObject<'_>) -> Option<Self> {
        let mut targets = [None; ALLOCATOR.len()];
        object.bound_calls(PREFIX, |call: BoundCall<'_>| {
            let at = ALLOCATOR.iter().position(|name| name.as_bytes() == call.name.to_bytes());
            if let Some(at) = at {
                targets[at] = Some((call.target, call.own));
            }
        });
        let defines = |name: &CStr| object.exports(name) == Some(true);
        let defines_allocator = defines(c"ggml_gallocr_new_n");
        let has_scheduler = defines_allocator && defines(SCHEDULER);
        let is_needed = defines_allocator || targets.iter().any(Option::is_some);
        is_needed.then(|| Self { address: object.addresses().start, targets, has_scheduler })
    }
}
