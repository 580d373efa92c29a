//! Tests of the table of operations.

use super::{Effect, InPlace, Layout, Op, Slots, Strides, TileKind};

#[test]
fn operations_are_found_by_their_names() {
    assert!(Op::KNOWN.is_sorted_by(|one, other| one.name() < other.name()), "they are searched by halves");
    assert!(Op::KNOWN.iter().all(|&op| Op::named(op.name()) == op));
    assert_eq!(Op::named("INVENTED_TOMORROW"), Op::Unknown);
    assert_eq!(size_of::<Op>(), 1);
}

#[test]
fn of_an_unknown_operation_the_worst_is_assumed() {
    let op = Op::Unknown;
    assert_eq!((op.effect(), op.in_place(false)), (Effect::Sources(Slots::ALL), InPlace::Never));
    assert_eq!((op.writes(), op.reads(0)), (Strides::OnlyItsOwn, Strides::Contiguous));
    assert_eq!((op.copies(), op.tiles()), (None, TileKind::Other));
    assert_eq!(op.in_place(true), InPlace::Listed(Slots::ALL), "ggml's list is right");
}

#[test]
fn optimizers_write_weights_and_moments_but_not_gradients_and_settings() {
    let written = |op: Op, sources: usize| -> Vec<usize> {
        (0..sources).filter(|&position| op.effect().writes_source(position)).collect()
    };
    assert_eq!(written(Op::OptStepAdamw, 5), [0, 2, 3]);
    assert_eq!(written(Op::OptStepSgd, 3), [0]);
    assert_eq!(written(Op::MulMat, 2), [0; 0]);
    assert_eq!(written(Op::Unknown, 10).len(), 10);
}

#[test]
fn lists_grow_with_the_version_of_ggml() {
    let listed = |op: Op| [None, Some([0, 9, 4]), Some([0, 9, 5]), Some([0, 26, 0])].map(|it| op.is_listed_in(it));
    assert_eq!(listed(Op::Add), [true; 4]);
    assert_eq!(listed(Op::AddId), [false, false, true, true]);
    assert_eq!(listed(Op::Clamp), [false, false, false, true]);
    assert_eq!(listed(Op::Norm), [false; 4]);
}

#[test]
fn older_kernels_copy_one_source_before_they_read_the_other() {
    let slots = |op: Op| [None, Some([0, 9, 5]), Some([0, 26, 0])].map(|version| op.in_place_in(true, version));
    let [first, second, all] = [Slots::FIRST, Slots::SECOND, Slots::ALL].map(InPlace::Listed);
    assert_eq!(slots(Op::SoftMaxBack), [first, first, all]);
    assert_eq!(slots(Op::RmsNormBack), [second, second, all]);
    assert_eq!(slots(Op::AddId), [first; 3]);
}

#[test]
fn what_computes_nothing_or_joins_sources_is_never_in_place() {
    for op in [Op::None, Op::View, Op::Reshape, Op::Concat] {
        assert_eq!([false, true].map(|listed| op.in_place(listed)), [InPlace::Never; 2], "{}", op.name());
    }
}

#[test]
fn needed_kind_follows_from_the_strides() {
    const OWN: Layout = Layout { element: 0, ne: [8, 3, 2, 1], nb: [4, 32, 96, 192] };
    let with = |nb: [u64; 4]| Layout { nb, ..OWN };
    let layouts = [
        (with([4, 32, 96, 7]), Strides::Contiguous),
        (with([4, 40, 120, 240]), Strides::PaddedRows),
        (with([4, 64, 32, 192]), Strides::Rows),
        (with([12, 4, 96, 192]), Strides::Anything),
    ];
    for (layout, needed) in layouts {
        let all = [Strides::OnlyItsOwn, Strides::Contiguous, Strides::PaddedRows, Strides::Rows, Strides::Anything];
        for writes in all {
            assert_eq!(writes.allows(&OWN, &layout), writes >= needed, "{writes:?}, {layout:?}");
        }
    }
    assert!(!Strides::Anything.allows(&OWN, &Layout { element: 1, ..OWN }));
    assert!(!Strides::Anything.allows(&OWN, &Layout { ne: [8, 2, 3, 1], ..OWN }));
}
