//! How the result of an operation may lie in memory that is not its own.

use super::Layout;

/// What layouts of its result an operation can write; each includes those before it.
///
/// Kernels are asked, not trusted: `c-tests/programs/written_layouts.c` runs every operation of ggml's CPU backend into each of
/// these layouts, and fails where one that is claimed in [`Writes::of`] gives other bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writes {
    /// Memory of its own, as ggml made it. Nothing is known of any other.
    OnlyItsOwn,
    /// The layout that ggml gave it, anywhere.
    Contiguous,
    /// Rows without gaps inside, in their order, with gaps of any size behind rows, planes and volumes.
    PaddedRows,
    /// Rows without gaps inside, in any order.
    Rows,
    /// Elements in any order, with gaps of any size.
    Anything,
}

/// Operations that write elements wherever the strides say.
const ANYTHING: &[&str] = &["CONCAT", "CONT", "CONV_2D", "DUP", "UPSCALE"];

/// Operations that write rows wherever the strides say.
#[rustfmt::skip]
const ROWS: &[&str] = &[
    "ADD1", "ADD_ID", "CUMSUM", "DIAG", "DIV", "FILL", "GROUP_NORM", "L2_NORM", "MEAN", "MUL", "NORM",
    "PAD_REFLECT_1D", "REPEAT", "REPEAT_BACK", "RMS_NORM", "RMS_NORM_BACK", "ROLL", "ROPE", "ROPE_BACK", "SOFT_MAX",
    "SSM_CONV", "SUB", "SUM_ROWS", "TRI",
];

/// Operations that write rows whose strides do not fall.
const PADDED_ROWS: &[&str] = &["ADD", "GET_ROWS", "TIMESTEP_EMBEDDING"];

/// Operations that write what ggml made, wherever it lies. MUL_MAT would write padded rows too, where ggml's CPU backend
/// computes it; but other backends that compute in the same memory, such as BLAS, do not look at the strides.
#[rustfmt::skip]
const CONTIGUOUS: &[&str] = &[
    "ACC", "ARANGE", "ARGMAX", "ARGSORT", "CONV_2D_DW", "CONV_TRANSPOSE_1D", "CONV_TRANSPOSE_2D", "COS",
    "CROSS_ENTROPY_LOSS_BACK", "DIAG_MASK_INF", "DIAG_MASK_ZERO", "FLASH_ATTN_EXT", "GATED_LINEAR_ATTN",
    "GET_ROWS_BACK", "GLU", "IM2COL", "LEAKY_RELU", "LOG", "MUL_MAT", "MUL_MAT_ID", "OUT_PROD", "PAD", "POOL_1D",
    "POOL_2D", "RWKV_WKV6", "SCALE", "SET", "SILU_BACK", "SIN", "SOFT_MAX_BACK", "SOLVE_TRI", "SQR", "SQRT", "SUM",
    "UNARY", "WIN_PART", "WIN_UNPART",
];

const LISTS: [(&[&str], Writes); 4] = [
    (ANYTHING, Writes::Anything),
    (ROWS, Writes::Rows),
    (PADDED_ROWS, Writes::PaddedRows),
    (CONTIGUOUS, Writes::Contiguous),
];

impl Writes {
    /// By ggml's name of the operation, for ggml 0.9.5 and 0.26.
    pub fn of(operation: &str) -> Self {
        let found = LISTS.iter().find(|(names, _)| names.binary_search(&operation).is_ok());
        found.map_or(Self::OnlyItsOwn, |(_, writes)| *writes)
    }

    /// The names of all operations that can write more than their own memory.
    pub fn known() -> impl Iterator<Item = &'static str> {
        LISTS.iter().flat_map(|(names, _)| names.iter().copied())
    }

    /// Can a result that ggml has made as `own`, without gaps, be written as `wanted`, which has the same elements?
    /// Strides of dimensions with one element do not matter.
    pub fn allows(self, own: &Layout, wanted: &Layout) -> bool {
        own.element == wanted.element && own.ne == wanted.ne && self >= needed(own, &wanted.tidied(own.nb[0]))
    }
}

/// What an operation must be able to write for this layout; `own` is the one without gaps.
fn needed(own: &Layout, wanted: &Layout) -> Writes {
    if wanted.nb == own.nb {
        Writes::Contiguous
    } else if wanted.nb[0] != own.nb[0] {
        Writes::Anything
    } else if wanted.nb.is_sorted() {
        Writes::PaddedRows
    } else {
        Writes::Rows
    }
}

impl Layout {
    /// May two of its elements share a byte? `element_size` is in bytes. False is certain.
    pub fn has_elements_over_one_another(&self, element_size: u64) -> bool {
        let mut steps: Vec<(u64, u64)> = (self.nb.iter().zip(&self.ne))
            .filter(|&(_, &extent)| extent > 1)
            .map(|(&stride, &extent)| (stride, extent.unsigned_abs()))
            .collect();
        steps.sort_unstable();
        let mut taken = element_size;
        for (stride, extent) in steps {
            if stride < taken {
                return true;
            }
            taken = stride.saturating_mul(extent - 1).saturating_add(taken);
        }
        false
    }

    /// The same places with the strides that ggml would give where there is nothing to step to: in dimensions with one
    /// element. `element_size` is in bytes.
    #[must_use]
    pub fn tidied(&self, element_size: u64) -> Self {
        let mut tidied = *self;
        let mut next = element_size;
        for (stride, &extent) in tidied.nb.iter_mut().zip(&self.ne) {
            if extent == 1 {
                *stride = next;
            }
            next = stride.saturating_mul(extent.unsigned_abs());
        }
        tidied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Layout = Layout { element: 0, ne: [8, 3, 2, 1], nb: [4, 32, 96, 192] };

    fn with(nb: [u64; 4]) -> Layout {
        Layout { nb, ..OWN }
    }

    #[test]
    fn lists_can_be_searched_and_name_nobody_twice() {
        assert!(LISTS.iter().all(|(names, _)| names.is_sorted()));
        let mut known: Vec<_> = Writes::known().collect();
        known.sort_unstable();
        assert!(known.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(Writes::of("INVENTED_TOMORROW"), Writes::OnlyItsOwn);
    }

    #[test]
    fn each_layout_needs_what_its_strides_say() {
        let wanted = [
            (with([4, 32, 96, 7]), Writes::Contiguous),
            (with([4, 40, 120, 240]), Writes::PaddedRows),
            (with([4, 64, 32, 192]), Writes::Rows),
            (with([12, 4, 96, 192]), Writes::Anything),
        ];
        for (layout, needed) in wanted {
            let all = [Writes::OnlyItsOwn, Writes::Contiguous, Writes::PaddedRows, Writes::Rows, Writes::Anything];
            for writes in all {
                assert_eq!(writes.allows(&OWN, &layout), writes >= needed, "{writes:?}, {layout:?}");
            }
        }
        assert!(!Writes::Anything.allows(&OWN, &Layout { element: 1, ..OWN }));
        assert!(!Writes::Anything.allows(&OWN, &Layout { ne: [8, 2, 3, 1], ..OWN }));
    }

    #[test]
    fn elements_over_one_another_are_seen() {
        assert!(!OWN.has_elements_over_one_another(4));
        assert!(!with([4, 64, 32, 0]).has_elements_over_one_another(4));
        assert!(with([4, 0, 32, 64]).has_elements_over_one_another(4));
        assert!(with([4, 28, 96, 192]).has_elements_over_one_another(4));
        assert!(with([2, 32, 96, 192]).has_elements_over_one_another(4));
    }
}
