//! Tests whether a loaded object (the program or a shared library) exports a symbol, by its hash table of symbols. That
//! is much faster than `dlopen` and `dlsym` for each object, and the first call of a process waits for it.

use std::ffi::CStr;

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// An entry of an object's dynamic section, which ends with the tag 0.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// The symbol tables of an object, from its dynamic section.
struct Symbols {
    hash: *const u32,
    symbols: *const libc::Elf64_Sym,
    names: *const libc::c_char,
}

/// The header of a GNU hash table.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    buckets: u32,
    /// Index of the first symbol in the table; those before it are not in it.
    first: u32,
    /// Number of 64-bit words in the Bloom filter.
    filter: u32,
    shift: u32,
}

/// Returns `true` if an object exports `name`; `None` if it has no GNU hash table.
///
/// # Safety
/// `info` describes an object that stays loaded meanwhile, as in a callback of `dl_iterate_phdr`.
pub unsafe fn defines(info: &libc::dl_phdr_info, name: &CStr) -> Option<bool> {
    // SAFETY: the caller's promise.
    let symbols = unsafe { symbols(info) }?;
    // SAFETY: a hash table begins with these words.
    let header = unsafe { symbols.hash.cast::<Header>().read() };
    let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    if header.buckets == 0 || header.filter == 0 {
        return None;
    }
    // SAFETY: the table of a live object, with its own header.
    Some(unsafe { may_contain(&symbols, header, hash) } && unsafe { contains(&symbols, header, hash, name) })
}

/// Returns the symbol tables of an object; `None` if one of them is missing.
///
/// # Safety
/// `info` describes an object that stays loaded meanwhile.
unsafe fn symbols(info: &libc::dl_phdr_info) -> Option<Symbols> {
    let base = usize::try_from(info.dlpi_addr).ok()?;
    // SAFETY: the object has `dlpi_phnum` headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let start = base.wrapping_add(usize::try_from(dynamic.p_vaddr).ok()?);
    let mut entries = std::ptr::with_exposed_provenance::<Dynamic>(start);
    let (mut hash, mut symbols, mut names) = (0, 0, 0);
    loop {
        // SAFETY: the section lies in the object, and an entry with the tag 0 ends it.
        let entry = unsafe { &*entries };
        match entry.tag {
            0 => break,
            DT_GNU_HASH => hash = entry.value,
            DT_SYMTAB => symbols = entry.value,
            DT_STRTAB => names = entry.value,
            _ => {}
        }
        entries = entries.wrapping_add(1);
    }
    // The linker has relocated offsets to addresses, except in the kernel's own object.
    let address = |value: usize| if value < base { base.wrapping_add(value) } else { value };
    (hash != 0 && symbols != 0 && names != 0).then(|| Symbols {
        hash: std::ptr::with_exposed_provenance(address(hash)),
        symbols: std::ptr::with_exposed_provenance(address(symbols)),
        names: std::ptr::with_exposed_provenance(address(names)),
    })
}

/// Returns `false` if the Bloom filter rules out a symbol with this hash.
///
/// # Safety
/// The table of a live object, with its own header.
unsafe fn may_contain(symbols: &Symbols, header: Header, hash: u32) -> bool {
    let filter = symbols.hash.wrapping_add(4).cast::<u64>();
    // SAFETY: the filter has `header.filter` words.
    let word = unsafe { filter.wrapping_add((hash / u64::BITS % header.filter) as usize).read() };
    let bit = |hash: u32| word >> (hash % u64::BITS) & 1;
    bit(hash) & bit(hash.wrapping_shr(header.shift)) == 1
}

/// Returns `true` if `name`, which has this hash, is in the table.
///
/// # Safety
/// The table of a live object, with its own header.
unsafe fn contains(symbols: &Symbols, header: Header, hash: u32, name: &CStr) -> bool {
    let buckets = symbols.hash.wrapping_add(4 + 2 * header.filter as usize);
    let hashes = buckets.wrapping_add(header.buckets as usize);
    // SAFETY: the table has `header.buckets` buckets.
    let mut symbol = unsafe { buckets.wrapping_add((hash % header.buckets) as usize).read() };
    while symbol >= header.first {
        // SAFETY: the buckets are followed by the hashes of all symbols in the table; the last of a bucket is odd.
        let symbol_hash = unsafe { hashes.wrapping_add((symbol - header.first) as usize).read() };
        // SAFETY: the bucket contains this symbol.
        if symbol_hash | 1 == hash | 1 && unsafe { name_of(symbols, symbol) } == name {
            return true;
        }
        if symbol_hash & 1 == 1 {
            return false;
        }
        symbol += 1;
    }
    false
}

/// Returns the name of a symbol.
///
/// # Safety
/// The tables of a live object, which has a symbol of this index.
unsafe fn name_of(symbols: &Symbols, symbol: u32) -> &CStr {
    // SAFETY: the caller's promise.
    let offset = unsafe { (*symbols.symbols.wrapping_add(symbol as usize)).st_name };
    // SAFETY: `st_name` is an offset in the string table, and names end in NUL.
    unsafe { CStr::from_ptr(symbols.names.wrapping_add(offset as usize)) }
}

#[cfg(test)]
mod tests {
    use std::ffi::{c_int, c_void};

    use super::*;

    /// Counts the objects of this process that export a name, and those without a GNU hash table.
    fn count(name: &CStr) -> [usize; 2] {
        unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
            // SAFETY: the value below.
            let (name, counts) = unsafe { &mut *search.cast::<(&CStr, [usize; 2])>() };
            // SAFETY: the linker passes a valid description.
            let info = unsafe { &*info };
            // SAFETY: the linker keeps the object loaded until this returns.
            match unsafe { defines(info, name) } {
                Some(is_there) => counts[0] += usize::from(is_there),
                None => counts[1] += 1,
            }
            0
        }
        let mut search = (name, [0, 0]);
        // SAFETY: `add` matches the type of `search`, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(add), std::ptr::from_mut(&mut search).cast()) };
        search.1
    }

    #[test]
    fn exported_symbols_are_found() {
        let of_libc = [c"malloc", c"qsort", c"dl_iterate_phdr", c"strerror_r"];
        for name in of_libc {
            assert!(count(name)[0] >= 1, "{name:?}");
        }
        for name in [c"", c"mallo", c"mallocc", c"lastuse_no_such_function"] {
            assert_eq!(count(name)[0], 0, "{name:?}");
        }
    }

    #[test]
    fn imported_symbols_are_not_found() {
        // Programs refer to it, and libc defines it.
        assert_eq!(count(c"__libc_start_main")[0], 1);
    }
}
