//! The floating-point operations of a node, by its operation and shapes.
//!
//! For comparing graphs, not for predicting times.

use crate::graph::{Graph, Layout, TensorId, Work};

/// Returns the floating-point operations of a node.
pub fn work_of(graph: &Graph, node: TensorId) -> u64 {
    let result = graph.layout(node);
    let source = |slot: usize| graph.sources(node).get(slot).map_or(result, |&source| graph.layout(source));
    let product = |factors: &[u64]| factors.iter().fold(1, |all: u64, &factor| all.saturating_mul(factor));
    match graph.tensor(node).op.work() {
        Work::Free => 0,
        Work::PerElement(each) => product(&[each, elements(result)]),
        Work::PerElementOfFirst(each) => product(&[each, elements(source(0))]),
        Work::ProductsAlong(dimension) => product(&[2, elements(result), extent(source(0), dimension)]),
        Work::Convolution => {
            let filter = (0..3).map(|dimension| extent(source(0), dimension)).product();
            product(&[2, elements(result), filter])
        }
        Work::TransposedConvolution => {
            let input = source(1);
            product(&[2, elements(source(0)), extent(input, 0), if is_image(input) { extent(input, 1) } else { 1 }])
        }
        Work::Attention => {
            let (queries, keys, values) = (source(0), source(1), source(2));
            let scores = product(&[extent(queries, 1), extent(queries, 2), extent(queries, 3), extent(keys, 1)]);
            scores.saturating_mul(2 * (extent(queries, 0) + extent(values, 0)) + 13)
        }
        Work::Recurrence(each) => product(&[each, elements(result), extent(source(0), 0)]),
    }
}

fn extent(layout: &Layout, dimension: usize) -> u64 {
    layout.ne[dimension].unsigned_abs()
}

fn elements(layout: &Layout) -> u64 {
    (0..4).fold(1, |all: u64, dimension| all.saturating_mul(extent(layout, dimension)))
}

/// Returns `true` if the layout has rows of a picture in its second dimension and channels in its third.
fn is_image(layout: &Layout) -> bool {
    extent(layout, 2) > 1
}

#[cfg(test)]
mod tests {
    use crate::graph::Op;

    use super::*;

    /// Returns how the documentation describes a way of counting.
    fn described(work: Work) -> String {
        match work {
            Work::Free => "none".to_owned(),
            Work::PerElement(each) => format!("{each} for each element of the result"),
            Work::PerElementOfFirst(each) => format!("{each} for each element of the first source"),
            Work::ProductsAlong(dimension) => {
                format!("2 for each element of the result and `ne[{dimension}]` of the first source")
            }
            Work::Convolution => "2 for each element of the result and of a filter".to_owned(),
            Work::TransposedConvolution => "2 for each element of the filters and position of the input".to_owned(),
            Work::Attention => {
                "for each query and key, twice the widths of the head in keys and in values, and 13".to_owned()
            }
            Work::Recurrence(each) => format!("{each} for each element of the result and width of a head"),
        }
    }

    #[test]
    fn documentation_has_the_table() {
        let page = include_str!("../../../docs/internals/passes.md");
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for op in Op::KNOWN.iter().filter(|op| op.work() != Work::PerElement(1)) {
            let description = described(op.work());
            match groups.iter_mut().find(|(other, _)| *other == description) {
                Some((_, names)) => names.push(op.name()),
                None => groups.push((description, vec![op.name()])),
            }
        }
        groups.sort();
        let rows: String =
            groups.iter().map(|(count, names)| format!("| {count} | `{}` |\n", names.join("`, `"))).collect();
        let rest = "| 1 for each element of the result | all others |\n";
        let table = format!("| floating-point operations | of |\n|---|---|\n{rows}{rest}");
        assert!(page.contains(&table), "docs/internals/passes.md lacks this table:\n{table}");
    }
}
