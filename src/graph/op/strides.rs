//! In which layouts an operation can read a source or write its result.

use crate::graph::Layout;

/// Layouts that an operation can read or write; each kind includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strides {
    /// Its own memory, as ggml created it. Nothing is known of any other.
    OnlyItsOwn,
    /// The layout that ggml gave it, anywhere.
    Contiguous,
    /// Rows without gaps inside, in their order, with gaps of any size after rows, planes and volumes.
    PaddedRows,
    /// Rows without gaps inside, in any order.
    Rows,
    /// Elements in any order, with gaps of any size.
    Anything,
}

impl Strides {
    /// Returns `true` if a tensor that ggml created as `own`, without gaps, may have the layout `requested`, with the
    /// same elements. Strides of dimensions with one element do not matter.
    pub fn allows(self, own: &Layout, requested: &Layout) -> bool {
        own.element == requested.element && own.ne == requested.ne && self >= needed(own, &requested.tidied(own.nb[0]))
    }
}

/// Returns the kind of layout that `requested` is; `own` is the one without gaps.
fn needed(own: &Layout, requested: &Layout) -> Strides {
    if requested.nb == own.nb {
        Strides::Contiguous
    } else if requested.nb[0] != own.nb[0] {
        Strides::Anything
    } else if requested.nb.is_sorted() {
        Strides::PaddedRows
    } else {
        Strides::Rows
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
    fn needed_kind_follows_from_the_strides() {
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
}
