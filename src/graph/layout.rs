//! Layouts of tensors, each kept once: a graph has many tensors and few layouts.

use crate::placement::Bytes;

/// Element type, extents and strides: what two tensors must share for one to be computed in the other's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A number for the element type; equal types have equal numbers.
    pub element: u32,
    /// Extents in elements, fastest first.
    pub ne: [i64; 4],
    /// Strides in bytes.
    pub nb: [Bytes; 4],
}

/// A layout where it lies: it is compared often, and rarely copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutRef<'a> {
    /// As [`Layout::element`].
    pub element: u32,
    /// As [`Layout::ne`].
    pub ne: &'a [i64; 4],
    /// As [`Layout::nb`].
    pub nb: &'a [Bytes; 4],
}

impl Layout {
    /// The same where it lies.
    pub fn by_ref(&self) -> LayoutRef<'_> {
        LayoutRef { element: self.element, ne: &self.ne, nb: &self.nb }
    }
}

impl LayoutRef<'_> {
    /// A copy of its own.
    pub fn to_layout(self) -> Layout {
        Layout { element: self.element, ne: *self.ne, nb: *self.nb }
    }

    /// Is it equal to `layout`? Without a branch for each number: mostly it is, or differs in the first.
    #[inline]
    pub fn is(self, layout: &Layout) -> bool {
        (*self.ne == layout.ne) & (*self.nb == layout.nb) & (self.element == layout.element)
    }
}

/// Dense index of a layout: equal layouts have equal ones.
pub type LayoutId = u32;

/// The index of a layout that nobody has said. It tells nothing: two tensors that have it need not look alike.
pub const UNSAID: LayoutId = LayoutId::MAX;

static NO_LAYOUT: Layout = Layout { element: u32::MAX, ne: [0; 4], nb: [0; 4] };

/// Room for the layouts of most graphs, and slots for them of which few are taken.
const FEW_LAYOUTS: usize = 64;
const FEW_SLOTS: usize = 256;

/// The distinct layouts of a graph.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    distinct: Vec<Layout>,
    /// Open addressing: an index plus one, or 0. At most half of the slots are taken.
    slots: Vec<LayoutId>,
}

impl Layouts {
    /// The index of `layout`; a new one when it was not met before.
    #[inline]
    pub fn id(&mut self, layout: LayoutRef<'_>) -> LayoutId {
        match self.find(layout) {
            Ok(id) => id,
            Err(slot) => self.add(layout, slot),
        }
    }

    /// Appends the indices of the layouts of `tensors` to `ids`, with new ones for those that were not met before.
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

    /// Fills in indices as far as layouts are known. Of the first that is not: where it is, and its slot. Quicker than to add on
    /// the way, as nothing changes meanwhile.
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

    /// The index of `layout`, or the slot that is free for it.
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.distinct.len()
    }

    /// The layout with an index; one of no type where nobody has said it.
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
        let known = std::mem::replace(self, Self { distinct: Vec::with_capacity(room), slots: vec![0; slots] });
        for layout in &known.distinct {
            self.id(layout.by_ref());
        }
    }

    /// Where the search for a layout begins. What is not looked at mostly follows from the rest.
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
