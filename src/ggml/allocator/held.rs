//! The buffers that an allocator holds for its latest plan.

use crate::ggml::buffers::Buffer;
use crate::ggml::planned::Planned;
use crate::placement::Bytes;

use super::{Allocator, Refusal, Wanted};

impl Allocator {
    /// Gets the buffers of the latest plan, and tells of what has changed. Without them there is no plan.
    pub(super) fn get_buffers(&mut self) -> Result<(), Refusal> {
        let counts = self.plans.first().map(|planned| [planned.graph.leafs().len(), planned.graph.nodes().len()]);
        let done = self.ensure_buffers();
        let held = self.chunks.iter().flatten().flatten().map(Buffer::size).sum();
        if (self.statistics.has_buffers(held) | (self.statistics.plans != self.told))
            && let Some(counts) = counts
        {
            self.told = self.statistics.plans;
            self.tell_plan(counts);
        }
        done
    }

    fn ensure_buffers(&mut self) -> Result<(), Refusal> {
        for buffer in 0..self.types.len() {
            let Some(planned) = self.plans.first() else { return Ok(()) };
            let plan = &planned.buffers()[buffer];
            self.wanted[buffer] = Wanted { size: plan.placement.size(), lower_bound: plan.lower_bound };
            if !self.is_large_enough(buffer, &plan.placement.chunks) {
                let chunks = plan.placement.chunks.clone();
                self.replace_buffer(buffer, &chunks).inspect_err(|_| self.plans.clear())?;
            }
        }
        Ok(())
    }

    pub(super) fn has_buffers(&self, planned: &Planned) -> bool {
        let mut buffers = planned.buffers().iter().enumerate();
        buffers.all(|(buffer, plan)| self.is_large_enough(buffer, &plan.placement.chunks))
    }

    /// A chunk without bytes counts too: what lies in it takes its address from there.
    fn is_large_enough(&self, buffer: usize, chunks: &[Bytes]) -> bool {
        self.chunks[buffer].as_ref().is_some_and(|buffers| {
            chunks.len() <= buffers.len() && chunks.iter().zip(buffers).all(|(&wanted, held)| wanted <= held.size())
        })
    }

    /// Replaces the chunks of a buffer. The old ones are freed first, so that both never take memory at once.
    fn replace_buffer(&mut self, buffer: usize, chunks: &[Bytes]) -> Result<(), Refusal> {
        self.chunks[buffer] = None;
        self.verifier.forget();
        let buffer_type = self.types[buffer];
        let allocate = |&size: &Bytes| buffer_type.allocate(size).inspect(Buffer::use_for_compute);
        let buffers: Option<Vec<Buffer>> = chunks.iter().map(allocate).collect();
        let Some(buffers) = buffers else {
            return Err(Refusal::NoMemory { buffer: buffer_type.name(), size: chunks.iter().sum() });
        };
        self.chunks[buffer] = Some(buffers);
        Ok(())
    }
}
