//! What the walk knows of each tensor.

use std::ops::{BitOr, BitOrAssign};

use crate::graph::{Flags, Graph};
use crate::placement::Step;

/// What the walk knows of a tensor. Small, since the walk jumps between them.
#[derive(Clone, Copy)]
pub struct State {
    /// The step after the last that mentions it as a source; 0 when none does.
    pub read_until: Step,
    /// The step that computes it; step 0 also for what has its value from the start.
    pub computed: Step,
    /// Views of this root that somebody still may read.
    pub views: u32,
    /// What is true of it.
    pub marks: Marks,
}

impl State {
    /// By tensor, what is known before the walk. All views are counted.
    pub fn of_all(graph: &Graph) -> Vec<Self> {
        let unknown = Self { read_until: 0, computed: 0, views: 0, marks: Marks::NONE };
        let mut states = vec![unknown; graph.tensors().len()];
        for (id, tensor) in graph.tensors().iter().enumerate() {
            let marks = match tensor.view {
                None if tensor.external => Marks::NONE,
                None => Marks::WAITS | Marks::UNSEEN,
                Some(view) => {
                    let is_kept = tensor.flags.has(Flags::OUTPUT);
                    let root = &mut states[view.root as usize];
                    root.views += 1;
                    root.marks |= if is_kept { Marks::KEPT } else { Marks::NONE };
                    let counts = graph.tensor(view.root).is_owned();
                    Marks::UNSEEN | if counts { Marks::COUNTED } else { Marks::NONE }
                }
            };
            states[id].marks |= marks | Marks::of_flags(tensor.flags);
        }
        states
    }

    /// Counts a view of this root, and tells what that makes of the view.
    #[inline]
    pub fn add_view(&mut self, flags: Flags) -> Marks {
        self.views += 1;
        self.marks |= if flags.has(Flags::OUTPUT) { Marks::KEPT } else { Marks::NONE };
        if self.marks.has(Marks::WAITS) { Marks::COUNTED } else { Marks::NONE }
    }

    /// Is it mentioned after `step`?
    pub fn is_read_after(&self, step: Step) -> bool {
        self.read_until > step + 1
    }

    /// Has it memory that ends once neither the tensor nor a view of it is read any more? Not before it is computed.
    pub fn may_end(&self, step: Step) -> bool {
        self.marks.has(Marks::ENDS) && self.computed <= step
    }

    /// It has got memory.
    pub fn settle(&mut self) {
        self.marks.remove(Marks::WAITS | Marks::UNSEEN);
        if !self.marks.has(Marks::KEPT) {
            self.marks |= Marks::ENDS;
        }
    }
}

/// What is true of a tensor, as a set of bits.
#[derive(Clone, Copy)]
pub struct Marks(u8);

impl Marks {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// It has memory from the start.
    pub const INPUT: Self = Self(1);
    /// Its memory must last to the end: OUTPUT, or the root of an OUTPUT view.
    pub const KEPT: Self = Self(2);
    /// Memory is to be planned for it, and has not been yet.
    pub const WAITS: Self = Self(4);
    /// Its memory may end before the graph does, and is its own: no node is computed in its place.
    pub const ENDS: Self = Self(8);
    /// It is a view of memory to be planned, and counted there.
    pub const COUNTED: Self = Self(16);
    /// No step so far computes it, and it has no memory.
    pub const UNSEEN: Self = Self(32);
    /// It is a node that names a source which nothing has given memory to before.
    pub const NAMES_UNSEEN: Self = Self(64);

    pub fn of_flags(flags: Flags) -> Self {
        let when = |flag: Flags, marks: Self| if flags.has(flag) { marks } else { Self::NONE };
        when(Flags::INPUT, Self::INPUT) | when(Flags::OUTPUT, Self::KEPT)
    }

    /// Is one of `marks` set?
    pub fn has(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    /// Are all of `marks` set?
    pub fn has_all(self, marks: Self) -> bool {
        self.0 & marks.0 == marks.0
    }

    /// Takes `marks` away.
    pub fn remove(&mut self, marks: Self) {
        self.0 &= !marks.0;
    }
}

impl BitOr for Marks {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Marks {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
