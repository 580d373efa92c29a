//! Memory that is not needed any more, for the next plan of any allocator.
//!
//! A graph of a few hundred tensors is planned in microseconds, of which `malloc` takes a tenth: it is slow for lists of
//! more than a KiB. Programs that create an allocator for each graph gain too, so the memory belongs to the process.

use super::lock::Lock;

/// How many values are held: a program measures one graph while it uses the plan of another.
const MOST: usize = 2;

/// Holds values whose memory is to be used again.
#[derive(Debug)]
pub struct Spare<T>(Lock<Vec<T>>);

impl<T> Spare<T> {
    /// Holds nothing.
    pub const fn none() -> Self {
        Self(Lock::new(Vec::new()))
    }

    /// Takes the value that was left last, whatever it contains. `None` if there is none, or if another thread takes or
    /// leaves one at this moment.
    pub fn take(&'static self) -> Option<T> {
        self.0.try_lock()?.pop()
    }

    /// Changes the value that was left last, if there is one and no other thread takes or leaves one at this moment.
    pub fn update(&'static self, change: impl FnOnce(&mut T)) {
        if let Some(mut spare) = self.0.try_lock()
            && let Some(value) = spare.last_mut()
        {
            change(value);
        }
    }

    /// Leaves a value, which is dropped if enough are held.
    pub fn leave(&'static self, value: T) {
        if let Some(mut spare) = self.0.try_lock()
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
        static SPARE: Spare<usize> = Spare::none();
        assert_eq!(SPARE.take(), None);
        (0..MOST + 3).for_each(|value| SPARE.leave(value));
        assert_eq!((0..MOST + 3).map_while(|_| SPARE.take()).count(), MOST);
        SPARE.leave(7);
        assert_eq!((SPARE.take(), SPARE.take()), (Some(7), None));
    }

    #[test]
    fn changes_the_value_that_was_left_last() {
        static SPARE: Spare<usize> = Spare::none();
        SPARE.update(|value| *value = 1);
        assert_eq!(SPARE.take(), None);
        [2, 3].into_iter().for_each(|value| SPARE.leave(value));
        SPARE.update(|value| *value += 10);
        assert_eq!((SPARE.take(), SPARE.take()), (Some(13), Some(2)));
    }

    #[test]
    fn takes_nothing_while_another_thread_does() {
        static SPARE: Spare<usize> = Spare::none();
        SPARE.leave(1);
        let held = SPARE.0.lock();
        let other = || std::thread::scope(|scope| scope.spawn(|| SPARE.take()).join().expect("no panic"));
        assert_eq!(other(), None);
        drop(held);
        assert_eq!((other(), other()), (Some(1), None));
    }
}
