//! The layout of a tensor: element type, extents and strides.

use crate::placement::Bytes;

/// Element type, extents and strides. A node is computed in place only of a source with an equal layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A number for the element type; equal types have equal numbers.
    pub element: u32,
    /// Extents in elements, fastest first.
    pub ne: [i64; 4],
    /// Strides in bytes.
    pub nb: [Bytes; 4],
}

/// A borrowed layout: compared often, rarely copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutRef<'a> {
    /// A number for the element type, see [`Layout::element`].
    pub element: u32,
    /// Extents in elements, fastest first.
    pub ne: &'a [i64; 4],
    /// Strides in bytes.
    pub nb: &'a [Bytes; 4],
}

impl Layout {
    /// Borrows the layout.
    pub fn by_ref(&self) -> LayoutRef<'_> {
        LayoutRef { element: self.element, ne: &self.ne, nb: &self.nb }
    }
}

impl LayoutRef<'_> {
    /// Copies the layout.
    pub fn to_layout(self) -> Layout {
        Layout { element: self.element, ne: *self.ne, nb: *self.nb }
    }

    /// Returns `true` if it equals `layout`. Compares without a branch for each number: most layouts are equal or
    /// differ in the first.
    #[inline]
    pub fn is(self, layout: &Layout) -> bool {
        (*self.ne == layout.ne) & (*self.nb == layout.nb) & (self.element == layout.element)
    }
}

impl Layout {
    /// Returns the strides of a new tensor of ggml with these elements: without gaps. `element_size` is in bytes.
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

    /// Returns `true` if two of its elements may share a byte; `false` is certain. `element_size` is in bytes.
    pub fn has_overlapping_elements(&self, element_size: u64) -> bool {
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

    /// Returns the layout with ggml's strides in dimensions of one element, where strides have no effect. The elements
    /// stay where they are. `element_size` is in bytes.
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
    fn overlapping_elements_are_found() {
        assert!(!OWN.has_overlapping_elements(4));
        assert!(!with([4, 64, 32, 0]).has_overlapping_elements(4));
        assert!(with([4, 0, 32, 64]).has_overlapping_elements(4));
        assert!(with([4, 28, 96, 192]).has_overlapping_elements(4));
        assert!(with([2, 32, 96, 192]).has_overlapping_elements(4));
    }
}
