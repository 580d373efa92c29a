//! Pointers become dense ids: the one lookup that planning does for every mention of a tensor.
//!
//! Memory is divided into cells that are smaller than a tensor, so that no two tensors begin in the same one. A table has an
//! entry for each cell of the contexts that the tensors lie in: a lookup reads an id there, and compares the address of that
//! tensor. Contexts lie anywhere in memory; [`Displacement`] moves their cells together without overlap. Where tensors are
//! scattered so widely that cells share an entry, [`Overflow`] holds all but the first.

mod displacement;
mod overflow;
#[cfg(test)]
mod tests;

use crate::graph::TensorId;

use crate::ggml::live::tensor::TensorRef;
use displacement::Displacement;
use overflow::{NO_ID, Overflow};

/// Regions are found by looking at one of so many tensors; a prime number, since layers repeat.
const SAMPLE: usize = 5;

/// Tensors in the order in which they were first met, and where each is.
#[derive(Debug)]
pub struct Ids<'g> {
    tensors: Vec<TensorRef<'g>>,
    displacement: Displacement,
    /// By cell, an id or [`NO_ID`]. A power of two of them, at least twice as many as tensors.
    cells: Vec<TensorId>,
    overflow: Overflow,
}

impl<'g> Ids<'g> {
    /// Of `tensors`, in their order; one that is there again has the id of the first.
    pub fn of(tensors: Vec<TensorRef<'g>>) -> Self {
        let most = tensors.len() / 16;
        match Self::of_sampled(tensors, SAMPLE) {
            Ok(ids) if ids.overflow.len() > most => Self::of_sampled(ids.tensors, 1),
            done => done,
        }
        .unwrap_or_else(|repeated| Self::of_distinct(&repeated))
    }

    /// The same where no tensor is there again, or else gives them back. Looks for regions at one of every `sample` tensors.
    fn of_sampled(tensors: Vec<TensorRef<'g>>, sample: usize) -> Result<Self, Vec<TensorRef<'g>>> {
        let samples = tensors.iter().step_by(sample).map(|&tensor| tensor.address());
        let (displacement, cells) = Displacement::of(samples, sample);
        let cells = vec![NO_ID; cells_for(tensors.capacity(), cells)];
        let mut ids = Self { tensors, displacement, cells, overflow: Overflow::default() };
        let mut next = 0;
        while let Some(crowded) = ids.take_cells(next) {
            let before = KnownIds { tensors: &ids.tensors[..crowded as usize], ..ids.known() };
            if before.id(ids.tensors[crowded as usize]).is_some() {
                return Err(ids.tensors);
            }
            ids.overflow.add(crowded, &ids.tensors);
            next = crowded + 1;
        }
        Ok(ids)
    }

    /// Enters the tensors from `next` on in their cells, up to one whose cell is taken.
    fn take_cells(&mut self, next: TensorId) -> Option<TensorId> {
        let Self { tensors, displacement, cells, .. } = self;
        for (id, &tensor) in (next..).zip(&tensors[next as usize..]) {
            let cell = displacement.cell(tensor.address()) & (cells.len() - 1);
            if cells[cell] != NO_ID {
                return Some(id);
            }
            cells[cell] = id;
        }
        None
    }

    /// Of `tensors` without those that are there already.
    #[cold]
    fn of_distinct(tensors: &[TensorRef<'g>]) -> Self {
        let mut ids = Self::with_capacity(tensors.len());
        for &tensor in tensors {
            ids.id(tensor);
        }
        ids
    }

    /// Of none yet, with room for `tensors`.
    pub fn with_capacity(tensors: usize) -> Self {
        Self {
            tensors: Vec::with_capacity(tensors),
            displacement: Displacement::none(),
            cells: vec![NO_ID; cells_for(tensors, 0)],
            overflow: Overflow::default(),
        }
    }

    /// The id of `tensor`; a new one when it was not met before.
    #[inline]
    pub fn id(&mut self, tensor: TensorRef<'g>) -> TensorId {
        match self.known().id(tensor) {
            Some(id) => id,
            None => self.add(tensor),
        }
    }

    /// Those that were met by now.
    #[inline]
    pub fn known(&self) -> KnownIds<'_, 'g> {
        let Self { tensors, displacement, cells, overflow } = self;
        KnownIds { tensors, displacement, cells, overflow }
    }

    /// Was `tensor` met before?
    pub fn contains(&self, tensor: TensorRef<'g>) -> bool {
        self.known().id(tensor).is_some()
    }

    /// Adds a tensor that was not met before.
    #[cold]
    fn add(&mut self, tensor: TensorRef<'g>) -> TensorId {
        let id =
            TensorId::try_from(self.tensors.len()).ok().filter(|&id| id != NO_ID).expect("fewer than 2^32 tensors");
        self.tensors.push(tensor);
        if 2 * self.tensors.len() > self.cells.len() {
            let mut tensors = std::mem::take(&mut self.tensors);
            tensors.reserve(tensors.len());
            *self = Self::of(tensors);
        } else if self.take_cells(id).is_some() {
            self.overflow.add(id, &self.tensors);
        }
        id
    }

    /// The tensors that were met, by id.
    pub fn tensors(&self) -> &[TensorRef<'g>] {
        &self.tensors
    }

    /// The tensors by id.
    pub fn into_tensors(self) -> Vec<TensorRef<'g>> {
        self.tensors
    }
}

/// Tensors that were met, where they are only looked up.
#[derive(Clone, Copy, Debug)]
pub struct KnownIds<'a, 'g> {
    tensors: &'a [TensorRef<'g>],
    displacement: &'a Displacement,
    cells: &'a [TensorId],
    overflow: &'a Overflow,
}

impl<'g> KnownIds<'_, 'g> {
    /// The id of `tensor`, if it was met before. Null is never met, so source slots can be looked up unchecked.
    #[inline]
    pub fn id(self, tensor: impl Into<Option<TensorRef<'g>>>) -> Option<TensorId> {
        let wanted = tensor.into().map_or(0, TensorRef::address);
        let (id, found) = self.in_cell(wanted)?;
        if found == wanted { Some(id) } else { self.overflow.id(wanted, self.tensors) }
    }

    /// The same, but for tensors whose cell is taken by another: loops that need nothing else keep all registers.
    #[inline(always)]
    pub fn id_in_cell(self, tensor: Option<TensorRef<'g>>) -> Option<TensorId> {
        let wanted = tensor.map_or(0, TensorRef::address);
        self.in_cell(wanted).filter(|&(_, found)| found == wanted).map(|(id, _)| id)
    }

    /// The tensor in the cell of `wanted`, and where that one lies.
    #[inline(always)]
    fn in_cell(self, wanted: usize) -> Option<(TensorId, usize)> {
        let id = self.cells[self.displacement.cell(wanted) & (self.cells.len() - 1)];
        self.tensors.get(id as usize).map(|&found| (id, found.address()))
    }
}

/// How many cells there are for `tensors` whose contexts have so many, where that is not too many.
fn cells_for(tensors: usize, used: usize) -> usize {
    used.clamp(2 * tensors + 2, 4 * tensors + 4).next_power_of_two()
}

/// Returns an index as an id.
pub fn id_of(index: usize) -> TensorId {
    TensorId::try_from(index).expect("fewer than 2^32 tensors")
}
