//! Memory that is not needed any more, for the next plan of any allocator.
//!
//! A graph of a few hundred tensors is planned in microseconds, of which `malloc` takes a tenth: it is slow for lists of
//! more than a KiB. Programs that create an allocator for each graph gain too, so the memory belongs to the process.

use std::sync::Mutex;

/// How many values are held: a program measures one graph while it uses the plan of another.
const MOST: usize = 2;

/// Holds values whose memory is to be used again.
#[derive(Debug)]
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Spare<T> {
    /// Holds nothing.
    pub const fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes the value that was left last, whatever it contains. `None` if there is none, or if another thread takes or
    /// leaves one at this moment.
    pub fn take(&self) -> Option<T> {
        self.0.try_lock().ok()?.pop()
    }

    /// Leaves a value, which is dropped if enough are held.
    pub fn leave(&self, value: T) {
        if let Ok(mut spare) = self.0.try_lock()
            && spare.len() < MOST
        {
            spare.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_few_values() {
        let spare = Spare::none();
        assert_eq!(spare.take(), None);
        (0..MOST + 3).for_each(|value| spare.leave(value));
        assert_eq!((0..MOST + 3).map_while(|_| spare.take()).count(), MOST);
        spare.leave(7);
        assert_eq!((spare.take(), spare.take()), (Some(7), None));
    }

    #[test]
    fn takes_nothing_while_another_thread_does() {
        let spare = Spare::none();
        spare.leave(1);
        let held = spare.0.lock().expect("no thread panics");
        assert_eq!(spare.take(), None);
        spare.leave(2);
        drop(held);
        assert_eq!((spare.take(), spare.take()), (Some(1), None));
    }
}
