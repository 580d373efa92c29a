//! The kernels of a run: the log of ggml's Vulkan backend (`GGML_VK_PERF_LOGGER`, `GGML_VK_SYNC_LOGGER`), or the count of
//! `hosts/cuda_kernels.c`, which knows of no fusion and no barrier.

use std::ops::AddAssign;

/// The kernels and barriers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// How many kernels ran, a fused one counted once.
    pub kernels: u64,
    /// How many of them computed several nodes.
    pub fused: u64,
    /// How many times kernels waited for those before.
    pub barriers: u64,
}

impl Logged {
    /// Reads a log. Other lines in it do not matter.
    pub fn read(log: &str) -> Self {
        let mut logged =
            Self { barriers: log.lines().filter(|line| *line == "sync").count() as u64, ..Self::default() };
        for (name, count) in log.lines().filter_map(kernel) {
            logged.kernels += count;
            logged.fused += if is_fused(name) { count } else { 0 };
        }
        let counted = log.lines().filter_map(|line| line.strip_prefix("kernels=")?.parse::<u64>().ok());
        logged.kernels += counted.sum::<u64>();
        logged
    }
}

impl AddAssign for Logged {
    fn add_assign(&mut self, other: Self) {
        self.kernels += other.kernels;
        self.fused += other.fused;
        self.barriers += other.barriers;
    }
}

/// Returns name and count of `NAME: COUNT x MEAN us = SUM us`.
fn kernel(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.rsplit_once(": ")?;
    let (count, rest) = rest.split_once(" x ")?;
    rest.contains(" us").then(|| count.parse().ok().map(|count| (name, count)))?
}

/// Returns `true` for the name of a fusion with that of an operation behind it.
fn is_fused(name: &str) -> bool {
    let second = name.split(' ').nth(1);
    second.and_then(|word| word.chars().next()).is_some_and(|first| first.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_and_barriers_are_counted() {
        let log = "a line\nsync\n3 ADD sum\nsync\n----------------\nVulkan Timings:\nADD: 3 x 1.5 us = 4.5 us\n\
                   MULTI_ADD ADD: 2 x 1.5 us = 3 us (1 GFLOPS/s)\nMUL_MAT_VEC f32 m=1 n=1 k=2: 4 x 1 us = 4 us\n\
                   RMS_NORM_MUL RMS_NORM(64,48,1,1): 1 x 1 us = 1 us\nTotal time: 9 us.\n";
        assert_eq!(Logged::read(log), Logged { kernels: 10, fused: 3, barriers: 2 });
        assert_eq!(Logged::read("a line\nkernels=12\n"), Logged { kernels: 12, ..Logged::default() });
        assert_eq!(Logged::read(""), Logged::default());
    }
}
