//! Maps the cells of each region of memory to one dense range, by hash and displace.

/// Log2 of the bytes of a cell, which are fewer than those of a tensor: no two tensors begin in the same cell.
const CELL_BITS: u32 = 8;
const _: () = assert!(1 << CELL_BITS <= size_of::<crate::ggml::ggml_tensor>());

/// Log2 of the bytes of a region, whose cells all have the same offset. Most contexts lie in one or two regions.
const REGION_BITS: u32 = 21;

/// Entries of the table of regions.
const ENTRIES: usize = 64;

/// Most regions that are mapped. Tensors in more regions are scattered anyway.
const REGIONS: usize = 32;

/// Most cells from one tensor of a context to the next.
const MARGIN: usize = 2;

/// Multipliers that are tried to find one with which no two regions share an entry.
const TRIES: usize = 8;

/// The offset to add to the cells of each region, so that the cells of different regions do not overlap.
#[derive(Debug)]
pub struct RegionOffsets {
    /// Hashes the numbers of regions to entries.
    multiplier: usize,
    /// By entry, the offset in cells. No table has more than 2^32 cells.
    entries: [u32; ENTRIES],
}

/// The cells of a region, from the first to the last that a tensor begins in.
#[derive(Clone, Copy)]
struct Extent {
    region: usize,
    first: usize,
    last: usize,
}

/// Extents of regions that have their own entries.
struct Extents {
    all: [Extent; REGIONS],
    count: usize,
}

impl Default for RegionOffsets {
    fn default() -> Self {
        Self::none()
    }
}

impl RegionOffsets {
    /// Adds nothing to any cell, for tensors whose addresses are not known yet.
    pub fn none() -> Self {
        // The golden ratio.
        Self { multiplier: 0x9E37_79B9_7F4A_7C15, entries: [0; ENTRIES] }
    }

    /// Sets the offsets for tensors of which every `sample`th is at one of `addresses`, and returns the number of cells of
    /// their regions.
    pub fn fit(&mut self, addresses: impl Iterator<Item = usize> + Clone, sample: usize) -> usize {
        *self = Self::none();
        for _ in 0..TRIES {
            if let Some(extents) = self.extents(addresses.clone()) {
                return self.place(&extents, MARGIN * (sample - 1));
            }
            let multiplier = self.multiplier.wrapping_mul(0x2545_F491_4F6C_DD1D);
            *self = Self { multiplier, ..Self::none() };
        }
        *self = Self::none();
        0
    }

    /// Returns the cell of an address. Only the low bits are significant.
    #[inline(always)]
    pub fn cell(&self, address: usize) -> usize {
        (address >> CELL_BITS).wrapping_add(self.entries[self.entry(address)] as usize)
    }

    #[inline(always)]
    fn entry(&self, address: usize) -> usize {
        (address >> REGION_BITS).wrapping_mul(self.multiplier) >> (usize::BITS - ENTRIES.trailing_zeros())
    }

    /// Finds the regions, and numbers them from 1 on in their entries. `None` if two share an entry, or there are too
    /// many.
    fn extents(&mut self, addresses: impl Iterator<Item = usize>) -> Option<Extents> {
        let mut extents = Extents { all: [Extent { region: 0, first: 0, last: 0 }; REGIONS], count: 0 };
        let (mut region, mut number, mut first, mut last) = (usize::MAX, 0, 0, 0);
        for address in addresses {
            let cell = address >> CELL_BITS;
            if address >> REGION_BITS != region {
                extents.all[number] = Extent { region, first, last };
                region = address >> REGION_BITS;
                number = self.number(region, &mut extents, cell)?;
                Extent { first, last, .. } = extents.all[number];
            }
            (first, last) = (first.min(cell), last.max(cell));
        }
        extents.all[number] = Extent { region, first, last };
        Some(extents)
    }

    /// Returns the number of a region, which is new or known; a tensor in it begins in `cell`.
    #[inline(never)]
    fn number(&mut self, region: usize, extents: &mut Extents, cell: usize) -> Option<usize> {
        let entry = self.entry(region << REGION_BITS);
        if self.entries[entry] == 0 {
            let extent = extents.all.get_mut(extents.count)?;
            *extent = Extent { region, first: cell, last: cell };
            extents.count += 1;
            self.entries[entry] = low(extents.count);
        }
        let number = self.entries[entry] as usize - 1;
        (extents.all[number].region == region).then_some(number)
    }

    /// Places extents one after the other with a margin around each, and returns the number of cells that they take.
    fn place(&mut self, extents: &Extents, margin: usize) -> usize {
        let mut next = 0usize;
        for extent in &extents.all[..extents.count] {
            let entry = self.entry(extent.region << REGION_BITS);
            self.entries[entry] = low((next + margin).wrapping_sub(extent.first));
            next += extent.last - extent.first + 1 + 2 * margin;
        }
        next
    }
}

#[allow(clippy::cast_possible_truncation, reason = "only the low bits of cells matter")]
fn low(cells: usize) -> u32 {
    cells as u32
}
