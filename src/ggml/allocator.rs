//! The graph allocator: plans a graph, gets the buffers, and gives the tensors their addresses.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::graph::{Address, GraphPlan, PlanError, Pool, PoolId, Requests, Rules, plan};
use crate::placement::Bytes;

use super::buffers::{Buffer, BufferType};
use super::fit::{Assignment, Fitting, Planned};
use super::read::{Reading, read};
use super::runtime::Runtime;
use super::tensor::GraphRef;

/// How many plans this process has made.
static PLANS: AtomicU64 = AtomicU64::new(0);

/// Why the allocator could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The graph is not the one that was reserved, and with several buffers nobody says which tensor goes where.
    NeedsReserve,
    /// There is not enough memory for this buffer.
    NoMemory {
        /// The name of the buffer type.
        buffer: String,
        /// Bytes that the plan needs in it.
        size: Bytes,
    },
    /// The graph lists a tensor twice where the planned one has two tensors.
    ListedTwice,
    /// The backend could not initialize this tensor.
    InitFailed {
        /// The name of the tensor.
        tensor: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsReserve => write!(f, "the graph differs from the reserved one: reserve it first"),
            Self::NoMemory { buffer, size } => write!(f, "failed to allocate {buffer} buffer of size {size}"),
            Self::ListedTwice => write!(f, "the graph lists a tensor twice, and the reserved graph did not"),
            Self::InitFailed { tensor } => write!(f, "failed to initialize tensor {tensor}"),
        }
    }
}

/// What the latest plan wants of one pool, whether or not it got it.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    size: Bytes,
    lower_bound: Bytes,
}

/// What a `ggml_gallocr_t` points to.
#[derive(Debug)]
pub struct Allocator {
    runtime: &'static Runtime,
    /// By pool.
    types: Vec<BufferType>,
    /// By pool.
    pools: Vec<Pool>,
    /// By buffer id: ids that name the same buffer type share a pool.
    pool_of: Vec<PoolId>,
    /// By pool: its chunks, once it was allocated.
    buffers: Vec<Option<Vec<Buffer>>>,
    /// By pool.
    wanted: Vec<Wanted>,
    planned: Option<Planned>,
}

impl Allocator {
    /// An allocator without memory; buffer id `i` stands for `types[i]`.
    pub fn new(runtime: &'static Runtime, types: &[BufferType]) -> Self {
        let mut distinct: Vec<BufferType> = Vec::new();
        let mut pool_of = Vec::with_capacity(types.len());
        for &buffer_type in types {
            let known = distinct.iter().position(|&other| other == buffer_type);
            let pool = known.unwrap_or_else(|| {
                distinct.push(buffer_type);
                distinct.len() - 1
            });
            pool_of.push(PoolId::try_from(pool).expect("fewer than 2^32 buffers"));
        }
        Self {
            runtime,
            pools: distinct.iter().map(|buffer_type| buffer_type.pool()).collect(),
            buffers: distinct.iter().map(|_| None).collect(),
            wanted: vec![Wanted::default(); distinct.len()],
            types: distinct,
            pool_of,
            planned: None,
        }
    }

    /// How many plans this process has made.
    pub fn plan_count() -> u64 {
        PLANS.load(Ordering::Relaxed)
    }

    /// The ggml it works for.
    pub fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    /// How many buffer ids there are.
    pub fn buffer_count(&self) -> usize {
        self.pool_of.len()
    }

    /// Bytes of the buffer behind an id; 0 for an id that repeats the buffer type of an earlier one.
    pub fn buffer_size(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |pool| self.buffers[pool].iter().flatten().map(Buffer::size).sum())
    }

    /// Bytes that the latest plan wants for an id, whether or not it got them.
    pub fn wanted_size(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |pool| self.wanted[pool].size)
    }

    /// The lower bound of the latest plan for an id.
    pub fn lower_bound(&self, id: usize) -> Bytes {
        self.first_use(id).map_or(0, |pool| self.wanted[pool].lower_bound)
    }

    /// The pool of an id, if no earlier id stands for the same.
    fn first_use(&self, id: usize) -> Option<usize> {
        let pool = self.pool_of[id];
        (!self.pool_of[..id].contains(&pool)).then_some(pool as usize)
    }

    /// Plans `graph` and gets the buffers for it; the graph itself is not touched. `None` for the ids means 0.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`]; the allocator then holds no plan and can be used again.
    pub fn reserve(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        self.reserve_reading(&read(self.runtime, graph), node_ids, leaf_ids)
    }

    /// Plans `graph` and tells the bytes by id; neither the graph nor the buffers nor the plan in use are touched.
    ///
    /// # Errors
    /// [`Refusal::NoMemory`] when sizes overflow.
    pub fn measure(
        &mut self,
        graph: GraphRef<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<Vec<Bytes>, Refusal> {
        self.plan(&read(self.runtime, graph), node_ids, leaf_ids)?;
        Ok(self.pool_of.iter().map(|&pool| self.wanted[pool as usize].size).collect())
    }

    /// Gives every tensor of `graph` its memory. With one buffer a graph that was not reserved is reserved now.
    ///
    /// # Errors
    /// [`Refusal`] says why not.
    pub fn allocate(&mut self, graph: GraphRef<'_>) -> Result<(), Refusal> {
        let fitting = self.planned.as_mut().and_then(|planned| planned.fit(self.runtime, &self.types, graph));
        let fitting = match fitting {
            Some(fitting) => fitting,
            None if self.pool_of.len() == 1 => {
                let reading = read(self.runtime, graph);
                self.reserve_reading(&reading, None, None)?;
                let Some(planned) = &self.planned else { return Err(Refusal::NeedsReserve) };
                Fitting::itself(&reading, planned)
            }
            None if self.planned.is_none() && graph.leafs.is_empty() && graph.nodes.is_empty() => return Ok(()),
            None => return Err(Refusal::NeedsReserve),
        };
        self.assign(&fitting)
    }

    fn reserve_reading(
        &mut self,
        reading: &Reading<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<(), Refusal> {
        self.planned = None;
        let plan = self.plan(reading, node_ids, leaf_ids)?;
        for (pool, pool_plan) in plan.pools.iter().enumerate() {
            self.ensure_buffer(pool, &pool_plan.placement.chunks)?;
        }
        self.planned = Some(Planned::new(reading, &plan));
        Ok(())
    }

    fn plan(
        &mut self,
        reading: &Reading<'_>,
        node_ids: Option<&[usize]>,
        leaf_ids: Option<&[usize]>,
    ) -> Result<GraphPlan, Refusal> {
        PLANS.fetch_add(1, Ordering::Relaxed);
        let nodes = self.requested(node_ids, reading.graph.nodes().len());
        let leafs = self.requested(leaf_ids, reading.graph.leafs().len());
        let requests = Requests { leafs: &leafs, nodes: &nodes };
        let mut sizes =
            |tensor: u32, pool: PoolId| self.types[pool as usize].alloc_size(reading.tensors[tensor as usize]);
        let planned = plan(&reading.graph, &self.pools, requests, Rules::default(), &mut sizes);
        let plan = planned.map_err(|PlanError::TooLarge { pool, bytes }| {
            self.wanted[pool as usize] = Wanted { size: bytes, lower_bound: bytes };
            Refusal::NoMemory { buffer: self.types[pool as usize].name(), size: bytes }
        })?;
        #[cfg(debug_assertions)]
        self.check(reading, &plan);
        for (wanted, pool) in self.wanted.iter_mut().zip(&plan.pools) {
            *wanted = Wanted { size: pool.placement.size(), lower_bound: pool.lower_bound };
        }
        Ok(plan)
    }

    fn requested(&self, ids: Option<&[usize]>, count: usize) -> Vec<PoolId> {
        match ids {
            Some(ids) => ids.iter().map(|&id| self.pool_of[id]).collect(),
            None => vec![self.pool_of[0]; count],
        }
    }

    /// Debug builds trust no plan.
    #[cfg(debug_assertions)]
    fn check(&self, reading: &Reading<'_>, plan: &GraphPlan) {
        let nbytes: Vec<Bytes> = reading.tensors.iter().map(|&tensor| self.runtime.nbytes(tensor)).collect();
        if let Err(corruption) = crate::graph::simulate(&reading.graph, plan, &nbytes) {
            panic!("the plan is wrong: {corruption}");
        }
    }

    /// Replaces the chunks of a pool when there are none yet or one is too small. The old ones are freed first, so
    /// that both never take memory at once.
    fn ensure_buffer(&mut self, pool: usize, chunks: &[Bytes]) -> Result<(), Refusal> {
        let large_enough = self.buffers[pool].as_ref().is_some_and(|buffers| {
            let sizes = buffers.iter().map(Buffer::size).chain(std::iter::repeat(0));
            chunks.iter().zip(sizes).all(|(&wanted, size)| wanted <= size)
        });
        if large_enough {
            return Ok(());
        }
        self.buffers[pool] = None;
        let buffer_type = self.types[pool];
        let allocate = |&size: &Bytes| buffer_type.allocate(size).inspect(Buffer::use_for_compute);
        let buffers: Option<Vec<Buffer>> = chunks.iter().map(allocate).collect();
        let Some(buffers) = buffers else {
            return Err(Refusal::NoMemory { buffer: buffer_type.name(), size: chunks.iter().sum() });
        };
        self.buffers[pool] = Some(buffers);
        Ok(())
    }

    fn assign(&self, fitting: &Fitting<'_>) -> Result<(), Refusal> {
        let Some(planned) = &self.planned else { return Err(Refusal::NeedsReserve) };
        self.buffers.iter().flatten().flatten().for_each(Buffer::reset);
        let mut waiting = fitting.waiting;
        for assignment in planned.assignments(fitting) {
            let (tensor, done) = match assignment {
                Assignment::Place(tensor, address) => {
                    waiting -= 1;
                    (tensor, self.chunk(address).place(tensor, address.offset))
                }
                Assignment::PlaceView(tensor) => (tensor, self.runtime.place_view(tensor)),
            };
            done.map_err(|_| Refusal::InitFailed { tensor: tensor.name() })?;
        }
        // One tensor got two places: the planned graph had two tensors there.
        if waiting == 0 { Ok(()) } else { Err(Refusal::ListedTwice) }
    }

    fn chunk(&self, address: Address) -> &Buffer {
        let chunks = self.buffers[address.pool as usize].as_ref().expect("a plan has its buffers");
        &chunks[address.chunk as usize]
    }
}
