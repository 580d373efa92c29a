//! The tables of a loaded object (the program or a shared library): whether it exports a symbol, by its hash table of
//! symbols, and what its references to symbols are bound to, by its relocations. That is much faster than `dlopen` and
//! `dlsym` for each object, and the first call of a process waits for it.

use std::ffi::CStr;

use crate::ggml::platform::BoundCall;

const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_PLTRELSZ: i64 = 2;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;

/// An entry of an object's dynamic section, which ends with the tag 0.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// The tables of an object, from its dynamic section.
pub struct Tables {
    base: usize,
    hash: *const u32,
    symbols: *const libc::Elf64_Sym,
    names: *const libc::c_char,
    /// Relocations: address and bytes of the two tables.
    relocations: [(usize, usize); 2],
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

/// Returns `true` if the object of these tables exports `name`; `None` if it has no GNU hash table.
///
/// # Safety
/// The tables of an object that is still loaded.
pub unsafe fn exports(tables: &Tables, name: &CStr) -> Option<bool> {
    if tables.hash.is_null() {
        return None;
    }
    // SAFETY: a hash table begins with these words.
    let header = unsafe { tables.hash.cast::<Header>().read() };
    let hash = name.to_bytes().iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()));
    if header.buckets == 0 || header.filter == 0 {
        return None;
    }
    // SAFETY: the table of a loaded object, with the header at its beginning.
    Some(unsafe { may_contain(tables, header, hash) } && unsafe { contains(tables, header, hash, name) })
}

/// Returns the tables of an object; `None` if it has no symbols.
///
/// # Safety
/// `info` describes an object that stays loaded meanwhile.
pub unsafe fn tables(info: &libc::dl_phdr_info) -> Option<Tables> {
    let base = usize::try_from(info.dlpi_addr).ok()?;
    // SAFETY: the object has `dlpi_phnum` headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let start = base.wrapping_add(usize::try_from(dynamic.p_vaddr).ok()?);
    let mut entries = std::ptr::with_exposed_provenance::<Dynamic>(start);
    let (mut hash, mut symbols, mut names) = (0, 0, 0);
    let mut relocations = [(0, 0); 2];
    loop {
        // SAFETY: the section lies in the object, and an entry with the tag 0 ends it.
        let entry = unsafe { &*entries };
        match entry.tag {
            0 => break,
            DT_GNU_HASH => hash = entry.value,
            DT_SYMTAB => symbols = entry.value,
            DT_STRTAB => names = entry.value,
            DT_JMPREL => relocations[0].0 = entry.value,
            DT_PLTRELSZ => relocations[0].1 = entry.value,
            DT_RELA => relocations[1].0 = entry.value,
            DT_RELASZ => relocations[1].1 = entry.value,
            _ => {}
        }
        entries = entries.wrapping_add(1);
    }
    // The linker has relocated offsets to addresses, except in the kernel's own object.
    let address = |value: usize| if value < base { base.wrapping_add(value) } else { value };
    (symbols != 0 && names != 0).then(|| Tables {
        base,
        hash: if hash == 0 { std::ptr::null() } else { std::ptr::with_exposed_provenance(address(hash)) },
        symbols: std::ptr::with_exposed_provenance(address(symbols)),
        names: std::ptr::with_exposed_provenance(address(names)),
        relocations: relocations.map(|(start, bytes)| if start == 0 { (0, 0) } else { (address(start), bytes) }),
    })
}

/// Returns `false` if the Bloom filter rules out a symbol with this hash.
///
/// # Safety
/// The table of a live object, with its own header.
unsafe fn may_contain(tables: &Tables, header: Header, hash: u32) -> bool {
    let filter = tables.hash.wrapping_add(4).cast::<u64>();
    // SAFETY: the filter has `header.filter` words.
    let word = unsafe { filter.wrapping_add((hash / u64::BITS % header.filter) as usize).read() };
    let bit = |hash: u32| word >> (hash % u64::BITS) & 1;
    bit(hash) & bit(hash.wrapping_shr(header.shift)) == 1
}

/// Returns `true` if `name`, which has this hash, is in the table.
///
/// # Safety
/// The table of a live object, with its own header.
unsafe fn contains(tables: &Tables, header: Header, hash: u32, name: &CStr) -> bool {
    let buckets = tables.hash.wrapping_add(4 + 2 * header.filter as usize);
    let hashes = buckets.wrapping_add(header.buckets as usize);
    // SAFETY: the table has `header.buckets` buckets.
    let mut symbol = unsafe { buckets.wrapping_add((hash % header.buckets) as usize).read() };
    while symbol >= header.first {
        // SAFETY: the buckets are followed by the hashes of all symbols in the table; the last of a bucket is odd.
        let symbol_hash = unsafe { hashes.wrapping_add((symbol - header.first) as usize).read() };
        // SAFETY: the bucket contains this symbol.
        if symbol_hash | 1 == hash | 1 && unsafe { name_of(tables, symbol) } == name {
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
unsafe fn name_of(tables: &Tables, symbol: u32) -> &CStr {
    // SAFETY: the tables are those of a live object and have the symbol, as the caller guarantees.
    let offset = unsafe { (*tables.symbols.wrapping_add(symbol as usize)).st_name };
    // SAFETY: `st_name` is an offset in the string table, and names end in NUL.
    unsafe { CStr::from_ptr(tables.names.wrapping_add(offset as usize)) }
}

/// An entry of a table of relocations.
#[repr(C)]
struct Relocation {
    /// Offset of the word in the object that gets the address of the symbol.
    offset: usize,
    /// Index of the symbol in the upper half, type in the lower one.
    info: u64,
    addend: i64,
}

/// The types of relocations by which code calls functions: words that the linker writes once, when it binds them.
#[cfg(target_arch = "x86_64")]
const OF_CALLS: &[u64] = &[6, 7];
#[cfg(target_arch = "aarch64")]
const OF_CALLS: &[u64] = &[1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OF_CALLS: &[u64] = &[];

/// Calls `visit` for each function whose name begins with `prefix` that an object calls through the dynamic linker.
///
/// # Safety
/// The tables of an object that is loaded and relocated.
pub unsafe fn bound_calls<'a>(tables: &'a Tables, prefix: &[u8], mut visit: impl FnMut(BoundCall<'a>)) {
    for (start, bytes) in tables.relocations {
        let table = std::ptr::with_exposed_provenance::<Relocation>(start);
        for at in 0..bytes / size_of::<Relocation>() {
            // SAFETY: the table has this many bytes.
            let relocation = unsafe { table.wrapping_add(at).read() };
            let kind = relocation.info & 0xffff_ffff;
            let symbol = usize::try_from(relocation.info >> 32).unwrap_or(0);
            if symbol == 0 || !(OF_CALLS.is_empty() || OF_CALLS.contains(&kind)) {
                continue;
            }
            // SAFETY: relocations refer to symbols of their object.
            let symbol = unsafe { tables.symbols.wrapping_add(symbol).read() };
            let name = tables.names.wrapping_add(symbol.st_name as usize);
            let is_named = |(at, &byte): (usize, &u8)| {
                // SAFETY: within the name: the bytes before it are not NUL, since they are those of the prefix.
                (unsafe { name.wrapping_add(at).read() }).to_ne_bytes() == [byte]
            };
            if !prefix.iter().enumerate().all(is_named) {
                continue;
            }
            let word = std::ptr::with_exposed_provenance::<usize>(tables.base.wrapping_add(relocation.offset));
            // SAFETY: names end in NUL.
            let name = unsafe { CStr::from_ptr(name) };
            // SAFETY: an aligned word of the object, which other threads only replace by the address it is bound to.
            let target = unsafe { word.read_volatile() };
            let is_defined = symbol.st_shndx != 0;
            let own = is_defined.then(|| tables.base.wrapping_add(usize::try_from(symbol.st_value).unwrap_or(0)));
            visit(BoundCall { name, target, own });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::for_each_object;
    use super::*;

    /// Counts the objects of this process that export a name.
    fn count(name: &CStr) -> usize {
        let mut count = 0;
        for_each_object(|object| count += usize::from(object.exports(name) == Some(true)));
        count
    }

    #[test]
    fn exported_symbols_are_found() {
        let of_libc = [c"malloc", c"qsort", c"dl_iterate_phdr", c"strerror_r"];
        for name in of_libc {
            assert!(count(name) >= 1, "{name:?}");
        }
        for name in [c"", c"mallo", c"mallocc", c"lastuse_no_such_function"] {
            assert_eq!(count(name), 0, "{name:?}");
        }
    }

    #[test]
    fn imported_symbols_are_not_found() {
        // Programs refer to it, and libc defines it.
        assert_eq!(count(c"__libc_start_main"), 1);
    }
}
