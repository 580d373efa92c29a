//! Is a graph the one that was planned?
//!
//! Programs build their graph anew for every token, mostly in the same memory. A graph whose tensors are where those of the
//! planned one were, and of which planning would read the same, need not be planned again.

use crate::graph::{Graph, Tensor, TensorId};

use crate::ggml::live::ids::id_of;
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::outputs::redirect::redirected_to;

/// What tells a graph from others, beside what planning reads of it. Its tensors are in its lists, each once, but for some
/// that came with memory.
#[derive(Debug)]
pub struct GraphKey {
    /// By id, where each tensor was.
    addresses: Vec<usize>,
    /// By id, ggml's number of the operation; not of constants.
    ops: Vec<u32>,
    /// The tensors whose results are redirected.
    redirecting: Vec<TensorId>,
    /// For each tensor in no list, who leads to it.
    mentions: Vec<Mention>,
}

/// Where a tensor that is in no list is referred to.
#[derive(Clone, Copy, Debug)]
struct Mention {
    /// Who refers to it, and is in a list.
    by: TensorId,
    /// As which of its sources; as what it is a view of where there is no number.
    source: Option<usize>,
}

impl GraphKey {
    /// Of a graph with these tensors, which was read as `plain`; the first `listed` are in its lists.
    pub fn new(
        tensors: Vec<TensorRef<'_>>,
        ops: Vec<u32>,
        redirecting: Vec<TensorId>,
        plain: &Graph,
        listed: usize,
    ) -> Self {
        let mentions = if tensors.len() > listed { mentions(plain, listed) } else { Vec::new() };
        Self { addresses: tensors.into_iter().map(address).collect(), ops, redirecting, mentions }
    }

    /// Are they those of `graph`, when it was read as `plain` before? Of constants nothing matters but where they are.
    pub fn are_those_of(&self, graph: GraphRef<'_>, plain: &Graph) -> bool {
        let leafs = plain.leafs().len();
        if graph.leafs.len() != leafs || graph.nodes.len() != plain.nodes().len() {
            return false;
        }
        // Whether results may be redirected depends on more of what is in no list: on its buffer, layout and sources.
        if !self.mentions.is_empty() && !self.redirecting.is_empty() {
            return false;
        }
        // Graphs of one model have the same leafs, and differ in their nodes.
        self.are_same(plain, leafs, graph.nodes)
            && (0..).zip(graph.leafs).all(|(id, leaf)| self.is_same_leaf(plain, id, *leaf))
            && self.mentions.iter().all(|mention| mention.has_memory(graph))
    }

    fn is_same_leaf(&self, plain: &Graph, id: usize, leaf: TensorRef<'_>) -> bool {
        let is_constant = leaf.is_constant();
        let is_same = || if is_constant { true } else { self.are_same(plain, id, &[leaf]) };
        address(leaf) == self.addresses[id] && is_constant == was_constant(plain, id) && is_same()
    }

    /// Are `tensors` those with the ids from `first` on in `plain`, and would planning read them as it read those?
    fn are_same(&self, plain: &Graph, first: usize, tensors: &[TensorRef<'_>]) -> bool {
        let known = self.addresses[first..].iter().zip(&self.ops[first..]);
        let planned = plain.tensors()[first..].iter().zip(&plain.layout_ids()[first..]);
        (first..).zip(tensors.iter().zip(known).zip(planned)).all(
            #[inline(always)]
            |(id, ((&tensor, (&known, &op)), (planned, &layout)))| {
                let says_the_same = (address(tensor) == known)
                    & (tensor.op() == op)
                    & (tensor.flags() == planned.flags.0)
                    & tensor.layout().is(plain.layout_of_id(layout));
                says_the_same && self.has_same_memory(planned, tensor) && self.reads_the_same(plain, id, tensor)
            },
        )
    }

    #[inline(always)]
    fn has_same_memory(&self, planned: &Tensor, tensor: TensorRef<'_>) -> bool {
        match (planned.view, tensor.view_source()) {
            (None, None) => tensor.has_memory() == planned.external,
            (Some(view), Some(root)) => {
                (address(root) == self.addresses[view.root as usize]) & (tensor.view_offset() as u64 == view.offset)
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn reads_the_same(&self, plain: &Graph, id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = plain.sources(id_of(id));
        let (slots, others) = tensor.used_slots();
        let is_planned = |(at, slot): (usize, &Option<TensorRef<'_>>)| {
            slot.map_or(0, address) == planned.get(at).map_or(0, |&known| self.addresses[known as usize])
        };
        // Nearly all tensors have few sources, in the first slots.
        let is_same = others.is_none() && planned.len() <= slots.len() && slots.iter().enumerate().all(is_planned);
        (is_same && self.redirecting.is_empty()) || self.reads_the_same_somewhere(planned, id, tensor)
    }

    /// Does it read the `planned` tensors, in whichever slots?
    #[cold]
    fn reads_the_same_somewhere(&self, planned: &[TensorId], id: usize, tensor: TensorRef<'_>) -> bool {
        let planned = planned.iter().map(|&known| self.addresses[known as usize]);
        tensor.sources().map(address).eq(planned) && self.is_redirected_as_before(id, tensor)
    }

    /// Slots matter nowhere else.
    fn is_redirected_as_before(&self, id: usize, tensor: TensorRef<'_>) -> bool {
        redirected_to(tensor).is_some() == self.redirecting.contains(&id_of(id))
    }
}

impl Mention {
    /// Has the tensor memory that `graph` does not give it? Nothing else is read of one that is in no list.
    fn has_memory(&self, graph: GraphRef<'_>) -> bool {
        let by = self.by as usize;
        let by = graph.leafs.get(by).or_else(|| graph.nodes.get(by - graph.leafs.len()));
        let tensor = by.and_then(|by| match self.source {
            Some(at) => by.sources().nth(at),
            None => by.view_source(),
        });
        tensor.is_some_and(|tensor| tensor.has_memory() && tensor.view_source().is_none())
    }
}

/// Where the tensors behind the first `listed` are referred to by those.
fn mentions(plain: &Graph, listed: usize) -> Vec<Mention> {
    let mut known = vec![false; plain.tensors().len() - listed];
    let mut mentions = Vec::new();
    for (by, tensor) in (0..).zip(&plain.tensors()[..listed]) {
        let sources = plain.sources(by).iter().enumerate().map(|(at, &source)| (source, Some(at)));
        for (id, source) in sources.chain(tensor.view.map(|view| (view.root, None))) {
            if let Some(known) = (id as usize).checked_sub(listed).and_then(|stranger| known.get_mut(stranger))
                && !std::mem::replace(known, true)
            {
                mentions.push(Mention { by, source });
            }
        }
    }
    mentions
}

fn was_constant(plain: &Graph, id: usize) -> bool {
    let tensor = &plain.tensors()[id];
    tensor.external && tensor.view.is_none() && plain.sources(id_of(id)).is_empty()
}

fn address(tensor: TensorRef<'_>) -> usize {
    tensor.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    use crate::ggml::bindings::ggml_backend_buffer;
    use crate::ggml::bindings::ggml_tensor;
    use crate::ggml::outputs::redirect::WANTED_SLOT;
    use crate::graph::{Flags, Operation, View};

    use super::*;

    const OP: u32 = 7;
    const WEIGHT: usize = 0;
    const INPUT: usize = 1;
    const RESULT: usize = 2;
    const VIEW: usize = 3;
    const STRANGER: usize = 4;

    /// A weight, an input, the result of both, and a view of that; and a tensor in no list.
    struct Live {
        tensors: Vec<ggml_tensor>,
        memory: ggml_backend_buffer,
        /// Does the graph refer to the one in no list?
        has_stranger: bool,
    }

    impl Live {
        fn new() -> Self {
            // SAFETY: no field of a tensor may not be zero.
            let empty = || unsafe { MaybeUninit::<ggml_tensor>::zeroed().assume_init() };
            // SAFETY: nothing is known of what is in a buffer.
            let memory = unsafe { MaybeUninit::zeroed().assume_init() };
            let mut live = Self { tensors: (0..5).map(|_| empty()).collect(), memory, has_stranger: false };
            for tensor in &mut live.tensors {
                (tensor.op, tensor.ne, tensor.nb) = (OP, [8, 4, 1, 1], [4, 32, 128, 128]);
            }
            let [weight, input, result] = [WEIGHT, INPUT, RESULT].map(|at| live.address(at));
            live.tensors[WEIGHT].buffer = &raw mut live.memory;
            live.tensors[INPUT].flags = Flags::INPUT.0.cast_signed();
            live.tensors[RESULT].src[..2].copy_from_slice(&[weight, input]);
            live.tensors[VIEW].src[0] = result;
            (live.tensors[VIEW].view_src, live.tensors[VIEW].view_offs) = (result, 16);
            live
        }

        /// One that refers to a tensor in no list, as a source or by a view, which has memory.
        fn with_stranger(refer: fn(&mut ggml_tensor, *mut ggml_tensor), by: usize) -> Self {
            let mut live = Self { has_stranger: true, ..Self::new() };
            live.tensors[STRANGER].buffer = &raw mut live.memory;
            let stranger = live.address(STRANGER);
            refer(&mut live.tensors[by], stranger);
            live
        }

        fn address(&mut self, at: usize) -> *mut ggml_tensor {
            &raw mut self.tensors[at]
        }

        fn all(&mut self) -> Vec<TensorRef<'_>> {
            let addresses: Vec<_> = (0..4 + usize::from(self.has_stranger)).map(|at| self.address(at)).collect();
            // SAFETY: the tensors live as long as the references, and refer to each other only.
            addresses.into_iter().filter_map(|tensor| unsafe { TensorRef::new(tensor) }).collect()
        }

        /// As `read` reads it.
        fn looks(&mut self) -> (GraphKey, Graph) {
            let tensors = self.all();
            let mut plain = Graph::with_capacity(tensors.len());
            let id = |of: TensorRef<'_>| id_of(tensors.iter().position(|tensor| *tensor == of).expect("one of them"));
            for tensor in &tensors {
                let offset = tensor.view_offset() as u64;
                let view = tensor.view_source().map(|root| View { root: id(root), offset });
                let external = view.is_none() && tensor.has_memory();
                let facts = Tensor { flags: Flags(tensor.flags()), view, operation: Operation::Other, external };
                plain.add(facts, tensor.layout());
            }
            tensors.iter().for_each(|tensor| plain.push_sources(tensor.sources().map(id)));
            plain.list_leafs(0..2);
            plain.list_nodes(2..4);
            let ops = tensors.iter().map(|tensor| tensor.op()).collect();
            let redirecting =
                tensors.iter().filter(|tensor| redirected_to(**tensor).is_some()).map(|it| id(*it)).collect();
            (GraphKey::new(tensors.clone(), ops, redirecting, &plain, 4), plain)
        }

        fn is_known(&mut self, (looks, plain): &(GraphKey, Graph)) -> bool {
            let tensors = self.all();
            looks.are_those_of(GraphRef { leafs: &tensors[..2], nodes: &tensors[2..4] }, plain)
        }
    }

    #[test]
    fn whatever_planning_reads_makes_another_graph() {
        type Change = fn(&mut Live);
        let changes: [(&str, Change); 16] = [
            ("the operation", |it| it.tensors[RESULT].op += 1),
            ("the flags of a node", |it| it.tensors[RESULT].flags |= Flags::OUTPUT.0.cast_signed()),
            ("the flags of an input", |it| it.tensors[INPUT].flags = 0),
            ("the type", |it| it.tensors[RESULT].type_ += 1),
            ("an extent", |it| it.tensors[RESULT].ne[1] += 1),
            ("a stride", |it| it.tensors[VIEW].nb[3] += 4),
            ("the layout of an input", |it| it.tensors[INPUT].ne[0] += 1),
            ("the offset of a view", |it| it.tensors[VIEW].view_offs += 4),
            ("the root of a view", |it| it.tensors[VIEW].view_src = it.address(INPUT)),
            ("no view any more", |it| it.tensors[VIEW].view_src = null_mut()),
            ("the order of sources", |it| it.tensors[RESULT].src.swap(0, 1)),
            ("a source less", |it| it.tensors[RESULT].src[1] = null_mut()),
            ("a source more", |it| it.tensors[RESULT].src[2] = it.address(INPUT)),
            ("a result with memory", |it| it.tensors[RESULT].buffer = &raw mut it.memory),
            ("a weight without memory", |it| it.tensors[WEIGHT].buffer = null_mut()),
            ("a weight that is a view", |it| it.tensors[WEIGHT].view_src = it.address(INPUT)),
        ];
        for (what, change) in changes {
            let mut live = Live::new();
            let known = live.looks();
            assert!(live.is_known(&known), "before: {what}");
            change(&mut live);
            assert!(!live.is_known(&known), "{what}");
        }
    }

    #[test]
    fn other_tensors_and_other_lists_make_another_graph() {
        let (mut one, mut other) = (Live::new(), Live::new());
        let known = one.looks();
        assert!(!other.is_known(&known), "tensors at other addresses");
        let tensors = one.all();
        let (looks, plain) = &known;
        assert!(!looks.are_those_of(GraphRef { leafs: &tensors[..1], nodes: &tensors[2..] }, plain));
        assert!(!looks.are_those_of(GraphRef { leafs: &tensors[..2], nodes: &tensors[2..3] }, plain));
        assert!(!looks.are_those_of(GraphRef { leafs: &[tensors[1], tensors[0]], nodes: &tensors[2..] }, plain));
    }

    #[test]
    fn a_tensor_in_no_list_must_have_its_memory() {
        type Refer = fn(&mut ggml_tensor, *mut ggml_tensor);
        let ways: [(Refer, usize); 3] = [
            (|tensor, stranger| tensor.view_src = stranger, INPUT),
            (|tensor, stranger| tensor.view_src = stranger, VIEW),
            (|tensor, stranger| tensor.src[4] = stranger, RESULT),
        ];
        for (way, (refer, by)) in ways.into_iter().enumerate() {
            let mut live = Live::with_stranger(refer, by);
            let known = live.looks();
            assert!(live.is_known(&known), "{way}");
            live.tensors[STRANGER].ne[1] = 77;
            assert!(live.is_known(&known), "{way}: another layout");
            live.tensors[STRANGER].view_src = live.address(WEIGHT);
            assert!(!live.is_known(&known), "{way}: a view");
            (live.tensors[STRANGER].view_src, live.tensors[STRANGER].buffer) = (null_mut(), null_mut());
            assert!(!live.is_known(&known), "{way}: without memory");
        }
    }

    #[test]
    fn a_result_that_is_redirected_makes_another_graph() {
        let mut live = Live::new();
        live.tensors[VIEW].src[1] = live.address(INPUT);
        let known = live.looks();
        assert!(live.is_known(&known));
        live.tensors[VIEW].src.swap(1, WANTED_SLOT);
        assert!(!live.is_known(&known));
    }

    #[test]
    fn redirected_results_are_checked_again_where_a_tensor_is_in_no_list() {
        let mut live = Live::with_stranger(|tensor, stranger| tensor.src[4] = stranger, RESULT);
        live.tensors[VIEW].src[WANTED_SLOT] = live.address(INPUT);
        let known = live.looks();
        assert!(!live.is_known(&known));
        live = Live::new();
        live.tensors[VIEW].src[WANTED_SLOT] = live.address(INPUT);
        let known = live.looks();
        assert!(live.is_known(&known), "all are in the lists");
    }

    #[test]
    fn what_planning_does_not_read_may_change() {
        let mut live = Live::new();
        let known = live.looks();
        live.tensors[RESULT].op_params[3] = 5;
        live.tensors[RESULT].name[0] = 1;
        live.tensors[WEIGHT].ne[0] += 1;
        live.tensors[RESULT].src.swap(1, 5);
        assert!(live.is_known(&known));
    }
}
