//! What lastuse must know of an operation. Numbers move between versions of ggml, so operations are known by name.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::OnceLock;

use crate::graph::copies::Kind;
use crate::graph::order::Effect;
use crate::graph::{Operation, Slots, Strides};

use crate::ggml::linking::functions::Functions;

/// The operations that may write over a source of the same layout, for a ggml whose own list cannot be asked because
/// lastuse stands in its place. Source: `ggml_op_can_inplace` of ggml 0.9.5 and 0.26.
const IN_PLACE: &[&CStr] = &[
    c"SCALE",
    c"DIAG_MASK_ZERO",
    c"DIAG_MASK_INF",
    c"ADD",
    c"ADD1",
    c"SUB",
    c"MUL",
    c"DIV",
    c"SQR",
    c"SQRT",
    c"LOG",
    c"UNARY",
    c"ROPE",
    c"RMS_NORM",
    c"SOFT_MAX",
];

/// Operations that entered that list later, with the version of ggml from which on they are known to be in it.
const IN_PLACE_SINCE: &[(&CStr, [u32; 3])] = &[
    (c"ADD_ID", [0, 9, 5]),
    (c"FILL", [0, 9, 5]),
    (c"ROPE_BACK", [0, 9, 5]),
    (c"SILU_BACK", [0, 9, 5]),
    (c"RMS_NORM_BACK", [0, 9, 5]),
    (c"SOFT_MAX_BACK", [0, 9, 5]),
    (c"CLAMP", [0, 26, 0]),
];

/// An operation of every supported ggml that comes after all those in the lists above, and after those that call functions
/// of programs.
const AFTER_LISTED: &CStr = c"CROSS_ENTROPY_LOSS_BACK";

/// Every ggml so far has fewer operations.
const MOST_OPERATIONS: usize = 128;

/// From this version on the kernels of SOFT_MAX_BACK and RMS_NORM_BACK are known to read both sources before they write.
const KEEPS_SOURCES: [u32; 3] = [0, 26, 0];

/// The operations of one ggml, each looked up when first met.
#[derive(Debug)]
pub struct Operations {
    functions: Functions,
    original_list: Option<unsafe extern "C" fn(u32) -> bool>,
    version: Option<[u32; 3]>,
    known: [OnceLock<Operation>; MOST_OPERATIONS],
    /// Looked at by few programs.
    named: OnceLock<Box<[OnceLock<Named>; MOST_OPERATIONS]>>,
    reshape: OnceLock<u32>,
    concat: OnceLock<u32>,
    after_listed: OnceLock<u32>,
    functions_of_programs: OnceLock<Range<u32>>,
}

/// What the name of an operation tells of it.
#[derive(Clone, Copy, Debug)]
struct Named {
    effect: Effect,
    writes: Strides,
    kind: Kind,
}

impl Named {
    fn of(name: &CStr) -> Self {
        match name.to_str() {
            Ok(name) => Self { effect: Effect::of(name), writes: Strides::written_by(name), kind: Kind::of(name) },
            Err(_) => Self { effect: Effect::Anything, writes: Strides::OnlyItsOwn, kind: Kind::Other },
        }
    }
}

impl Operations {
    /// `original_list` is the `ggml_op_can_inplace` that lastuse stands before, where there is one.
    pub fn new(
        functions: Functions,
        original_list: Option<unsafe extern "C" fn(u32) -> bool>,
        version: Option<[u32; 3]>,
    ) -> Self {
        let (known, named) = ([const { OnceLock::new() }; MOST_OPERATIONS], OnceLock::new());
        let [reshape, concat, after_listed] = [const { OnceLock::new() }; 3];
        let functions_of_programs = OnceLock::new();
        Self { functions, original_list, version, known, named, reshape, concat, after_listed, functions_of_programs }
    }

    /// What the planner has to know of `op`, an operation of this ggml, as in its tensors.
    pub fn operation(&self, op: u32) -> Operation {
        match self.known.get(op as usize) {
            Some(known) => *known.get_or_init(|| self.look_up(op)),
            None => Operation::Other,
        }
    }

    /// What `ggml_op_can_inplace` answers for `op`, which may be any number: false for those that are no operation.
    /// Names are only asked for where ggml's table has some: its length is not known.
    pub fn is_listed(&self, op: u32) -> bool {
        match self.original_list {
            // SAFETY: takes any number.
            Some(list) => unsafe { list(op) },
            None => op < self.after_listed() && self.operation(op).is_listed(),
        }
    }

    fn after_listed(&self) -> u32 {
        *self.after_listed.get_or_init(|| self.number(AFTER_LISTED))
    }

    /// The same as [`Operations::operation`] without looking it up: `None` unless somebody has asked for it.
    #[inline]
    pub fn known(&self, op: u32) -> Option<&Operation> {
        self.known.get(op as usize)?.get()
    }

    /// What running a node of this operation can change.
    pub fn effect(&self, op: u32) -> Effect {
        self.named(op).effect
    }

    /// What layouts of its result an operation can write, where ggml's CPU backend computes it.
    pub fn writes(&self, op: u32) -> Strides {
        self.named(op).writes
    }

    /// What layouts of its source in `slot` an operation can read that was made for one without gaps, where ggml's CPU
    /// backend computes it.
    pub fn reads(&self, op: u32, slot: usize) -> Strides {
        self.name(op).to_str().map_or(Strides::Contiguous, |name| Strides::read_by(name, slot))
    }

    /// Does an operation copy?
    pub fn copies(&self, op: u32) -> Kind {
        self.named(op).kind
    }

    fn named(&self, op: u32) -> Named {
        match self.named.get_or_init(|| Box::new([const { OnceLock::new() }; _])).get(op as usize) {
            Some(known) => *known.get_or_init(|| Named::of(self.name(op))),
            None => Named::of(self.name(op)),
        }
    }

    /// The number of RESHAPE, which every ggml has.
    pub fn reshape(&self) -> u32 {
        *self.reshape.get_or_init(|| self.number(c"RESHAPE"))
    }

    /// The number of CONCAT, which every ggml has.
    pub fn concat(&self) -> u32 {
        *self.concat.get_or_init(|| self.number(c"CONCAT"))
    }

    /// The number of NONE, which every ggml has.
    pub fn none(&self) -> u32 {
        self.number(c"NONE")
    }

    fn number(&self, name: &CStr) -> u32 {
        (0..).find(|&op| self.name(op) == name).unwrap_or(0)
    }

    /// The operations that call a function of the program: ggml numbers them one after the other.
    pub fn functions_of_programs(&self) -> Range<u32> {
        let range = self.functions_of_programs.get_or_init(|| {
            let calls_function = |name: &CStr| name.to_bytes().starts_with(b"MAP_CUSTOM") || name == c"CUSTOM";
            let mut numbers = (0..self.after_listed()).filter(|&op| calls_function(self.name(op)));
            let first = numbers.next().unwrap_or(0);
            first..numbers.last().map_or(first, |last| last + 1)
        });
        range.clone()
    }

    /// Is `op` the operation that ggml calls so?
    pub fn is_named(&self, op: u32, name: &CStr) -> bool {
        self.name(op) == name
    }

    /// ggml's name of `op`.
    pub fn name(&self, op: u32) -> &'static CStr {
        // SAFETY: an operation of this ggml, as the callers promise, so there is a name for it.
        let name = unsafe { (self.functions.ggml_op_name)(op) };
        // SAFETY: ggml's table of names is never freed, and holds strings that end in NUL.
        unsafe { CStr::from_ptr(name) }
    }

    fn look_up(&self, op: u32) -> Operation {
        let name = self.name(op);
        let listed = match self.original_list {
            // SAFETY: takes any number.
            Some(list) => unsafe { list(op) },
            None => IN_PLACE.contains(&name) || self.listed_since(name),
        };
        match name.to_bytes() {
            // These kernels first copied one source onto the result, and then read the other.
            b"SOFT_MAX_BACK" if listed && self.is_before(KEEPS_SOURCES) => Operation::Listed(Slots::FIRST),
            b"RMS_NORM_BACK" if listed && self.is_before(KEEPS_SOURCES) => Operation::Listed(Slots::SECOND),
            _ => Operation::named(&name.to_string_lossy(), listed),
        }
    }

    /// Is this ggml older, or of an unknown version?
    fn is_before(&self, version: [u32; 3]) -> bool {
        self.version.is_none_or(|own| own < version)
    }

    fn listed_since(&self, name: &CStr) -> bool {
        let since = IN_PLACE_SINCE.iter().find(|(listed, _)| *listed == name).map(|(_, since)| *since);
        matches!((since, self.version), (Some(since), Some(version)) if version >= since)
    }
}
