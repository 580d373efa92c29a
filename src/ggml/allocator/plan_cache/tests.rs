//! Tests of the key of a graph: which changes to a live graph make it another one.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use crate::ggml::bindings::{ggml_backend_buffer, ggml_tensor};
use crate::ggml::live::tensor::{GraphRef, TensorRef};
use crate::ggml::outputs::redirect::{OUTPUT_SLOT, redirected_to};
use crate::graph::{Flags, Graph, InPlace, Op, Tensor, View, id_of};

use super::key::GraphKey;

const OP: u32 = 7;
const WEIGHT: usize = 0;
const INPUT: usize = 1;
const RESULT: usize = 2;
const VIEW: usize = 3;
const UNLISTED: usize = 4;

/// A weight, an input, the result of both, and a view of that; and a tensor in neither list.
struct Live {
    tensors: Vec<ggml_tensor>,
    memory: ggml_backend_buffer,
    /// Whether the graph refers to the tensor in neither list.
    refers_to_unlisted: bool,
}

impl Live {
    fn new() -> Self {
        // SAFETY: zero is valid for every field of a tensor.
        let empty = || unsafe { MaybeUninit::<ggml_tensor>::zeroed().assume_init() };
        // SAFETY: the type is opaque and never read.
        let memory = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut live = Self { tensors: (0..5).map(|_| empty()).collect(), memory, refers_to_unlisted: false };
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

    /// Returns a graph in which tensor `by` refers to an unlisted tensor with memory, as a source or a root.
    fn with_unlisted(refer: fn(&mut ggml_tensor, *mut ggml_tensor), by: usize) -> Self {
        let mut live = Self { refers_to_unlisted: true, ..Self::new() };
        live.tensors[UNLISTED].buffer = &raw mut live.memory;
        let unlisted = live.address(UNLISTED);
        refer(&mut live.tensors[by], unlisted);
        live
    }

    fn address(&mut self, at: usize) -> *mut ggml_tensor {
        &raw mut self.tensors[at]
    }

    fn all(&mut self) -> Vec<TensorRef<'_>> {
        let addresses: Vec<_> = (0..4 + usize::from(self.refers_to_unlisted)).map(|at| self.address(at)).collect();
        // SAFETY: the tensors live as long as the references, and refer to each other only.
        addresses.into_iter().filter_map(|tensor| unsafe { TensorRef::new(tensor) }).collect()
    }

    /// Returns what `read` would return, and its key.
    fn key(&mut self) -> (GraphKey, Graph) {
        let tensors = self.all();
        let mut plain = Graph::with_capacity(tensors.len());
        let id = |of: TensorRef<'_>| id_of(tensors.iter().position(|tensor| *tensor == of).expect("one of them"));
        for tensor in &tensors {
            let offset = tensor.view_offset() as u64;
            let view = tensor.view_source().map(|root| View { root: id(root), offset });
            let external = view.is_none() && tensor.has_memory();
            let facts =
                Tensor { flags: Flags(tensor.flags()), view, op: Op::Unknown, in_place: InPlace::Never, external };
            plain.add(facts, tensor.layout());
        }
        tensors.iter().for_each(|tensor| plain.push_sources(tensor.sources().map(id)));
        plain.list_leafs(0..2);
        plain.list_nodes(2..4);
        let ops = tensors.iter().map(|tensor| tensor.op()).collect();
        let redirected = tensors.iter().filter(|tensor| redirected_to(**tensor).is_some()).map(|it| id(*it)).collect();
        (GraphKey::new(tensors.clone(), ops, redirected, &plain, 4), plain)
    }

    fn matches(&mut self, (key, plain): &(GraphKey, Graph)) -> bool {
        let tensors = self.all();
        key.matches(GraphRef { leafs: &tensors[..2], nodes: &tensors[2..4] }, plain)
    }
}

#[test]
fn key_covers_everything_that_planning_reads() {
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
        let known = live.key();
        assert!(live.matches(&known), "before: {what}");
        change(&mut live);
        assert!(!live.matches(&known), "{what}");
    }
}

#[test]
fn key_covers_addresses_and_lists() {
    let (mut one, mut other) = (Live::new(), Live::new());
    let known = one.key();
    assert!(!other.matches(&known), "tensors at other addresses");
    let tensors = one.all();
    let (key, plain) = &known;
    assert!(!key.matches(GraphRef { leafs: &tensors[..1], nodes: &tensors[2..] }, plain));
    assert!(!key.matches(GraphRef { leafs: &tensors[..2], nodes: &tensors[2..3] }, plain));
    assert!(!key.matches(GraphRef { leafs: &[tensors[1], tensors[0]], nodes: &tensors[2..] }, plain));
}

#[test]
fn unlisted_tensor_must_have_memory() {
    type Refer = fn(&mut ggml_tensor, *mut ggml_tensor);
    let ways: [(Refer, usize); 3] = [
        (|tensor, unlisted| tensor.view_src = unlisted, INPUT),
        (|tensor, unlisted| tensor.view_src = unlisted, VIEW),
        (|tensor, unlisted| tensor.src[4] = unlisted, RESULT),
    ];
    for (way, (refer, by)) in ways.into_iter().enumerate() {
        let mut live = Live::with_unlisted(refer, by);
        let known = live.key();
        assert!(live.matches(&known), "{way}");
        live.tensors[UNLISTED].ne[1] = 77;
        assert!(live.matches(&known), "{way}: another layout");
        live.tensors[UNLISTED].view_src = live.address(WEIGHT);
        assert!(!live.matches(&known), "{way}: a view");
        (live.tensors[UNLISTED].view_src, live.tensors[UNLISTED].buffer) = (null_mut(), null_mut());
        assert!(!live.matches(&known), "{way}: without memory");
    }
}

#[test]
fn key_covers_whether_a_result_is_redirected() {
    let mut live = Live::new();
    live.tensors[VIEW].src[1] = live.address(INPUT);
    let known = live.key();
    assert!(live.matches(&known));
    live.tensors[VIEW].src.swap(1, OUTPUT_SLOT);
    assert!(!live.matches(&known));
}

#[test]
fn redirected_results_never_match_beside_unlisted_tensors() {
    let mut live = Live::with_unlisted(|tensor, unlisted| tensor.src[4] = unlisted, RESULT);
    live.tensors[VIEW].src[OUTPUT_SLOT] = live.address(INPUT);
    let known = live.key();
    assert!(!live.matches(&known));
    live = Live::new();
    live.tensors[VIEW].src[OUTPUT_SLOT] = live.address(INPUT);
    let known = live.key();
    assert!(live.matches(&known), "all tensors are listed");
}

#[test]
fn key_ignores_what_planning_does_not_read() {
    let mut live = Live::new();
    let known = live.key();
    live.tensors[RESULT].op_params[3] = 5;
    live.tensors[RESULT].name[0] = 1;
    live.tensors[WEIGHT].ne[0] += 1;
    live.tensors[RESULT].src.swap(1, 5);
    assert!(live.matches(&known));
}
