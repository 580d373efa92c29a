//! Dense ids for tensors: planning looks up one pointer for each reference to a tensor.
//!
//! Memory is divided into cells that are smaller than a tensor, so that each cell contains the start of at most one
//! tensor. A table has an entry for each cell of the contexts that the tensors lie in: a lookup reads an id there, and
//! compares the address of that tensor. Contexts lie anywhere in memory; [`RegionOffsets`] maps their cells to a dense
//! range without overlap. Where tensors are scattered so widely that cells share an entry, [`Overflow`] holds all but
//! the first.

mod region_offsets;
#[cfg(test)]
mod tests;

use crate::graph::TensorId;
use crate::placement::refill;

use crate::ggml::live::tensor::TensorRef;
use region_offsets::RegionOffsets;

/// An empty entry of a table; no graph has that many tensors.
const NO_ID: TensorId = TensorId::MAX;

/// Regions are found from every `SAMPLE`th tensor. A prime number, since layers repeat.
const SAMPLE: usize = 5;

/// A table from addresses to ids.
#[derive(Debug, Default)]
pub struct Table {
    offsets: RegionOffsets,
    /// By cell, an id or [`NO_ID`]. The length is a power of two, at least twice the number of tensors.
    cells: Vec<TensorId>,
}

/// Tensors in the order in which they were added, and a table from addresses to ids.
#[derive(Debug)]
pub struct Ids<'g> {
    tensors: Vec<TensorRef<'g>>,
    // In a box, since its hundreds of bytes would be moved several times.
    table: Box<Table>,
    overflow: Overflow,
}

impl<'g> Ids<'g> {
    /// Numbers `tensors` in their order; one that is repeated has the id of the first.
    pub fn from_tensors(tensors: Vec<TensorRef<'g>>) -> Self {
        Self::in_table(Box::default(), tensors)
    }

    /// Numbers `tensors` as [`Ids::from_tensors`] does, in `table`, whatever it held before.
    pub fn in_table(table: Box<Table>, tensors: Vec<TensorRef<'g>>) -> Self {
        let room = tensors.len();
        Self::with_room(tensors, room, table)
    }

    /// Numbers `tensors`, with room for `room` of them in `table`, whatever it held before.
    fn with_room(tensors: Vec<TensorRef<'g>>, room: usize, table: Box<Table>) -> Self {
        let most = tensors.len() / 16;
        match Self::try_distinct(tensors, room, table, SAMPLE) {
            Ok(ids) if ids.overflow.len() > most => Self::try_distinct(ids.tensors, room, ids.table, 1),
            done => done,
        }
        .unwrap_or_else(|repeated| Self::with_repeated(&repeated))
    }

    /// Numbers tensors that are distinct; returns them if they are not. Regions are found from every `sample`th tensor.
    fn try_distinct(
        tensors: Vec<TensorRef<'g>>,
        room: usize,
        mut table: Box<Table>,
        sample: usize,
    ) -> Result<Self, Vec<TensorRef<'g>>> {
        let samples = tensors.iter().step_by(sample).map(|&tensor| tensor.address());
        let used = table.offsets.fit(samples, sample);
        refill(&mut table.cells, NO_ID, cells_for(room, used));
        let mut ids = Self { tensors, table, overflow: Overflow::default() };
        let mut next = 0;
        while let Some(colliding) = ids.fill_cells(next) {
            let before = KnownIds { tensors: &ids.tensors[..colliding as usize], ..ids.known() };
            if before.id(ids.tensors[colliding as usize]).is_some() {
                return Err(ids.tensors);
            }
            ids.overflow.add(colliding, &ids.tensors);
            next = colliding + 1;
        }
        Ok(ids)
    }

    /// Enters the tensors from `next` on in their cells, up to one whose cell is occupied, and returns that one.
    fn fill_cells(&mut self, next: TensorId) -> Option<TensorId> {
        let Table { offsets, cells } = &mut *self.table;
        fill_cells(offsets, cells, &self.tensors, next)
    }

    /// Numbers tensors of which some are repeated.
    #[cold]
    fn with_repeated(tensors: &[TensorRef<'g>]) -> Self {
        let mut ids = Self::with_capacity(tensors.len());
        for &tensor in tensors {
            ids.id(tensor);
        }
        ids
    }

    /// Creates an empty table with room for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(tensors),
            table: Box::new(Table { offsets: RegionOffsets::none(), cells: vec![NO_ID; cells_for(tensors, 0)] }),
            overflow: Overflow::default(),
        }
    }

    /// Returns the id of `tensor`, which is added if it is new.
    #[inline]
    pub fn id(&mut self, tensor: TensorRef<'g>) -> TensorId {
        match self.known().id(tensor) {
            Some(id) => id,
            None => self.add(tensor),
        }
    }

    /// Returns the current ids for lookups.
    #[inline]
    pub fn known(&self) -> KnownIds<'_, 'g> {
        let Self { tensors, table, overflow } = self;
        KnownIds { tensors, offsets: &table.offsets, cells: &table.cells, overflow }
    }

    /// Returns `true` if `tensor` was added before.
    pub fn contains(&self, tensor: TensorRef<'g>) -> bool {
        self.known().id(tensor).is_some()
    }

    /// Adds a tensor that is new.
    #[cold]
    fn add(&mut self, tensor: TensorRef<'g>) -> TensorId {
        let id =
            TensorId::try_from(self.tensors.len()).ok().filter(|&id| id != NO_ID).expect("fewer than 2^32 tensors");
        self.tensors.push(tensor);
        if 2 * self.tensors.len() > self.table.cells.len() {
            let mut tensors = std::mem::take(&mut self.tensors);
            let room = 2 * tensors.len();
            tensors.reserve(tensors.len());
            *self = Self::with_room(tensors, room, std::mem::take(&mut self.table));
        } else if self.fill_cells(id).is_some() {
            self.overflow.add(id, &self.tensors);
        }
        id
    }

    /// Returns the tensors by id.
    pub fn tensors(&self) -> &[TensorRef<'g>] {
        &self.tensors
    }

    /// Converts to the tensors by id, and the table, for the next ones.
    pub fn into_parts(self) -> (Vec<TensorRef<'g>>, Box<Table>) {
        (self.tensors, self.table)
    }
}

/// A view of [`Ids`] for lookups only.
#[derive(Clone, Copy, Debug)]
pub struct KnownIds<'a, 'g> {
    tensors: &'a [TensorRef<'g>],
    offsets: &'a RegionOffsets,
    cells: &'a [TensorId],
    overflow: &'a Overflow,
}

impl<'g> KnownIds<'_, 'g> {
    /// Returns the id of `tensor`, if it was added before. Null is never a key, so source slots can be looked up
    /// unchecked.
    #[inline]
    pub fn id(self, tensor: impl Into<Option<TensorRef<'g>>>) -> Option<TensorId> {
        let address = tensor.into().map_or(0, TensorRef::address);
        let (id, found) = self.in_cell(address)?;
        if found == address { Some(id) } else { self.overflow.id(address, self.tensors) }
    }

    /// Returns the id of `tensor` if the table has it, without searching the overflow: loops with this lookup keep
    /// their registers.
    #[inline(always)]
    pub fn id_in_cell(self, tensor: Option<TensorRef<'g>>) -> Option<TensorId> {
        let address = tensor.map_or(0, TensorRef::address);
        self.in_cell(address).filter(|&(_, found)| found == address).map(|(id, _)| id)
    }

    /// Returns the id in the cell of `address`, and the address of that tensor.
    #[inline(always)]
    fn in_cell(self, address: usize) -> Option<(TensorId, usize)> {
        let id = self.cells[self.offsets.cell(address) & (self.cells.len() - 1)];
        self.tensors.get(id as usize).map(|&found| (id, found.address()))
    }
}

/// Enters `tensors` from `next` on as [`Ids::fill_cells`] does.
// References as arguments let the compiler keep the values in registers.
fn fill_cells(
    offsets: &RegionOffsets,
    cells: &mut [TensorId],
    tensors: &[TensorRef<'_>],
    next: TensorId,
) -> Option<TensorId> {
    for (id, &tensor) in (next..).zip(&tensors[next as usize..]) {
        let cell = offsets.cell(tensor.address()) & (cells.len() - 1);
        if cells[cell] != NO_ID {
            return Some(id);
        }
        cells[cell] = id;
    }
    None
}

/// The tensors whose cell another one occupies: a hash table by address, with linear probing.
#[derive(Debug, Default)]
struct Overflow {
    /// Ids or [`NO_ID`]. The length is a power of two, at least twice `count`.
    slots: Vec<TensorId>,
    count: usize,
}

impl Overflow {
    /// Returns the number of tensors in the table.
    fn len(&self) -> usize {
        self.count
    }

    /// Adds one of `tensors`, which is not in the table.
    fn add(&mut self, id: TensorId, tensors: &[TensorRef<'_>]) {
        self.count += 1;
        if 2 * self.count > self.slots.len() {
            let larger = vec![NO_ID; (2 * self.slots.len()).max(16)];
            for known in std::mem::replace(&mut self.slots, larger) {
                if known != NO_ID {
                    self.put(known, tensors);
                }
            }
        }
        self.put(id, tensors);
    }

    fn put(&mut self, id: TensorId, tensors: &[TensorRef<'_>]) {
        let mut slot = self.first_slot(tensors[id as usize].address());
        while self.slots[slot] != NO_ID {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = id;
    }

    /// Returns the id of the tensor at `address`, if it is in the table.
    fn id(&self, address: usize, tensors: &[TensorRef<'_>]) -> Option<TensorId> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.first_slot(address);
        while let id = self.slots[slot]
            && let Some(&tensor) = tensors.get(id as usize)
        {
            if tensor.address() == address {
                return Some(id);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Multiplies by the golden ratio and takes the high bits: the low bits of pointers are all equal.
    fn first_slot(&self, address: usize) -> usize {
        address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (usize::BITS - self.slots.len().trailing_zeros())
    }
}

/// Returns the length of the table: `used` cells of contexts, within limits that depend on the number of tensors.
fn cells_for(tensors: usize, used: usize) -> usize {
    used.clamp(2 * tensors + 2, 4 * tensors + 4).next_power_of_two()
}
