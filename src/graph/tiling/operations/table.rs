//! The table by operation.

use crate::graph::{Graph, Layout, TensorId};

use super::{MOST_SOURCES, Need, NodeTiling, TileKernels, TileKind, Window, matmul};

/// FLASH_ATTN_EXT takes tiles of queries from this many on.
const FEWEST_QUERIES: i64 = 64;

/// A node to tile along a dimension of its result.
struct Node<'g> {
    result: &'g Layout,
    sources: &'g [&'g Layout],
    dimension: usize,
}

/// Returns how `kernels` tile `node` along a dimension of its result; `None` if they do not. Slices of views follow from the
/// memory that they are views of, so a [`TileKind::View`] is not tiled here.
pub fn tiled(
    graph: &Graph,
    kernels: TileKernels,
    kind: TileKind,
    node: TensorId,
    dimension: usize,
) -> Option<NodeTiling> {
    let (ids, result) = (graph.sources(node), graph.layout(node));
    // A cast has itself as its destination; copies into the memory of another tensor are not tiled.
    let may_be_itself = |slot: usize| kind == TileKind::Copy && slot > 0;
    let fits = ids.iter().enumerate().all(|(slot, &source)| (source == node) == may_be_itself(slot));
    if dimension > 3 || result.ne[dimension] < 2 || ids.is_empty() || !fits {
        return None;
    }
    // Searches ask for many nodes: a list on the stack takes no time.
    let mut sources = [result; MOST_SOURCES];
    let sources = sources.get_mut(..ids.len())?;
    sources.iter_mut().zip(ids).for_each(|(layout, &source)| *layout = graph.layout(source));
    kernels.restrict(Node { result, sources, dimension }.tiled(kind)?, kind, result, dimension)
}

/// Slices and results have no gaps where the whole has none.
fn packed(needs: impl IntoIterator<Item = Need>) -> NodeTiling {
    NodeTiling {
        needs: needs.into_iter().collect(),
        multiple: 1,
        fewest: 1,
        strided: [false; 4],
        strided_result: false,
    }
}

/// Slices and results may have gaps between rows.
fn strided(needs: impl IntoIterator<Item = Need>) -> NodeTiling {
    NodeTiling { needs: needs.into_iter().collect(), multiple: 1, fewest: 1, strided: [true; 4], strided_result: true }
}

/// The mask and the sinks of an attention, where it has them.
type MaskAndSinks<'l> = [Option<&'l Layout>; 2];

/// Tells the mask from the sinks among the last sources of an attention with the scores or queries `source`. `None` where
/// a single one may be either: the mask has a column for each key, the sinks have an element for each head.
fn mask_and_sinks<'l>(source: &Layout, others: &[&'l Layout], has_mask: Option<bool>) -> Option<MaskAndSinks<'l>> {
    match (others, has_mask) {
        (&[], _) => Some([None; 2]),
        (&[mask, sinks], None | Some(true)) => Some([Some(mask), Some(sinks)]),
        (&[mask], Some(true)) => Some([Some(mask), None]),
        (&[sinks], Some(false)) => Some([None, Some(sinks)]),
        (&[one], None) if one.ne != [source.ne[2], 1, 1, 1] => Some([Some(one), None]),
        (&[one], None) if one.ne[0] != source.ne[0] => Some([None, Some(one)]),
        _ => None,
    }
}

impl Node<'_> {
    fn tiled(&self, kind: TileKind) -> Option<NodeTiling> {
        let Self { result, dimension, .. } = *self;
        let by_rows = dimension > 0;
        match (kind, self.sources) {
            (TileKind::Unary, [source]) if by_rows && source.ne == result.ne => Some(packed([Need::along(dimension)])),
            (TileKind::Binary, [first, second]) if first.ne == result.ne => {
                Some(strided([Need::along(dimension), self.broadcast(second, dimension)?]))
            }
            (TileKind::Gated, sources) if by_rows => {
                let fits = sources.iter().all(|source| source.ne[1..] == result.ne[1..]);
                fits.then(|| packed(sources.iter().map(|_| Need::along(dimension))))
            }
            (TileKind::Copy, [source, others @ ..]) if source.ne == result.ne => {
                let destinations = others.iter().map(|_| Need::Itself);
                let needs = [Need::along(dimension)].into_iter().chain(destinations);
                // Quantized rows are written one after the other.
                Some(NodeTiling { strided_result: source.element == result.element, ..strided(needs) })
            }
            (TileKind::MatMul, [first, second]) => matmul::tiled(result, [first, second], dimension),
            (TileKind::MatMulId, [experts, columns, ids]) => {
                matmul::tiled_by_id(result, [experts, columns, ids], dimension)
            }
            (TileKind::SoftMax { same_slopes, has_mask }, [source, others @ ..]) if by_rows => {
                self.soft_max(source, mask_and_sinks(source, others, has_mask)?, same_slopes)
            }
            (TileKind::Rows, [source]) if by_rows && source.ne[1..] == result.ne[1..] => {
                Some(strided([Need::along(dimension)]))
            }
            (TileKind::RowsBack, [first, second]) if by_rows && first.ne == result.ne && second.ne == result.ne => {
                Some(packed([Need::along(dimension); 2]))
            }
            (TileKind::FlashAttention { has_mask }, [query, _, _, others @ ..]) => {
                self.flash_attention(query, mask_and_sinks(query, others, has_mask)?)
            }
            (TileKind::Rope, [source, positions, others @ ..]) if by_rows && source.ne == result.ne => {
                let positions = match dimension {
                    2 if positions.ne[0] == result.ne[2] => Need::along(0),
                    2 => return None,
                    _ => Need::Whole,
                };
                let factors = others.iter().map(|_| Need::Whole);
                Some(strided([Need::along(dimension), positions].into_iter().chain(factors)))
            }
            (TileKind::Im2col(window), [kernel, input]) => self.im2col(kernel, input, window),
            (TileKind::GetRows, [rows, indices]) if dimension == 1 && rows.ne[2] == 1 && rows.ne[3] == 1 => {
                (indices.ne[1] == 1 && indices.ne[2] == 1).then(|| strided([Need::Whole, Need::along(0)]))
            }
            (TileKind::Matrices, [source]) if dimension >= 2 && source.ne[2..] == result.ne[2..] => {
                Some(packed([Need::along(dimension)]))
            }
            (TileKind::Batches, [source]) if dimension == 3 && source.ne == result.ne => {
                Some(strided([Need::along(3)]))
            }
            (TileKind::Concat, [first, second]) if by_rows => {
                let extents = [first.ne[dimension], second.ne[dimension]];
                let is_joined = extents != [result.ne[dimension]; 2];
                (!is_joined).then(|| packed([Need::along(dimension); 2]))
            }
            (TileKind::Repeat, [source, ..]) if by_rows => {
                let shape = self.sources[1..].iter().map(|_| Need::Whole);
                Some(packed([self.broadcast(source, dimension)?].into_iter().chain(shape)))
            }
            _ => None,
        }
    }

    /// Returns the needed tile of a source that may have one element where the result has many.
    fn broadcast(&self, source: &Layout, dimension: usize) -> Option<Need> {
        match source.ne[dimension] {
            1 => Some(Need::Whole),
            extent if extent == self.result.ne[dimension] => Some(Need::along(dimension)),
            _ => None,
        }
    }

    /// The mask has at least the rows of the result, and may be one for all heads or batches; the sinks are by head.
    fn soft_max(&self, source: &Layout, [mask, sinks]: MaskAndSinks<'_>, same_slopes: bool) -> Option<NodeTiling> {
        let dimension = self.dimension;
        let is_known = mask.is_none() || same_slopes;
        if source.ne != self.result.ne || (dimension == 2 && !is_known) {
            return None;
        }
        let mask = match mask {
            None => None,
            Some(mask) if dimension == 1 && mask.ne[1] < self.result.ne[1] => return None,
            Some(_) if dimension == 1 => Some(Need::along(1)),
            Some(mask) => Some(self.broadcast(mask, dimension)?),
        };
        let sinks = sinks.map(|_| if dimension == 2 { Need::along(0) } else { Need::Whole });
        let needs = [Need::along(dimension)].into_iter().chain(mask).chain(sinks);
        Some(NodeTiling { strided: [true; 4], ..packed(needs) })
    }

    /// The result has the heads in dimension 1 and the rows of queries in dimension 2. Other kernels take few rows.
    fn flash_attention(&self, query: &Layout, [mask, sinks]: MaskAndSinks<'_>) -> Option<NodeTiling> {
        let rows = self.result.ne[2];
        let fits = query.ne[1] == rows && query.ne[2] == self.result.ne[1];
        if self.dimension != 2 || !fits || rows < FEWEST_QUERIES || mask.is_some_and(|mask| mask.ne[1] < rows) {
            return None;
        }
        let queries = [Need::along(1), Need::Whole, Need::Whole].into_iter();
        let needs = queries.chain(mask.map(|_| Need::along(1))).chain(sinks.map(|_| Need::Whole));
        Some(NodeTiling { fewest: FEWEST_QUERIES, strided: [true; 4], ..packed(needs) })
    }

    /// Rows of the result are the windows of rows of the input.
    fn im2col(&self, kernel: &Layout, input: &Layout, window: Option<Window>) -> Option<NodeTiling> {
        let is_2d = kernel.ne[2] > 1 || window.is_some();
        let columns = kernel.ne[0].checked_mul(kernel.ne[1])?.checked_mul(kernel.ne[2])?;
        if !is_2d || self.result.ne[0] != columns || input.ne[2] != kernel.ne[2] {
            return None;
        }
        let input = match self.dimension {
            2 => {
                let likely = || Window::of_extents(kernel.ne[1], input.ne[1], self.result.ne[2]);
                Need::Rows(window.or_else(likely)?)
            }
            3 if input.ne[3] == self.result.ne[3] => Need::along(3),
            _ => return None,
        };
        let mut tiled = packed([Need::Whole, input]);
        tiled.strided[1] = true;
        Some(tiled)
    }
}
