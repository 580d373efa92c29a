//! The faults of the original: each case passes on lastuse, and shows the fault on ggml's own allocator.

mod support;

use std::sync::OnceLock;

use lastuse_c_tests::Program;

/// What the program answers when it has seen the fault.
const FAULT_SHOWN: i32 = 42;

fn program() -> &'static Program {
    static PROGRAM: OnceLock<Program> = OnceLock::new();
    PROGRAM.get_or_init(|| support::program_with_both("faults", &["dummy_buffer", "plan_check"], &[]))
}

fn is_not_inherited(case: &str) {
    support::passes(program(), &[case, "lastuse"]);
    let upstream = support::expect(program().run(&[case, "upstream"]));
    let shown = upstream.code == Some(FAULT_SHOWN) || upstream.signal.is_some();
    assert!(shown, "upstream does not show the fault: {}", upstream.describe());
}

macro_rules! faults {
    ($($case:ident),* $(,)?) => {
        $(
            #[test]
            fn $case() {
                is_not_inherited(stringify!($case));
            }
        )*
    };
}

// The first is llama.cpp's issue 28448; the marker is from the follow-ups of 27301.
faults!(
    stale_plan_wiring,
    stale_plan_flags,
    stale_plan_view_root,
    stale_plan_op,
    stale_plan_in_place_broadcast,
    stale_plan_unread_leaf_grew,
    stale_plan_external_leaf,
    size_then_alloc,
    failed_reserve_then_alloc,
    wanted_size_after_failure,
    out_of_free_blocks,
    hash_set_full,
    only_zero_sizes,
    in_place_through_view,
    output_view,
    marker_before_producer,
);
