//! The buffer types of an allocator, their rules and limits, and the buffer ids that refer to them.

use crate::ggml::context::PendingTensors;
use crate::ggml::live::buffers::BufferType;
use crate::ggml::live::runtime::Runtime;
use crate::ggml::live::tensor::GraphRef;
use crate::ggml::process::settings::Settings;
use crate::ggml::read::Requested;
use crate::ggml::read::fingerprint::Fingerprint;
use crate::ggml::refusal::Refusal;
use crate::graph::{BufferIndex, BufferSpec, RuleSetting};
use crate::placement::Effort;

/// The distinct buffer types of an allocator. Each is planned as one buffer, in one or several chunks.
#[derive(Debug)]
pub struct BufferTypes {
    types: Vec<BufferType>,
    /// The source of the rules.
    setting: RuleSetting,
    /// True if a program uses the allocator itself.
    is_direct: bool,
    /// The rules and limits of each buffer.
    specs: Vec<BufferSpec>,
    /// The buffer behind each id. Ids that name one buffer type share its buffer.
    buffer_of_id: Vec<BufferIndex>,
}

impl BufferTypes {
    /// Buffer id `i` refers to `by_id[i]`; rules and effort come from `settings`.
    pub fn new(by_id: &[BufferType], settings: &Settings) -> Self {
        let mut types: Vec<BufferType> = Vec::new();
        let mut buffer_of_id = Vec::with_capacity(by_id.len());
        for &buffer_type in by_id {
            let known = types.iter().position(|&other| other == buffer_type);
            let index = known.unwrap_or_else(|| {
                types.push(buffer_type);
                types.len() - 1
            });
            buffer_of_id.push(BufferIndex::try_from(index).expect("fewer than 2^32 buffers"));
        }
        let specs = types.iter().map(|it| it.spec(&settings.rules, settings.effort)).collect();
        Self { types, setting: settings.rules.clone(), is_direct: false, specs, buffer_of_id }
    }

    /// Sets the in-place and aliasing rules for future plans.
    pub fn set_rules(&mut self, setting: &RuleSetting) {
        self.setting = if self.is_direct { setting.for_direct_use() } else { setting.clone() };
        for (spec, buffer_type) in self.specs.iter_mut().zip(&self.types) {
            spec.rules = buffer_type.rules(&self.setting);
        }
    }

    /// Sets the rules for future plans to those of an allocator that a program uses itself. Returns `true` unless they are
    /// those already.
    pub fn use_directly(&mut self) -> bool {
        let is_new = !std::mem::replace(&mut self.is_direct, true);
        if is_new {
            let setting = std::mem::take(&mut self.setting);
            self.set_rules(&setting);
        }
        is_new
    }

    /// Sets how much work placing may take in future plans.
    pub fn set_effort(&mut self, effort: Effort) {
        self.specs.iter_mut().for_each(|spec| spec.effort = effort);
    }

    /// The buffer types, by buffer.
    pub fn types(&self) -> &[BufferType] {
        &self.types
    }

    /// The rules and limits of each buffer.
    pub fn specs(&self) -> &[BufferSpec] {
        &self.specs
    }

    /// Returns `true` if the sizes of tensors depend on their layouts alone.
    pub fn are_sizes_by_layout(&self) -> bool {
        self.types.iter().all(|buffer_type| buffer_type.alloc_size_is_nbytes())
    }

    /// Returns the fingerprint that covers all of `graph` that plans depend on.
    pub fn fingerprint(&self, runtime: &Runtime, graph: GraphRef<'_>) -> Fingerprint {
        if self.are_sizes_by_layout() {
            Fingerprint::without_parameters(graph)
        } else {
            Fingerprint::of(&runtime.operations, graph)
        }
    }

    /// The number of buffer ids.
    pub fn id_count(&self) -> usize {
        self.buffer_of_id.len()
    }

    /// The buffer behind each id.
    pub fn buffer_of_id(&self) -> &[BufferIndex] {
        &self.buffer_of_id
    }

    /// The buffer behind `id`; `None` if an earlier id refers to it.
    pub fn first_use(&self, id: usize) -> Option<usize> {
        let buffer = self.buffer_of_id[id];
        (!self.buffer_of_id[..id].contains(&buffer)).then_some(buffer as usize)
    }

    /// Returns the pending tensors of `graph`, if each is requested in the buffer type of its context.
    ///
    /// # Errors
    /// [`Refusal::NotRealized`].
    pub fn pending<'g>(&self, graph: GraphRef<'g>, requested: &Requested) -> Result<PendingTensors<'g>, Refusal> {
        let pending = PendingTensors::in_graph(graph);
        if self.types.len() > 1 {
            pending.expect_in(|position| self.types[requested.buffer(position) as usize])?;
        }
        Ok(pending)
    }

    /// The buffers requested for the leafs and nodes of `graph`, where `None` for the ids means 0. Empty with a single
    /// buffer.
    pub fn requested(&self, graph: GraphRef<'_>, node_ids: Option<&[usize]>, leaf_ids: Option<&[usize]>) -> Requested {
        if self.types.len() == 1 {
            return Requested::default();
        }
        let buffers = |ids: Option<&[usize]>, count: usize| match ids {
            Some(ids) => ids.iter().map(|&id| self.buffer_of_id[id]).collect(),
            None => vec![self.buffer_of_id[0]; count],
        };
        Requested { leafs: buffers(leaf_ids, graph.leafs.len()), nodes: buffers(node_ids, graph.nodes.len()) }
    }
}
