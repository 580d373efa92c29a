//! Lists of one repeated value.

/// Returns a list of `len` copies of `value`.
///
/// A short `vec![0; len]` takes longer: it calls `calloc`, which in glibc before 2.41 does not use the blocks that its
/// thread has just freed.
pub fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut list = Vec::with_capacity(len);
    list.resize(len, value);
    list
}

/// Makes `list` one of `len` copies of `value`, in the memory that it has.
pub fn refill<T: Copy>(list: &mut Vec<T>, value: T, len: usize) {
    list.clear();
    list.resize(len, value);
}
