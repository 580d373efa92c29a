//! Each layout is kept once, and distinguished from all others.

use crate::graph::{Graph, Layout, Tensor, TensorId};

/// More layouts than the first capacity, many of them different in one number only.
fn layouts() -> Vec<Layout> {
    let plain = Layout { element: 1, ne: [64, 32, 1, 1], nb: [4, 256, 8192, 8192] };
    let mut layouts = vec![plain, Layout { element: 2, ..plain }];
    for at in 0..4 {
        for more in [1, 1 << 10, 1 << 32, 1 << 50] {
            let mut other = plain;
            other.ne[at] += more;
            layouts.push(other);
            let mut other = plain;
            other.nb[at] += more.cast_unsigned();
            layouts.push(other);
        }
    }
    layouts.extend((2..2000).map(|extent| Layout { ne: [extent, extent % 7, 1, 1], ..plain }));
    layouts
}

#[test]
fn every_tensor_has_its_own_layout() {
    let layouts = layouts();
    let mut graph = Graph::with_capacity(0);
    // First in new memory, then in that of the larger graph before.
    for count in [layouts.len(), 40] {
        let layouts = || layouts[..count].iter().chain(layouts[..count].iter().rev());
        graph.reset(2 * count);
        layouts().for_each(|layout| _ = graph.add(Tensor::new(), layout.by_ref()));
        assert_eq!((graph.tensors().len(), graph.distinct_layouts()), (2 * count, count));
        for (id, layout) in (0..).zip(layouts()) {
            assert_eq!(graph.layout(id), layout);
        }
    }
}

#[test]
fn tensors_have_the_same_layout_if_layouts_are_equal() {
    let layouts = layouts();
    let mut graph = Graph::with_capacity(0);
    for _ in 0..2 {
        graph.extend(layouts.iter().map(|_| Tensor::new()));
        graph.extend_layouts(&layouts.iter().collect::<Vec<_>>(), |layout| layout.by_ref());
    }
    let count = TensorId::try_from(layouts.len()).expect("few");
    for id in 0..count {
        assert!(graph.same_layout(id, id + count));
        assert!(!graph.same_layout(id, (id + 1) % count));
    }
    for id in 1..32 {
        assert!(!graph.same_layout(0, id));
    }
}
