//! Statistics of each allocator, and of all allocators of a process together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::placement::Bytes;

/// The work of one allocator so far. All of them add up to the [`totals`].
#[derive(Debug)]
pub struct Statistics {
    /// The number of the allocator in its process, from 1.
    pub number: u64,
    /// Whether it counts in [`Totals::allocators`]: one for a single measurement does not.
    is_counted: bool,
    /// Plans made, and attempts that failed.
    pub plans: u64,
    /// The time that they took.
    pub planning: Duration,
    /// The tensors that these plans retain; counted for reports only.
    pub retained: usize,
    /// The largest plan so far, by buffer.
    largest: Vec<LargestPlan>,
    /// Bytes held in all buffers.
    held: Bytes,
}

/// The largest plan of a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargestPlan {
    /// Bytes that it requires.
    pub size: Bytes,
    /// Its lower bound: the peak of live bytes.
    pub lower_bound: Bytes,
    /// Bytes that ggml's own allocator would have needed, if that was computed.
    pub by_ggml: Option<Bytes>,
}

/// Statistics of all allocators of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Plans made, and attempts that failed.
    pub plans: u64,
    /// Graphs that a cached plan served.
    pub served_again: u64,
    /// The time that planning took.
    pub planning: Duration,
    /// Live allocators.
    pub allocators: u64,
    /// Bytes held in their buffers.
    pub held: Bytes,
    /// The sum of the lower bounds of the largest plans of their buffers.
    pub lower_bounds: Bytes,
}

static PLANS: AtomicU64 = AtomicU64::new(0);
static SERVED_AGAIN: AtomicU64 = AtomicU64::new(0);
static PLANNING_NANOSECONDS: AtomicU64 = AtomicU64::new(0);
static CREATED: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);
static LOWER_BOUNDS: AtomicU64 = AtomicU64::new(0);

/// Returns the statistics of all allocators.
pub fn totals() -> Totals {
    Totals {
        plans: PLANS.load(Relaxed),
        served_again: SERVED_AGAIN.load(Relaxed),
        planning: Duration::from_nanos(PLANNING_NANOSECONDS.load(Relaxed)),
        allocators: LIVE.load(Relaxed),
        held: HELD.load(Relaxed),
        lower_bounds: LOWER_BOUNDS.load(Relaxed),
    }
}

/// Returns the number of a new allocator.
pub fn next_number() -> u64 {
    CREATED.fetch_add(1, Relaxed) + 1
}

impl Statistics {
    /// Creates the statistics of an allocator with `buffers` buffers.
    pub fn new(buffers: usize) -> Self {
        LIVE.fetch_add(1, Relaxed);
        let mut statistics = Self::uncounted(buffers);
        (statistics.number, statistics.is_counted) = (next_number(), true);
        statistics
    }

    /// Creates the statistics of an allocator for a single measurement. Only its plans count in the [`totals`].
    pub fn uncounted(buffers: usize) -> Self {
        let largest = vec![LargestPlan::default(); buffers];
        Self { number: 0, is_counted: false, plans: 0, planning: Duration::ZERO, retained: 0, largest, held: 0 }
    }

    /// The largest plan so far, by buffer.
    pub fn largest(&self) -> &[LargestPlan] {
        &self.largest
    }

    /// Counts a plan, or an attempt that failed.
    pub fn count_planning(&mut self, time: Duration) {
        self.plans += 1;
        self.planning += time;
        PLANS.fetch_add(1, Relaxed);
        PLANNING_NANOSECONDS.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Counts a graph that a cached plan serves.
    pub fn count_reuse(&self) {
        SERVED_AGAIN.fetch_add(1, Relaxed);
    }

    /// Records a new plan, given by buffer.
    pub fn record_plan(&mut self, plans: impl Iterator<Item = LargestPlan>) {
        for (largest, plan) in self.largest.iter_mut().zip(plans) {
            if plan.size >= largest.size {
                if self.is_counted {
                    LOWER_BOUNDS.fetch_add(plan.lower_bound.wrapping_sub(largest.lower_bound), Relaxed);
                }
                *largest = plan;
            }
        }
    }

    /// Records the bytes held in all buffers. Returns `true` if they have changed.
    pub fn record_held(&mut self, held: Bytes) -> bool {
        if self.is_counted {
            HELD.fetch_add(held.wrapping_sub(self.held), Relaxed);
        }
        std::mem::replace(&mut self.held, held) != held
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        if self.is_counted {
            LIVE.fetch_sub(1, Relaxed);
            HELD.fetch_sub(self.held, Relaxed);
            let lower_bounds = self.largest.iter().fold(0, |sum: Bytes, plan| sum.wrapping_add(plan.lower_bound));
            LOWER_BOUNDS.fetch_sub(lower_bounds, Relaxed);
        }
    }
}
