//! Bytes that graph allocators requested from buffer types, as `hosts/buffer_counter.c` reports it.

use std::collections::BTreeMap;

use lastuse_c_tests::Result;

/// The memory that the allocators of a program held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The most bytes at a time, by the number of the allocator and its buffer type.
    pub buffers: BTreeMap<(u32, String), u64>,
    /// The most bytes at a time of all buffers.
    pub most: u64,
    /// How often allocators asked for the size of a tensor whose memory is not the host's.
    pub asked: u64,
    /// How many buffers allocators asked for.
    pub requested: u64,
    /// How many of them were refused on purpose.
    pub refused: u64,
    /// How many plans lastuse made; `None` on ggml's own allocator.
    pub plans: Option<u64>,
}

impl Counted {
    /// Reads a report.
    ///
    /// # Errors
    /// A line that is not understood.
    pub fn read(text: &str) -> Result<Self> {
        let mut counted = Self::default();
        for line in text.lines() {
            counted.read_line(line).ok_or_else(|| format!("the counter of buffers printed {line:?}"))?;
        }
        Ok(counted)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        match kind {
            "buffer" => {
                let mut words = rest.splitn(3, ' ');
                let (allocator, bytes) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
                self.buffers.insert((allocator, words.next()?.to_owned()), bytes);
            }
            "most" => self.most = rest.parse().ok()?,
            "asked" => self.asked = rest.parse().ok()?,
            "requested" => self.requested = rest.parse().ok()?,
            "refused" => self.refused = rest.parse().ok()?,
            "lastuse" => self.plans = Some(rest.rsplit(' ').next()?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// Returns what does not depend on which threads overlap: for each buffer type, allocators are numbered by their
    /// bytes, the largest first, and the sum of all is taken as the most bytes at a time.
    #[must_use]
    pub fn without_overlap(self) -> Self {
        let mut by_type: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for ((_, buffer_type), bytes) in self.buffers {
            by_type.entry(buffer_type).or_default().push(bytes);
        }
        let mut buffers = BTreeMap::new();
        for (buffer_type, mut bytes) in by_type {
            bytes.sort_unstable_by(|a, b| b.cmp(a));
            buffers.extend((1..).zip(bytes).map(|(number, bytes)| ((number, buffer_type.clone()), bytes)));
        }
        Self { most: buffers.values().sum(), buffers, ..self }
    }

    /// Returns the bytes of the largest buffer of each type: what allocators take that share memory, type by type.
    pub fn largest_of_types(&self) -> u64 {
        let mut by_type: BTreeMap<&str, u64> = BTreeMap::new();
        for ((_, buffer_type), &bytes) in &self.buffers {
            let largest = by_type.entry(buffer_type).or_default();
            *largest = bytes.max(*largest);
        }
        by_type.values().sum()
    }

    /// Returns the failed checks of `self`, on lastuse, compared with `before`, on ggml's own allocator.
    pub fn wrong(&self, before: &Self) -> Vec<String> {
        let mut wrong = Vec::new();
        if before.plans.is_some() {
            wrong.push("the run without lastuse was on lastuse".to_owned());
        }
        match self.plans {
            None => wrong.push("lastuse had no effect: the program ran on ggml's own allocator".to_owned()),
            Some(0) => wrong.push("lastuse made no plan".to_owned()),
            Some(_) => {}
        }
        if before.most == 0 {
            wrong.push("no compute buffer was seen: the counter is not in effect".to_owned());
        }
        if self.most > before.most {
            wrong.push(format!("all buffers: {} bytes at a time, was {}", self.most, before.most));
        }
        for (buffer @ (allocator, buffer_type), &bytes) in &self.buffers {
            match before.buffers.get(buffer) {
                Some(&most) if bytes > most => {
                    wrong.push(format!("buffer {buffer_type} of allocator {allocator}: {bytes} bytes, was {most}"));
                }
                None if bytes > 0 => {
                    wrong.push(format!("buffer {buffer_type} of allocator {allocator}: {bytes} bytes, was none"));
                }
                _ => {}
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Counted {
        Counted::read(text).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn reports_are_read() {
        let counted =
            read("buffer 1 100 CPU\nbuffer 2 7 A B\nmost 105\nasked 4\nrequested 6\nrefused 1\nlastuse 0.1.0 3\n");
        let buffers = [((1, "CPU".to_owned()), 100), ((2, "A B".to_owned()), 7)];
        let counts = Counted { buffers: buffers.into(), most: 105, asked: 4, requested: 6, refused: 1, plans: Some(3) };
        assert_eq!(counted, counts);
        assert_eq!(counted.largest_of_types(), 107);
        assert_eq!(read("buffer 1 100 CPU\nbuffer 2 120 CPU\nbuffer 2 7 B\n").largest_of_types(), 127);
        assert!(Counted::read("buffer 1 CPU\n").is_err_and(|why| why.contains("buffer 1 CPU")));
        assert!(Counted::read("memory 1 1 CPU\n").is_err());
    }

    #[test]
    fn overlap_of_threads_does_not_count() {
        let some = read("buffer 1 100 CPU\nbuffer 2 7 GPU\nbuffer 3 110 CPU\nmost 110\nasked 4\n").without_overlap();
        let others = read("buffer 1 110 CPU\nbuffer 2 100 CPU\nbuffer 3 7 GPU\nmost 217\nasked 4\n").without_overlap();
        assert_eq!(some, others);
        assert_eq!((some.most, some.buffers[&(1, "CPU".to_owned())], some.asked), (217, 110, 4));
    }

    #[test]
    fn larger_buffers_and_a_lastuse_without_effect_are_wrong() {
        let before = read("buffer 1 100 CPU\nbuffer 2 50 CPU\nmost 100\n");
        assert_eq!(read("buffer 1 100 CPU\nbuffer 2 49 CPU\nlastuse 1 1\n").wrong(&before), Vec::<String>::new());
        // Not in any buffer: less in one makes up for nothing.
        let larger = read("buffer 1 10 CPU\nbuffer 2 51 CPU\nlastuse 1 1\n").wrong(&before);
        assert_eq!(larger, ["buffer CPU of allocator 2: 51 bytes, was 50"]);
        let more = read("buffer 3 1 GPU\nlastuse 1 1\n").wrong(&before);
        assert_eq!(more, ["buffer GPU of allocator 3: 1 bytes, was none"]);
        assert!(read("buffer 1 100 CPU\n").wrong(&before)[0].contains("no effect"));
        assert_eq!(read("buffer 1 1 CPU\nlastuse 1 0\n").wrong(&before), ["lastuse made no plan"]);
        let at_a_time = read("buffer 1 100 CPU\nbuffer 2 50 CPU\nmost 150\nlastuse 1 1\n").wrong(&before);
        assert_eq!(at_a_time, ["all buffers: 150 bytes at a time, was 100"]);
        let on_lastuse = read("buffer 1 100 CPU\nmost 100\nlastuse 1 1\n");
        assert_eq!(on_lastuse.wrong(&on_lastuse), ["the run without lastuse was on lastuse"]);
        assert!(read("lastuse 1 1\n").wrong(&Counted::default())[0].contains("counter is not in effect"));
    }
}
