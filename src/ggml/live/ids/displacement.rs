//! Where the cells of each region of memory are in one small table: hash and displace.

/// Bytes of a cell: no two tensors begin in the same one.
const CELL_BITS: u32 = 8;
const _: () = assert!(1 << CELL_BITS <= size_of::<crate::ggml::ggml_tensor>());

/// Bytes of a region, within which cells keep their distances. Most contexts lie in one or two.
const REGION_BITS: u32 = 21;

/// Entries for regions.
const ENTRIES: usize = 64;

/// Regions that are displaced. Tensors in more are scattered anyway.
const REGIONS: usize = 32;

/// Cells from one tensor of a context to the next, at most.
const MARGIN: usize = 2;

/// How many multipliers are tried so that no two regions share an entry.
const TRIES: usize = 8;

/// What is added to the cells of each region, so that regions do not overlap.
#[derive(Debug)]
pub struct Displacement {
    /// Spreads the numbers of regions over the entries.
    multiplier: usize,
    /// By entry, the number to add. No table has more cells than 32 bits can count.
    entries: [u32; ENTRIES],
}

/// The cells of a region, from the first to the last that a tensor begins in.
#[derive(Clone, Copy)]
struct Extent {
    region: usize,
    first: usize,
    last: usize,
}

/// Extents of regions that have entries of their own.
struct Extents {
    all: [Extent; REGIONS],
    count: usize,
}

impl Displacement {
    /// None: for tensors of which nothing is known yet.
    pub fn none() -> Self {
        // The golden ratio.
        Self { multiplier: 0x9E37_79B9_7F4A_7C15, entries: [0; ENTRIES] }
    }

    /// For tensors at `addresses` and those between them, with the number of cells that their regions take together.
    /// `addresses` are one of every `sample`.
    pub fn of(addresses: impl Iterator<Item = usize> + Clone, sample: usize) -> (Self, usize) {
        let mut displacement = Self::none();
        for _ in 0..TRIES {
            if let Some(extents) = displacement.extents(addresses.clone()) {
                let cells = displacement.place(&extents, MARGIN * (sample - 1));
                return (displacement, cells);
            }
            let multiplier = displacement.multiplier.wrapping_mul(0x2545_F491_4F6C_DD1D);
            displacement = Self { multiplier, ..Self::none() };
        }
        (Self::none(), 0)
    }

    /// The displaced cell of an address. Only the low bits mean something.
    #[inline(always)]
    pub fn cell(&self, address: usize) -> usize {
        (address >> CELL_BITS).wrapping_add(self.entries[self.entry(address)] as usize)
    }

    #[inline(always)]
    fn entry(&self, address: usize) -> usize {
        (address >> REGION_BITS).wrapping_mul(self.multiplier) >> (usize::BITS - ENTRIES.trailing_zeros())
    }

    /// Finds the regions, and numbers them from 1 on in their entries. `None` where two share an entry, or there are too many.
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

    /// The number of a region, of which a tensor begins in `cell`.
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

    /// Places extents one after the other, so many cells apart, and tells how many they take.
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
