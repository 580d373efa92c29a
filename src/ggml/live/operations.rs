//! Properties of ggml's operations. Their numbers change between versions of ggml, so they are identified by name.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::OnceLock;

use crate::graph::{Effect, InPlace, Op, Version};

use crate::ggml::linking::functions::Functions;

/// An operation of every supported ggml whose number is above those of listed operations, and of those that call functions
/// of the program.
const AFTER_LISTED: Op = Op::CrossEntropyLossBack;

/// Upper bound: every ggml so far has fewer operations.
const MOST_OPERATIONS: usize = 128;

/// The operations of one ggml, each looked up when first used.
#[derive(Debug)]
pub struct Operations {
    functions: Functions,
    original_list: Option<unsafe extern "C" fn(u32) -> bool>,
    version: Option<Version>,
    known: [OnceLock<Operation>; MOST_OPERATIONS],
    /// By [`Op`]: its number, for those with a number up to that of `AFTER_LISTED`.
    numbers: OnceLock<Box<[Option<u32>]>>,
    custom: OnceLock<Range<u32>>,
}

/// What planning uses of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its row in the table.
    pub op: Op,
    /// Which sources it may write over in this ggml.
    pub in_place: InPlace,
}

impl Operations {
    /// `original_list` is ggml's own `ggml_op_can_inplace`, if lastuse is interposed before it.
    pub fn new(
        functions: Functions,
        original_list: Option<unsafe extern "C" fn(u32) -> bool>,
        version: Option<Version>,
    ) -> Self {
        let known = [const { OnceLock::new() }; MOST_OPERATIONS];
        Self { functions, original_list, version, known, numbers: OnceLock::new(), custom: OnceLock::new() }
    }

    /// Returns what planning uses of `op`, the number of an operation of this ggml.
    pub fn operation(&self, op: u32) -> Operation {
        match self.known.get(op as usize) {
            Some(known) => *known.get_or_init(|| self.look_up(op)),
            None => Operation { op: Op::Unknown, in_place: InPlace::Never },
        }
    }

    /// Returns the operation with the number `op`.
    pub fn op(&self, op: u32) -> Op {
        self.operation(op).op
    }

    /// Returns the result of `ggml_op_can_inplace` for `op`, which may be any number: false if it is not an operation.
    /// The length of ggml's table of names is unknown, so names are read only up to `AFTER_LISTED`.
    pub fn is_listed(&self, op: u32) -> bool {
        match self.original_list {
            // SAFETY: takes any number.
            Some(list) => unsafe { list(op) },
            None => op < self.after_listed() && self.operation(op).in_place.is_listed(),
        }
    }

    fn after_listed(&self) -> u32 {
        self.number(AFTER_LISTED)
    }

    /// Returns what planning uses of `op` if [`Operations::operation`] has looked it up before.
    #[inline]
    pub fn known(&self, op: u32) -> Option<&Operation> {
        self.known.get(op as usize)?.get()
    }

    /// Returns the number of an operation that every ggml has, at most that of `AFTER_LISTED`.
    pub fn number(&self, op: Op) -> u32 {
        let numbers = self.numbers.get_or_init(|| {
            let mut numbers = vec![None; Op::KNOWN.len() + 1];
            for number in 0.. {
                let op = self.named(number);
                numbers[op as usize] = Some(number);
                if op == AFTER_LISTED {
                    break;
                }
            }
            numbers.into()
        });
        numbers[op as usize].expect("every ggml has it")
    }

    /// Returns the operations that call a function of the program, which have consecutive numbers.
    pub fn custom(&self) -> Range<u32> {
        let range = self.custom.get_or_init(|| {
            let mut numbers = (0..self.after_listed()).filter(|&number| {
                let op = self.op(number);
                op != Op::Unknown && op.effect() == Effect::Anything
            });
            let first = numbers.next().unwrap_or(0);
            first..numbers.last().map_or(first, |last| last + 1)
        });
        range.clone()
    }

    /// Returns ggml's name of `op`.
    pub fn name(&self, op: u32) -> &'static CStr {
        // SAFETY: an operation of this ggml, as the callers promise, so it has a name.
        let name = unsafe { (self.functions.ggml_op_name)(op) };
        // SAFETY: ggml's table of names is never freed, and holds strings that end in NUL.
        unsafe { CStr::from_ptr(name) }
    }

    fn named(&self, op: u32) -> Op {
        Op::named(self.name(op).to_str().unwrap_or_default())
    }

    fn look_up(&self, number: u32) -> Operation {
        let op = self.named(number);
        let listed = match self.original_list {
            // SAFETY: takes any number.
            Some(list) => unsafe { list(number) },
            None => op.is_listed_in(self.version),
        };
        Operation { op, in_place: op.in_place_in(listed, self.version) }
    }
}
