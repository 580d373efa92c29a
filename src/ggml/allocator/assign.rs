//! From the latest plan to the addresses of tensors.

use crate::ggml::buffers::Buffer;
use crate::ggml::fingerprint::Fingerprint;
use crate::ggml::fit::{Fitting, fit};
use crate::ggml::planned::{Assignment, Planned};
use crate::ggml::tensor::{GraphRef, TensorRef};
use crate::graph::{Address, TensorId};

use super::{Allocator, Refusal};

impl Allocator {
    /// Gives memory to a graph that the latest plan serves, tensor by tensor as they are listed. `None` when some are in
    /// no list.
    pub(super) fn assign_by_position(&self, graph: GraphRef<'_>) -> Option<Result<(), Refusal>> {
        let planned = self.plans.first()?;
        Some(self.assign(planned, planned.placed(), planned.tensors_of(graph)?))
    }

    pub(super) fn assign_if_fitting(&self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let fitting = self.plans.first().and_then(|planned| fit(planned, self.runtime, &self.types, graph));
        fitting.map_or(Err(Refusal::NeedsReserve), |fitting| self.assign_fitting(&fitting))
    }

    pub(super) fn assign_fitting(&self, fitting: &Fitting<'_>) -> Result<(), Refusal> {
        let Some(planned) = self.plans.first() else { return Err(Refusal::NeedsReserve) };
        self.assign(planned, fitting.waiting, |id| fitting.tensors[id as usize])
    }

    /// The next graph will be like this one rather than like the planned one: a prompt is planned, then tokens come. Sizes
    /// were not looked at of tensors that came with memory, so a graph with such is looked at each time.
    pub(super) fn remember(&mut self, fitting: &Fitting<'_>, fingerprint: Fingerprint) {
        if let Some(planned) = self.plans.first_mut().filter(|planned| planned.placed() == fitting.waiting) {
            planned.has_served(fingerprint);
        }
    }

    /// Gives memory to tensors, which are told by id; `waiting` of them wait for memory of the plan.
    fn assign<'g>(
        &self,
        planned: &Planned,
        mut waiting: usize,
        tensor: impl Fn(TensorId) -> Option<TensorRef<'g>>,
    ) -> Result<(), Refusal> {
        self.chunks.iter().flatten().flatten().for_each(Buffer::reset);
        for assignment in planned.assignments(&tensor) {
            let (tensor, done) = match assignment {
                Assignment::Place(tensor, address, alloc_size) => {
                    waiting -= 1;
                    (tensor, self.chunk(address).place_known(tensor, address.offset, alloc_size))
                }
                Assignment::PlaceView(tensor) => (tensor, self.runtime.place_view(tensor)),
            };
            done.map_err(|_| Refusal::InitFailed { tensor: tensor.name() })?;
        }
        // One tensor got two places: the planned graph had two tensors there.
        if waiting == 0 { Ok(()) } else { Err(Refusal::ListedTwice) }
    }

    fn chunk(&self, address: Address) -> &Buffer {
        let chunks = self.chunks[address.buffer as usize].as_ref().expect("a plan has its buffers");
        &chunks[address.chunk as usize]
    }
}
