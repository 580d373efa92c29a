//! The mappings of the process, as `/proc/self/maps` lists them.

use std::ops::Range;

/// Whether the memory at these addresses is this process's alone and in no file, so that pages that were given back are 0 when
/// they are read again. `false` if the system does not say.
pub fn is_private_and_anonymous(addresses: &Range<usize>) -> bool {
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| is_in_anonymous(&maps, addresses))
}

/// Whether mappings without files, private and writable, cover these addresses without a gap.
fn is_in_anonymous(maps: &str, addresses: &Range<usize>) -> bool {
    let mut next = addresses.start;
    for mapping in maps.lines().filter_map(Mapping::parse) {
        if next < addresses.end && mapping.addresses.contains(&next) {
            if !mapping.is_anonymous {
                return false;
            }
            next = mapping.addresses.end;
        }
    }
    next >= addresses.end
}

/// A line of `/proc/self/maps`.
struct Mapping {
    addresses: Range<usize>,
    is_anonymous: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let (flags, inode) = (fields.next()?, fields.nth(2)?);
        let is_anonymous = flags.starts_with("rw") && flags.ends_with('p') && inode == "0";
        Some(Self { addresses: address(start)?..address(end)?, is_anonymous })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
10000-20000 rw-p 00000000 00:00 0\n\
20000-28000 rw-p 00000000 00:00 0    [heap]\n\
30000-38000 rw-p 00000000 08:01 1234 /tmp/file\n\
38000-40000 rw-s 00000000 00:01 77   /dev/zero (deleted)\n\
40000-48000 rw-s 00000000 00:00 0\n\
48000-50000 r--p 00000000 00:00 0\n";

    #[test]
    fn memory_is_anonymous_where_all_its_mappings_are() {
        for addresses in [0x10000..0x20000, 0x10008..0x10010, 0x18000..0x28000] {
            assert!(is_in_anonymous(MAPS, &addresses), "{addresses:x?}");
        }
        for addresses in
            [0x27000..0x29000, 0x1f000..0x31000, 0x30000..0x31000, 0x38000..0x39000, 0x40000..0x41000, 0x48000..0x49000]
        {
            assert!(!is_in_anonymous(MAPS, &addresses), "{addresses:x?}");
        }
        assert!(!is_in_anonymous("", &(1..2)));
    }
}
