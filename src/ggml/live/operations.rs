//! Properties of ggml's operations. Their numbers change between versions of ggml, so they are identified by name.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::OnceLock;

use crate::graph::Effect;
use crate::graph::copies::CopyKind;
use crate::graph::{Operation, Slots, Strides};

use crate::ggml::linking::functions::Functions;

/// The operations whose result may overwrite a source of the same layout, for a ggml whose `ggml_op_can_inplace` cannot
/// be called because lastuse replaces it. Source: `ggml_op_can_inplace` of ggml 0.9.5 and 0.26.
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

/// Operations that were added to that list later, with the first version of ggml that is known to have them there.
const IN_PLACE_SINCE: &[(&CStr, [u32; 3])] = &[
    (c"ADD_ID", [0, 9, 5]),
    (c"FILL", [0, 9, 5]),
    (c"ROPE_BACK", [0, 9, 5]),
    (c"SILU_BACK", [0, 9, 5]),
    (c"RMS_NORM_BACK", [0, 9, 5]),
    (c"SOFT_MAX_BACK", [0, 9, 5]),
    (c"CLAMP", [0, 26, 0]),
];

/// An operation of every supported ggml whose number is above those of the lists above and of the operations that call
/// functions of the program.
const AFTER_LISTED: &CStr = c"CROSS_ENTROPY_LOSS_BACK";

/// Upper bound: every ggml so far has fewer operations.
const MOST_OPERATIONS: usize = 128;

/// From this version on, the kernels of SOFT_MAX_BACK and RMS_NORM_BACK are known to read both sources before they
/// write.
const READS_BEFORE_WRITES: [u32; 3] = [0, 26, 0];

/// The operations of one ggml, each looked up when first used.
#[derive(Debug)]
pub struct Operations {
    functions: Functions,
    original_list: Option<unsafe extern "C" fn(u32) -> bool>,
    version: Option<[u32; 3]>,
    known: [OnceLock<Operation>; MOST_OPERATIONS],
    /// Allocated on first use, since planning does not need it.
    for_passes: OnceLock<Box<[OnceLock<PassProperties>; MOST_OPERATIONS]>>,
    reshape: OnceLock<u32>,
    concat: OnceLock<u32>,
    after_listed: OnceLock<u32>,
    custom: OnceLock<Range<u32>>,
}

/// The properties that passes other than planning use.
#[derive(Clone, Copy, Debug)]
struct PassProperties {
    effect: Effect,
    writes: Strides,
    kind: CopyKind,
}

impl PassProperties {
    fn of(name: &CStr) -> Self {
        match name.to_str() {
            Ok(name) => Self { effect: Effect::of(name), writes: Strides::written_by(name), kind: CopyKind::of(name) },
            Err(_) => Self { effect: Effect::Anything, writes: Strides::OnlyItsOwn, kind: CopyKind::Other },
        }
    }
}

impl Operations {
    /// `original_list` is ggml's own `ggml_op_can_inplace`, if lastuse is interposed before it.
    pub fn new(
        functions: Functions,
        original_list: Option<unsafe extern "C" fn(u32) -> bool>,
        version: Option<[u32; 3]>,
    ) -> Self {
        let (known, for_passes) = ([const { OnceLock::new() }; MOST_OPERATIONS], OnceLock::new());
        let [reshape, concat, after_listed] = [const { OnceLock::new() }; 3];
        let custom = OnceLock::new();
        Self { functions, original_list, version, known, for_passes, reshape, concat, after_listed, custom }
    }

    /// Returns the properties of `op` that planning uses. `op` is the number of an operation of this ggml.
    pub fn operation(&self, op: u32) -> Operation {
        match self.known.get(op as usize) {
            Some(known) => *known.get_or_init(|| self.look_up(op)),
            None => Operation::Other,
        }
    }

    /// Returns the result of `ggml_op_can_inplace` for `op`, which may be any number: false if it is not an operation.
    /// The length of ggml's table of names is unknown, so names are read only up to `AFTER_LISTED`.
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

    /// Returns the properties of `op` if [`Operations::operation`] has looked them up before.
    #[inline]
    pub fn known(&self, op: u32) -> Option<&Operation> {
        self.known.get(op as usize)?.get()
    }

    /// Returns what running a node of this operation can change.
    pub fn effect(&self, op: u32) -> Effect {
        self.pass_properties(op).effect
    }

    /// Returns the layouts of its result that an operation can write on ggml's CPU backend.
    pub fn writes(&self, op: u32) -> Strides {
        self.pass_properties(op).writes
    }

    /// Returns the layouts of its source in `slot` that an operation can read on ggml's CPU backend, if the graph was
    /// built with a contiguous source.
    pub fn reads(&self, op: u32, slot: usize) -> Strides {
        self.name(op).to_str().map_or(Strides::Contiguous, |name| Strides::read_by(name, slot))
    }

    /// Returns whether and how an operation copies.
    pub fn copies(&self, op: u32) -> CopyKind {
        self.pass_properties(op).kind
    }

    fn pass_properties(&self, op: u32) -> PassProperties {
        match self.for_passes.get_or_init(|| Box::new([const { OnceLock::new() }; _])).get(op as usize) {
            Some(known) => *known.get_or_init(|| PassProperties::of(self.name(op))),
            None => PassProperties::of(self.name(op)),
        }
    }

    /// Returns the number of RESHAPE, which every ggml has.
    pub fn reshape(&self) -> u32 {
        *self.reshape.get_or_init(|| self.number(c"RESHAPE"))
    }

    /// Returns the number of CONCAT, which every ggml has.
    pub fn concat(&self) -> u32 {
        *self.concat.get_or_init(|| self.number(c"CONCAT"))
    }

    /// Returns the number of VIEW, which every ggml has.
    pub fn view(&self) -> u32 {
        self.number(c"VIEW")
    }

    /// Returns the number of NONE, which every ggml has.
    pub fn none(&self) -> u32 {
        self.number(c"NONE")
    }

    fn number(&self, name: &CStr) -> u32 {
        (0..).find(|&op| self.name(op) == name).unwrap_or(0)
    }

    /// Returns the operations that call a function of the program, which have consecutive numbers.
    pub fn custom(&self) -> Range<u32> {
        let range = self.custom.get_or_init(|| {
            let calls_function = |name: &CStr| name.to_bytes().starts_with(b"MAP_CUSTOM") || name == c"CUSTOM";
            let mut numbers = (0..self.after_listed()).filter(|&op| calls_function(self.name(op)));
            let first = numbers.next().unwrap_or(0);
            first..numbers.last().map_or(first, |last| last + 1)
        });
        range.clone()
    }

    /// Returns `true` if `name` is ggml's name of `op`.
    pub fn is_named(&self, op: u32, name: &CStr) -> bool {
        self.name(op) == name
    }

    /// Returns ggml's name of `op`.
    pub fn name(&self, op: u32) -> &'static CStr {
        // SAFETY: an operation of this ggml, as the callers promise, so it has a name.
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
            // Older kernels copy one source to the result before they read the other.
            b"SOFT_MAX_BACK" if listed && self.is_before(READS_BEFORE_WRITES) => Operation::Listed(Slots::FIRST),
            b"RMS_NORM_BACK" if listed && self.is_before(READS_BEFORE_WRITES) => Operation::Listed(Slots::SECOND),
            _ => Operation::named(&name.to_string_lossy(), listed),
        }
    }

    /// Returns `true` if this ggml is older than `version`, or of an unknown version.
    fn is_before(&self, version: [u32; 3]) -> bool {
        self.version.is_none_or(|own| own < version)
    }

    fn listed_since(&self, name: &CStr) -> bool {
        let since = IN_PLACE_SINCE.iter().find(|(listed, _)| *listed == name).map(|(_, since)| *since);
        matches!((since, self.version), (Some(since), Some(version)) if version >= since)
    }
}
