//! Checks that a ggml lays out its structs as lastuse expects, by building a tiny graph and comparing its fields with
//! known values: neither the name nor the size of a library determines the layout.

use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;

use crate::graph::Flags;

use crate::ggml::bindings::{ggml_bitset_t, ggml_cgraph, ggml_context, ggml_hash_set, ggml_init_params, ggml_tensor};
use crate::ggml::linking::functions::Functions;

/// The field that is not at the expected offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLayout(pub &'static str);

/// The offsets in a graph that differ between versions of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphLayout {
    /// Of the hash set with the tensors that ggml has visited.
    pub visited_hash_set: usize,
    /// Of the pointer to the counts of their uses; `None` in versions before 2025-06-29, which do not count.
    pub use_counts: Option<usize>,
}

impl GraphLayout {
    /// Those that are known.
    const ALL: [Self; 2] = [
        Self {
            visited_hash_set: offset_of!(ggml_cgraph, visited_hash_set),
            use_counts: Some(offset_of!(ggml_cgraph, use_counts)),
        },
        // The set begins where others have the pointer.
        Self { visited_hash_set: offset_of!(ggml_cgraph, use_counts), use_counts: None },
    ];
}

/// Elements of the probed tensor and view, and the offset of the view: values that occur nowhere else.
const EXTENT: i64 = 0x345;
const VIEW_EXTENT: i64 = 0x23;
const VIEW_OFFSET: usize = 0x570;
const F32: u32 = 0;

/// The nodes that the probed graph has room for.
const CAPACITY: c_int = 8;

/// Large enough for the graph and little more: fresh memory takes time, and the first call of a process waits for it.
const BUFFER_SIZE: usize = 16 << 10;

/// Builds a tensor, a view of it and a graph of one node, and checks their fields. Returns what differs between versions.
///
/// # Errors
/// The first field that is not at the expected offset.
pub fn probe(functions: &Functions) -> Result<GraphLayout, UnknownLayout> {
    // The memory of the context is ours and zeroed, so that any offset in it can be read.
    // ggml requires an alignment of 16 bytes.
    let mut memory = vec![0u128; BUFFER_SIZE / size_of::<u128>()];
    let params = ggml_init_params { mem_size: BUFFER_SIZE, mem_buffer: memory.as_mut_ptr().cast(), no_alloc: false };
    // SAFETY: the memory outlives the context, which is freed below.
    let context = unsafe { (functions.ggml_init)(params) };
    if context.is_null() {
        return Err(UnknownLayout("ggml_init_params"));
    }
    let region = memory.as_ptr_range();
    let result = check_layout(functions, context, region.start.cast()..region.end.cast());
    // SAFETY: the context was created above and is not used after this.
    unsafe { (functions.ggml_free)(context) };
    result
}

fn check_layout(
    functions: &Functions,
    context: *mut ggml_context,
    region: std::ops::Range<*const u8>,
) -> Result<GraphLayout, UnknownLayout> {
    // SAFETY: the context has room for the tensor and its data.
    let tensor = unsafe { (functions.ggml_new_tensor_1d)(context, F32, EXTENT) };
    // SAFETY: the view lies within the tensor.
    let view = unsafe { (functions.ggml_view_1d)(context, tensor, VIEW_EXTENT, VIEW_OFFSET) };
    // SAFETY: the tensor lives in this context.
    let node = unsafe { (functions.ggml_neg)(context, tensor) };
    // SAFETY: the context has room for a graph of this size.
    let graph = unsafe { (functions.ggml_new_graph_custom)(context, CAPACITY as usize, false) };
    // SAFETY: graph and node live in this context.
    unsafe { (functions.ggml_build_forward_expand)(graph, node) };
    // SAFETY: marks a live tensor.
    unsafe { (functions.ggml_set_input)(tensor) };
    // SAFETY: marks a live tensor.
    unsafe { (functions.ggml_set_output)(node) };
    // SAFETY: names a live tensor.
    unsafe { (functions.ggml_set_name)(node, c"probed".as_ptr()) };
    let fields = Fields { functions, region };
    // SAFETY: two live tensors of the context.
    unsafe { fields.check_tensors(tensor, view) }?;
    fields.expect_flag(node, Flags::OUTPUT)?;
    fields.expect("ggml_tensor.name", node, offset_of!(ggml_tensor, name), *b"probed\0")?;
    fields.check_graph(graph, tensor, node)
}

/// Reads fields at the offsets that lastuse expects, inside the memory of the probe.
struct Fields<'a> {
    functions: &'a Functions,
    region: std::ops::Range<*const u8>,
}

impl Fields<'_> {
    /// # Safety
    /// Both are live tensors of this ggml.
    unsafe fn check_tensors(&self, tensor: *mut ggml_tensor, view: *mut ggml_tensor) -> Result<(), UnknownLayout> {
        let [ne, nb] = [offset_of!(ggml_tensor, ne), offset_of!(ggml_tensor, nb)];
        self.expect("ggml_tensor.ne", tensor, ne, [EXTENT, 1, 1, 1])?;
        let row = 4 * usize::try_from(EXTENT).expect("a small number");
        self.expect("ggml_tensor.nb", tensor, nb, [4, row, row, row])?;
        self.expect("ggml_tensor.type", tensor, offset_of!(ggml_tensor, type_), F32)?;
        self.expect("ggml_tensor.buffer", tensor, offset_of!(ggml_tensor, buffer), 0usize)?;
        self.expect_flag(tensor, Flags::INPUT)?;
        self.expect("ggml_tensor.src", view, offset_of!(ggml_tensor, src), [tensor as usize, 0, 0])?;
        self.expect("ggml_tensor.view_src", view, offset_of!(ggml_tensor, view_src), tensor as usize)?;
        self.expect("ggml_tensor.view_offs", view, offset_of!(ggml_tensor, view_offs), VIEW_OFFSET)?;
        self.expect("ggml_tensor.op_params", view, offset_of!(ggml_tensor, op_params), VIEW_OFFSET)?;
        // SAFETY: a live tensor of this ggml.
        let data = unsafe { (self.functions.ggml_get_data)(tensor) };
        self.expect("ggml_tensor.data", tensor, offset_of!(ggml_tensor, data), data as usize)?;
        self.expect("ggml_tensor.data", view, offset_of!(ggml_tensor, data), data as usize + VIEW_OFFSET)?;
        self.expect_operation(tensor, c"NONE")?;
        self.expect_operation(view, c"VIEW")
    }

    fn check_graph(
        &self,
        graph: *mut ggml_cgraph,
        leaf: *mut ggml_tensor,
        node: *mut ggml_tensor,
    ) -> Result<GraphLayout, UnknownLayout> {
        let one: c_int = 1;
        self.expect("ggml_cgraph.size", graph, offset_of!(ggml_cgraph, size), CAPACITY)?;
        self.expect("ggml_cgraph.n_nodes", graph, offset_of!(ggml_cgraph, n_nodes), one)?;
        self.expect("ggml_cgraph.n_leafs", graph, offset_of!(ggml_cgraph, n_leafs), one)?;
        let nodes: *mut c_void = self.read("ggml_cgraph.nodes", graph, offset_of!(ggml_cgraph, nodes))?;
        let leafs: *mut c_void = self.read("ggml_cgraph.leafs", graph, offset_of!(ggml_cgraph, leafs))?;
        self.expect("ggml_cgraph.nodes", nodes, 0, node as usize)?;
        self.expect("ggml_cgraph.leafs", leafs, 0, leaf as usize)?;
        let has = |layout: &GraphLayout| self.expect_visited(graph, *layout, [(leaf as usize, 1), (node as usize, 0)]);
        let found = GraphLayout::ALL.into_iter().find(|layout| has(layout).is_ok());
        found.ok_or(UnknownLayout("ggml_cgraph.visited_hash_set"))
    }

    /// Expects that `graph` has visited these tensors and no others, each with how often it is used.
    fn expect_visited(
        &self,
        graph: *mut ggml_cgraph,
        layout: GraphLayout,
        expected: [(usize, i32); 2],
    ) -> Result<(), UnknownLayout> {
        const FIELD: &str = "ggml_cgraph.visited_hash_set";
        let set: ggml_hash_set = self.read(FIELD, graph, layout.visited_hash_set)?;
        let counts = layout.use_counts.map(|offset| self.read::<*mut i32>(FIELD, graph, offset)).transpose()?;
        let bits = ggml_bitset_t::BITS as usize;
        let mut missing: Vec<(usize, i32)> = expected.to_vec();
        // A number of slots that is none ends at the end of the memory of the probe.
        for slot in 0..set.size {
            let word: ggml_bitset_t = self.read(FIELD, set.used, slot / bits * size_of::<ggml_bitset_t>())?;
            if word >> (slot % bits) & 1 != 0 {
                let key: usize = self.read(FIELD, set.keys, slot * size_of::<usize>())?;
                let at = missing.iter().position(|&(tensor, _)| tensor == key).ok_or(UnknownLayout(FIELD))?;
                let (_, uses) = missing.swap_remove(at);
                counts.map_or(Ok(()), |counts| self.expect(FIELD, counts, slot * size_of::<i32>(), uses))?;
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(UnknownLayout(FIELD)) }
    }

    /// Expects an operation with this name. Large numbers are refused before ggml reads its table of names with them.
    fn expect_operation(&self, tensor: *mut ggml_tensor, name: &CStr) -> Result<(), UnknownLayout> {
        const FIELD: &str = "ggml_tensor.op";
        // Every ggml so far has more than 64 and fewer than 128 operations.
        let op: u32 = self.read(FIELD, tensor, offset_of!(ggml_tensor, op))?;
        if op >= 64 {
            return Err(UnknownLayout(FIELD));
        }
        // SAFETY: a number below the count of operations.
        let found = unsafe { (self.functions.ggml_op_name)(op) };
        // SAFETY: ggml's table of names holds strings that end in NUL.
        if unsafe { CStr::from_ptr(found) } == name { Ok(()) } else { Err(UnknownLayout(FIELD)) }
    }

    /// Expects this flag, and not the other one that lastuse knows. Further flags may be set, such as the one for "to
    /// be computed".
    fn expect_flag(&self, tensor: *mut ggml_tensor, flag: Flags) -> Result<(), UnknownLayout> {
        const FIELD: &str = "ggml_tensor.flags";
        let flags: u32 = self.read(FIELD, tensor, offset_of!(ggml_tensor, flags))?;
        let known = Flags::INPUT.0 | Flags::OUTPUT.0;
        if flags & known == flag.0 && flags < 256 { Ok(()) } else { Err(UnknownLayout(FIELD)) }
    }

    fn expect<T: Copy + PartialEq>(
        &self,
        field: &'static str,
        object: *mut impl Sized,
        offset: usize,
        value: T,
    ) -> Result<(), UnknownLayout> {
        if self.read::<T>(field, object, offset)? == value { Ok(()) } else { Err(UnknownLayout(field)) }
    }

    fn read<T: Copy>(&self, field: &'static str, object: *mut impl Sized, offset: usize) -> Result<T, UnknownLayout> {
        let start = object.cast::<u8>().cast_const().wrapping_add(offset);
        if start < self.region.start || start.wrapping_add(size_of::<T>()) > self.region.end {
            return Err(UnknownLayout(field));
        }
        // SAFETY: the bytes lie inside the zeroed memory of the probe, and any bytes are a value of the types that are
        // read: integers, pointers, and structs and arrays of these.
        Ok(unsafe { start.cast::<T>().read_unaligned() })
    }
}
