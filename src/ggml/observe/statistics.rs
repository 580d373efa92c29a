//! What the allocators of a process have done so far: of each one, and of all together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::placement::Bytes;

/// What one allocator has done so far. Those that are alive add up to the [`totals`].
#[derive(Debug)]
pub struct Statistics {
    /// Tells allocators of a process apart; counted from 1.
    pub number: u64,
    /// Does a program know it? One that only measures is made for a single call.
    is_counted: bool,
    /// Plans that it has made.
    pub plans: u64,
    /// How long they took.
    pub planning: Duration,
    /// By buffer: the largest plan so far.
    largest: Vec<Largest>,
    /// Bytes of its buffers.
    held: Bytes,
}

/// The largest plan that a buffer had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Largest {
    /// Bytes that it takes.
    pub size: Bytes,
    /// Bytes that are alive at its worst step.
    pub lower_bound: Bytes,
    /// Bytes that ggml's own allocator would have taken, where that was found out.
    pub by_ggml: Option<Bytes>,
}

/// What all allocators of a process have done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Plans that were made.
    pub plans: u64,
    /// Graphs that were served by a plan made for an earlier one.
    pub served_again: u64,
    /// How long planning took.
    pub planning: Duration,
    /// Allocators that are alive.
    pub allocators: u64,
    /// Bytes of their buffers.
    pub held: Bytes,
    /// The lower bounds of the largest plans that they had, by buffer.
    pub lower_bounds: Bytes,
}

static PLANS: AtomicU64 = AtomicU64::new(0);
static SERVED_AGAIN: AtomicU64 = AtomicU64::new(0);
static PLANNING_NANOSECONDS: AtomicU64 = AtomicU64::new(0);
static MADE: AtomicU64 = AtomicU64::new(0);
static ALIVE: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);
static LOWER_BOUNDS: AtomicU64 = AtomicU64::new(0);

/// What all allocators have done.
pub fn totals() -> Totals {
    Totals {
        plans: PLANS.load(Relaxed),
        served_again: SERVED_AGAIN.load(Relaxed),
        planning: Duration::from_nanos(PLANNING_NANOSECONDS.load(Relaxed)),
        allocators: ALIVE.load(Relaxed),
        held: HELD.load(Relaxed),
        lower_bounds: LOWER_BOUNDS.load(Relaxed),
    }
}

/// The number of a new allocator.
pub fn next_number() -> u64 {
    MADE.fetch_add(1, Relaxed) + 1
}

impl Statistics {
    /// Of an allocator with so many buffers.
    pub fn new(buffers: usize) -> Self {
        ALIVE.fetch_add(1, Relaxed);
        let mut statistics = Self::uncounted(buffers);
        (statistics.number, statistics.is_counted) = (next_number(), true);
        statistics
    }

    /// Of an allocator that no program knows. Its plans count for the process.
    pub fn uncounted(buffers: usize) -> Self {
        let largest = vec![Largest::default(); buffers];
        Self { number: 0, is_counted: false, plans: 0, planning: Duration::ZERO, largest, held: 0 }
    }

    /// Does a program know the allocator?
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// By buffer: the largest plan so far.
    pub fn largest(&self) -> &[Largest] {
        &self.largest
    }

    /// A plan was made, or could not be.
    pub fn has_planned(&mut self, time: Duration) {
        self.plans += 1;
        self.planning += time;
        PLANS.fetch_add(1, Relaxed);
        PLANNING_NANOSECONDS.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// A graph is served by an earlier plan.
    pub fn has_served_again(&self) {
        SERVED_AGAIN.fetch_add(1, Relaxed);
    }

    /// The allocator has a new plan: one for each buffer.
    pub fn has_plan(&mut self, plans: impl Iterator<Item = Largest>) {
        for (largest, plan) in self.largest.iter_mut().zip(plans) {
            if plan.size >= largest.size {
                if self.is_counted {
                    LOWER_BOUNDS.fetch_add(plan.lower_bound.wrapping_sub(largest.lower_bound), Relaxed);
                }
                *largest = plan;
            }
        }
    }

    /// The buffers have so many bytes. Answers whether that is news.
    pub fn has_buffers(&mut self, held: Bytes) -> bool {
        if self.is_counted {
            HELD.fetch_add(held.wrapping_sub(self.held), Relaxed);
        }
        std::mem::replace(&mut self.held, held) != held
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if self.is_counted {
            ALIVE.fetch_sub(1, Relaxed);
            HELD.fetch_sub(self.held, Relaxed);
            let lower_bounds = self.largest.iter().fold(0, |sum: Bytes, plan| sum.wrapping_add(plan.lower_bound));
            LOWER_BOUNDS.fetch_sub(lower_bounds, Relaxed);
        }
    }
}
