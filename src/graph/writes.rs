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
const ANYTHING: &[&str] = &["CONT", "CPY", "DUP"];

/// Operations that write rows wherever the strides say.
const ROWS: &[&str] = &[];

/// Operations that write rows whose strides do not fall.
const PADDED_ROWS: &[&str] = &[];

/// Operations that write what ggml made, wherever it lies.
const CONTIGUOUS: &[&str] =
    &["ADD", "DIV", "MUL", "MUL_MAT", "NORM", "RMS_NORM", "ROPE", "SCALE", "SOFT_MAX", "SUB", "UNARY"];

impl Writes {
    /// By ggml's name of the operation, for ggml 0.9.5 and 0.26.
    pub fn of(operation: &str) -> Self {
        let lists = [
            (ANYTHING, Self::Anything),
            (ROWS, Self::Rows),
            (PADDED_ROWS, Self::PaddedRows),
            (CONTIGUOUS, Self::Contiguous),
        ];
        let found = lists.iter().find(|(names, _)| names.binary_search(&operation).is_ok());
        found.map_or(Self::OnlyItsOwn, |(_, writes)| *writes)
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
