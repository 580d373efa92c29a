//! Layouts of tensors, and the distinct ones of a graph, each kept once: a graph has many tensors and few layouts.

use crate::placement::{Bytes, filled};

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

/// Dense index of a layout: equal layouts have equal indices.
pub type LayoutId = u32;

/// The index of a tensor whose layout is not recorded. Two such tensors need not have the same layout. A sentinel,
/// since `Option` would double a list that is compared each time that a plan is matched.
pub const UNKNOWN: LayoutId = LayoutId::MAX;

static NO_LAYOUT: Layout = Layout { element: u32::MAX, ne: [0; 4], nb: [0; 4] };

/// Capacity for the layouts of most graphs, and hash slots of which few are taken then.
const FEW_LAYOUTS: usize = 64;
const FEW_SLOTS: usize = 256;

/// The distinct layouts of a graph: a hash table with dense indices.
#[derive(Clone, Debug, Default, Eq)]
pub struct Layouts {
    distinct: Vec<Layout>,
    /// Open addressing: an index plus one, or 0 for a free slot. At most half of the slots are taken.
    slots: Vec<LayoutId>,
}

/// The slots follow from the layouts and from how many there were before.
impl PartialEq for Layouts {
    fn eq(&self, other: &Self) -> bool {
        self.distinct == other.distinct
    }
}

impl Layouts {
    /// Returns the index of `layout`, which is added where it is new.
    #[inline]
    pub fn id(&mut self, layout: LayoutRef<'_>) -> LayoutId {
        match self.find(layout) {
            Ok(id) => id,
            Err(slot) => self.add(layout, slot),
        }
    }

    /// Appends the indices of the layouts of `tensors` to `ids`, and adds new layouts.
    #[inline]
    pub fn add_ids<'l, T>(&mut self, tensors: &[T], layout: impl Fn(&T) -> LayoutRef<'l>, ids: &mut Vec<LayoutId>) {
        let mut next = ids.len();
        let first = next;
        ids.resize(first + tensors.len(), 0);
        while let Some((at, slot)) = self.find_until_new(&tensors[next - first..], &layout, &mut ids[next..]) {
            ids[next + at] = self.add(layout(&tensors[next - first + at]), slot);
            next += at + 1;
        }
    }

    /// Fills in indices as far as the layouts are known. Returns the position of the first new layout, and its free
    /// slot. Nothing is added on the way, which keeps the loop fast.
    #[inline]
    fn find_until_new<'l, T>(
        &self,
        tensors: &[T],
        layout: &impl Fn(&T) -> LayoutRef<'l>,
        ids: &mut [LayoutId],
    ) -> Option<(usize, usize)> {
        for (at, (tensor, id)) in tensors.iter().zip(ids).enumerate() {
            match self.find(layout(tensor)) {
                Ok(found) => *id = found,
                Err(slot) => return Some((at, slot)),
            }
        }
        None
    }

    /// Returns the index of `layout`, or the free slot for it.
    #[inline]
    fn find(&self, layout: LayoutRef<'_>) -> Result<LayoutId, usize> {
        let mut slot = self.first_slot(layout);
        while let Some(id) = self.slots.get(slot).map(|taken| taken.wrapping_sub(1))
            && let Some(known) = self.distinct.get(id as usize)
        {
            if layout.is(known) {
                return Ok(id);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        Err(slot)
    }

    /// Removes all layouts.
    pub fn clear(&mut self) {
        self.distinct.clear();
        self.slots.fill(0);
    }

    /// Returns the number of distinct layouts.
    pub fn len(&self) -> usize {
        self.distinct.len()
    }

    /// Returns the layout with this index; an empty one of no element type for [`UNKNOWN`].
    pub fn get(&self, id: LayoutId) -> &Layout {
        self.distinct.get(id as usize).unwrap_or(&NO_LAYOUT)
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, layout: LayoutRef<'_>, slot: usize) -> LayoutId {
        if 2 * self.distinct.len() >= self.slots.len() {
            self.grow();
            return self.id(layout);
        }
        self.distinct.push(layout.to_layout());
        let taken = LayoutId::try_from(self.distinct.len()).expect("fewer than 2^32 layouts");
        self.slots[slot] = taken;
        taken - 1
    }

    fn grow(&mut self) {
        let slots = (4 * self.slots.len()).max(FEW_SLOTS);
        let room = (2 * self.distinct.len()).max(FEW_LAYOUTS);
        let known = std::mem::replace(self, Self { distinct: Vec::with_capacity(room), slots: filled(0, slots) });
        for layout in &known.distinct {
            self.id(layout.by_ref());
        }
    }

    /// Hashes a layout to the slot where its search begins. The omitted fields usually follow from the rest.
    #[inline]
    fn first_slot(&self, layout: LayoutRef<'_>) -> usize {
        let LayoutRef { ne: [a, b, _, _], nb: [_, row, _, last], .. } = layout;
        let extents = a.wrapping_add(b.wrapping_mul(0x3243_F6A9)).cast_unsigned();
        let strides = row.wrapping_mul(0x5A82_7999).wrapping_add(last.wrapping_mul(0x2B7E_1517));
        // Multiplies by the golden ratio and takes high bits, which depend on all lower ones.
        let hash = extents.wrapping_add(strides).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(hash >> 32).unwrap_or(0) & self.slots.len().wrapping_sub(1)
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
