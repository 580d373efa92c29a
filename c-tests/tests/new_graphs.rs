//! The functions that new programs make graphs with: for both versions of ggml, with lastuse's allocator and, where lastuse
//! is switched off, with ggml's own.

mod support;

/// Modules for versions of ggml; in each one test a case, on lastuse and switched off. Those behind `only_planned` ask for
/// what only lastuse's plans do.
macro_rules! cases {
    ($name:ident: $($case:ident),* ; only_planned: $($planned:ident),* $(,)?) => {
        mod $name {
            use super::{Package, support};

            mod ggml_0_26 {
                use super::{Package, support};
                $(#[test] fn $case() { crate::both_ways(stringify!($name), Package::LlamaCpp, stringify!($case)); })*
                $(#[test] fn $planned() { crate::served(stringify!($name), Package::LlamaCpp, stringify!($planned)); })*
                #[test] fn ggml_is_this_one() { assert_eq!(support::ggml(Package::LlamaCpp).version.get(..4), Some("0.26")); }
            }

            mod ggml_0_9_5 {
                use super::{Package, support};
                $(#[test] fn $case() { crate::both_ways(stringify!($name), Package::WhisperCpp, stringify!($case)); })*
                $(#[test] fn $planned() { crate::served(stringify!($name), Package::WhisperCpp, stringify!($planned)); })*
                #[test] fn ggml_is_this_one() { assert_eq!(support::ggml(Package::WhisperCpp).version, "0.9.5"); }
            }
        }
    };
}

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Mutex, PoisonError};

use lastuse_c_tests::{Linked, Program};
use lastuse_vendor::Package;

static PROGRAMS: Mutex<Option<HashMap<(String, bool), Program>>> = Mutex::new(None);

/// The program with lastuse before the shared ggml, so that it can be switched off.
fn program(name: &str, package: Package) -> Program {
    let ggml = support::ggml(package);
    let key = (name.to_owned(), package == Package::LlamaCpp);
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let built = programs.get_or_insert_default().entry(key).or_insert_with(|| {
        let lastuse = support::checked();
        let sources = support::sources(name, &["apart", "attention", "dummy_buffer"]);
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let name = format!("{name}-{}", ggml.version);
        support::expect(Program::build(&name, &sources, &ggml, Linked::LastuseShared(&lastuse), &[]))
    });
    built.clone()
}

/// The case passes on lastuse.
fn served(name: &str, package: Package, case: &str) {
    support::passes(&program(name, package), &[case]);
}

/// The case passes on lastuse and on ggml's own allocator.
fn both_ways(name: &str, package: Package, case: &str) {
    served(name, package, case);
    let outcome = support::expect(program(name, package).run_with(&[case], &[("LASTUSE", OsStr::new("off"))]));
    assert_eq!(outcome.code, Some(0), "LASTUSE=off {case}: {}", outcome.describe());
}

cases!(dependency:
    caches_are_read_after_they_are_written, without_it_the_order_is_wrong, two_backends_that_share_memory,
    backends_apart_copy_nothing_for_it, caches_on_another_backend, gradients_pass_through, any_tensor_has_one,
    after_itself_is_refused;
    only_planned:
);

cases!(outputs:
    caches_are_written_without_copies, rows_take_no_memory_of_their_own, scheduler, scheduler_with_backends_apart,
    what_does_not_fit_is_refused, what_is_no_result_is_refused, sources_in_the_way_are_refused,
    one_source_may_lie_there, halves_of_a_planned_tensor, rows_with_gaps, readers_in_order_are_planned,
    readers_that_can_read_gaps_are_planned;
    only_planned: readers_in_no_order_are_refused, overwriting_what_is_still_read_is_refused, older_views_are_refused,
    readers_that_cannot_read_gaps_are_refused, later_graphs_are_checked_too, gaps_elsewhere_are_refused,
);

cases!(moved_outputs:
    ;
    only_planned: moves_are_seen_where_sizes_go_by_layout, moves_are_seen_where_sizes_depend_on_more,
);

cases!(explain:
    only_lastuse_explains;
    only_planned: peak_is_told, allocated_graph_is_told_as_before, nothing_is_allocated_or_planned,
    buffers_are_those_of_the_latest_reservation, graph_that_is_too_large_is_refused, empty_graph_has_nothing_to_tell,
);
