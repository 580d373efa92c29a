//! Whether the calls of ggml's allocator in a program or a library can reach a replacement: only those can that the
//! dynamic linker binds, and each of them has a relocation with the name of the function.

use std::ffi::CStr;

/// The functions that make an allocator or take one: their calls have to reach the same code. The other functions of
/// `ggml-alloc.h` exchange only what ggml and lastuse lay out alike.
pub const ALLOCATOR: [&str; 8] = [
    "ggml_gallocr_new_n",
    "ggml_gallocr_reserve_n",
    "ggml_gallocr_alloc_graph",
    "ggml_gallocr_free",
    "ggml_gallocr_get_buffer_size",
    "ggml_gallocr_new",
    "ggml_gallocr_reserve",
    "ggml_gallocr_reserve_n_size",
];

/// How many of [`ALLOCATOR`], from the first, ggml's scheduler calls in every version.
const OF_SCHEDULER: usize = 5;

/// A function that every library with ggml's scheduler exports.
pub const SCHEDULER: &CStr = c"ggml_backend_sched_new";

/// How the calls of the allocator in a program or a library are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The dynamic linker binds each to the replacement.
    Whole,
    /// Those of these functions do not reach it.
    InPart(Vec<&'static str>),
    /// None reaches it.
    Not,
}

impl Binding {
    /// Returns how calls are bound, by whether those of a function reach the replacement: `None` where the dynamic
    /// linker binds no call of it. For a function that the scheduler in the same object calls (`has_scheduler`), the
    /// compiler has then bound the calls itself, or put the function in their place.
    pub fn new(reaches: impl Fn(&'static str) -> Option<bool>, has_scheduler: bool) -> Self {
        let reached = |(at, name): (usize, &'static str)| {
            reaches(name).or((has_scheduler && at < OF_SCHEDULER).then_some(false)).map(|reached| (name, reached))
        };
        let known: Vec<(&'static str, bool)> = ALLOCATOR.into_iter().enumerate().filter_map(reached).collect();
        let others: Vec<&'static str> = known.iter().filter(|(_, reached)| !reached).map(|(name, _)| *name).collect();
        match others.len() {
            0 if !known.is_empty() => Self::Whole,
            some if some < known.len() => Self::InPart(others),
            _ => Self::Not,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_without_a_relocation_are_the_schedulers_own() {
        let but = |missing: &'static str| Binding::new(move |name| (name != missing).then_some(true), true);
        assert_eq!(but(""), Binding::Whole);
        assert_eq!(but("ggml_gallocr_reserve_n"), Binding::InPart(vec!["ggml_gallocr_reserve_n"]));
        // Not every scheduler calls these.
        assert_eq!([but("ggml_gallocr_new"), but("ggml_gallocr_reserve_n_size")], [Binding::Whole, Binding::Whole]);
        assert_eq!(Binding::new(|_| None, true), Binding::Not);
    }

    #[test]
    fn programs_call_what_they_need() {
        let only = |called: &'static str| Binding::new(move |name| (name == called).then_some(true), false);
        assert_eq!(only("ggml_gallocr_new"), Binding::Whole);
        assert_eq!(Binding::new(|_| None, false), Binding::Not);
        let mixed = Binding::new(|name| Some(name == "ggml_gallocr_new"), false);
        assert!(matches!(mixed, Binding::InPart(others) if others.len() == ALLOCATOR.len() - 1));
    }
}
