//! How the source or the result of an operation may lie in memory that ggml did not expect it in.

use super::Layout;

/// Layouts that an operation can read or write; each kind includes those before it.
///
/// Kernels are asked, not trusted: `c-tests/programs/written_layouts.c` and `read_layouts.c` run every operation of ggml's
/// CPU backend in each of these layouts, and fail where one that is claimed in [`Strides::written_by`] or
/// [`Strides::read_by`] gives other bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strides {
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

impl Strides {
    /// Can a tensor that ggml has made as `own`, without gaps, lie as `wanted`, which has the same elements?
    /// Strides of dimensions with one element do not matter.
    pub fn allows(self, own: &Layout, wanted: &Layout) -> bool {
        own.element == wanted.element && own.ne == wanted.ne && self >= needed(own, &wanted.tidied(own.nb[0]))
    }
}

/// What an operation must be able to do for this layout; `own` is the one without gaps.
fn needed(own: &Layout, wanted: &Layout) -> Strides {
    if wanted.nb == own.nb {
        Strides::Contiguous
    } else if wanted.nb[0] != own.nb[0] {
        Strides::Anything
    } else if wanted.nb.is_sorted() {
        Strides::PaddedRows
    } else {
        Strides::Rows
    }
}

impl Layout {
    /// The same elements without gaps, as ggml makes a tensor. `element_size` is in bytes.
    #[must_use]
    pub fn packed(&self, element_size: u64) -> Self {
        let mut packed = *self;
        let mut next = element_size;
        for (stride, &extent) in packed.nb.iter_mut().zip(&self.ne) {
            *stride = next;
            next = next.saturating_mul(extent.unsigned_abs());
        }
        packed
    }

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
    fn each_layout_needs_what_its_strides_say() {
        let wanted = [
            (with([4, 32, 96, 7]), Strides::Contiguous),
            (with([4, 40, 120, 240]), Strides::PaddedRows),
            (with([4, 64, 32, 192]), Strides::Rows),
            (with([12, 4, 96, 192]), Strides::Anything),
        ];
        for (layout, needed) in wanted {
            let all = [Strides::OnlyItsOwn, Strides::Contiguous, Strides::PaddedRows, Strides::Rows, Strides::Anything];
            for writes in all {
                assert_eq!(writes.allows(&OWN, &layout), writes >= needed, "{writes:?}, {layout:?}");
            }
        }
        assert!(!Strides::Anything.allows(&OWN, &Layout { element: 1, ..OWN }));
        assert!(!Strides::Anything.allows(&OWN, &Layout { ne: [8, 2, 3, 1], ..OWN }));
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
