//! Zip archives as torch writes them: nothing compressed, nothing encrypted, in one part.
//!
//! The directory at the end states where the records are. It is believed only where it agrees with the rest of the file:
//! names, checksums, and records that do not overlap.

use flate2::Crc;

use super::malformed::{Result, malformed};

/// The first bytes of every archive.
pub const SIGNATURE: &[u8; 4] = b"PK\x03\x04";

const ENTRY: &[u8; 4] = b"PK\x01\x02";
const END: &[u8; 4] = b"PK\x05\x06";
const END_64: &[u8; 4] = b"PK\x06\x06";
const LOCATOR_64: &[u8; 4] = b"PK\x06\x07";

/// Bytes of the headers without names and other parts of variable length.
const RECORD_BYTES: usize = 30;
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;

/// Sizes and checksum are behind the data; those of the header in front of it may be zero.
const SIZES_BEHIND: u16 = 1 << 3;
/// Names are UTF-8.
const UTF_8: u16 = 1 << 11;

/// An archive whose directory and checksums have been checked.
#[derive(Debug)]
pub struct Archive<'f> {
    records: Vec<(&'f str, &'f [u8])>,
}

/// An entry of the directory.
#[derive(Debug)]
struct DirectoryEntry<'f> {
    name: &'f str,
    flags: u16,
    checksum: u32,
    size: usize,
    /// Where the header of the record is.
    start: usize,
}

impl<'f> Archive<'f> {
    /// Reads the directory, and checks all records.
    pub fn read(file: &'f [u8]) -> Result<Self> {
        let directory = directory(file)?;
        let mut records = Vec::new();
        let mut end_before = 0;
        let mut entries = directory.entries;
        entries.sort_by_key(|entry| entry.start);
        for entry in &entries {
            if entry.start < end_before {
                return malformed(format!("record {:?} overlaps the one before it", entry.name));
            }
            let (data, end) = entry.data(&file[..directory.start])?;
            end_before = end;
            records.push((entry.name, data));
        }
        records.sort_by_key(|(name, _)| *name);
        match records.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => malformed(format!("record {:?} is there twice", pair[0].0)),
            None => Ok(Self { records }),
        }
    }

    /// Returns the folder that all records are in.
    pub fn folder(&self) -> Result<&'f str> {
        let folder = |name: &'f str| name.split_once('/').map(|(folder, _)| folder);
        let Some(first) = self.records.first().and_then(|(name, _)| folder(name)) else {
            return malformed("the archive has no folder");
        };
        match self.records.iter().find(|(name, _)| folder(name) != Some(first)) {
            Some((name, _)) => malformed(format!("record {name:?} is outside of the folder {first:?}")),
            None => Ok(first),
        }
    }

    /// Returns the bytes of a record.
    pub fn record(&self, name: &str) -> Option<&'f [u8]> {
        self.records.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
    }
}

impl DirectoryEntry<'_> {
    /// Returns the data of the record, which must lie in `file`, and the position behind it.
    fn data<'f>(&self, file: &'f [u8]) -> Result<(&'f [u8], usize)> {
        let name = self.name;
        let beyond = || malformed(format!("record {name:?} reaches beyond the records of the archive"));
        let Some(header) = part(file, self.start, RECORD_BYTES) else { return beyond() };
        if !header.starts_with(SIGNATURE) {
            return malformed(format!("record {name:?} has no header at byte {}", self.start));
        }
        let name_length = usize::from(u16_at(header, 26));
        let start = self.start + RECORD_BYTES;
        if part(file, start, name_length) != Some(name.as_bytes()) {
            return malformed(format!("record {name:?} has another name in its own header"));
        }
        if (u16_at(header, 6), u16_at(header, 8)) != (self.flags, 0) {
            return malformed(format!("record {name:?} has other flags or methods in its own header"));
        }
        let stated = (u32_at(header, 14), u32_at(header, 18) as usize, u32_at(header, 22) as usize);
        let may_be_zero = self.flags & SIZES_BEHIND != 0;
        if stated != (self.checksum, self.size, self.size) && !(may_be_zero && stated == (0, 0, 0)) {
            return malformed(format!("record {name:?} has another checksum or size in its own header"));
        }
        let start = start + name_length + usize::from(u16_at(header, 28));
        let Some(data) = part(file, start, self.size) else { return beyond() };
        let mut checksum = Crc::new();
        checksum.update(data);
        if checksum.sum() != self.checksum {
            let (found, expected) = (checksum.sum(), self.checksum);
            return malformed(format!(
                "record {name:?} has the checksum {found:08x}; {expected:08x} is stated: it is damaged"
            ));
        }
        Ok((data, start + self.size))
    }
}

/// The directory of an archive.
struct Directory<'f> {
    start: usize,
    entries: Vec<DirectoryEntry<'f>>,
}

fn directory(file: &[u8]) -> Result<Directory<'_>> {
    let end = file.len().checked_sub(END_BYTES).filter(|&end| file[end..].starts_with(END));
    let Some(end) = end else {
        return malformed("it does not end as a zip archive does: is the file whole?");
    };
    let record = &file[end..];
    let (count, size, start) = (u16_at(record, 10), u32_at(record, 12) as usize, u32_at(record, 16) as usize);
    if (u16_at(record, 4), u16_at(record, 6), u16_at(record, 8)) != (0, 0, count) {
        return malformed("the archive has several parts");
    }
    let directory_end = end_of_directory(file, end, (count, size, start))?;
    if start.checked_add(size) != Some(directory_end) {
        return malformed(format!("the directory has {size} bytes at byte {start}; its end is at {directory_end}"));
    }
    let mut rest = &file[start..directory_end];
    let mut entries = Vec::new();
    for position in 0..count {
        let Some((entry, length)) = entry(rest, position)? else {
            return malformed(format!("the directory ends in entry {position} of {count}"));
        };
        entries.push(entry);
        rest = &rest[length..];
    }
    if rest.is_empty() {
        Ok(Directory { start, entries })
    } else {
        malformed("the directory has more bytes than entries")
    }
}

/// Returns where the directory ends: at the end record, or at a second one with numbers of 64 bits, which must agree.
fn end_of_directory(file: &[u8], end: usize, stated: (u16, usize, usize)) -> Result<usize> {
    let locator = end.checked_sub(LOCATOR_64_BYTES).map(|start| &file[start..end]);
    let Some(locator) = locator.filter(|locator| locator.starts_with(LOCATOR_64)) else { return Ok(end) };
    let start = usize::try_from(u64_at(locator, 8)).ok();
    let record = start.and_then(|start| part(file, start, END_64_BYTES)).filter(|record| record.starts_with(END_64));
    let (Some(start), Some(record)) = (start, record) else {
        return malformed("the end record with numbers of 64 bits is missing");
    };
    let (count, size, directory_start) = stated;
    let agrees = [(24, u64::from(count)), (32, u64::from(count)), (40, size as u64), (48, directory_start as u64)]
        .iter()
        .all(|&(at, expected)| u64_at(record, at) == expected);
    if agrees { Ok(start) } else { malformed("the two end records of the archive differ") }
}

/// Reads the entry at the start of `rest`, and its length; `None` if it is cut off.
fn entry(rest: &[u8], position: u16) -> Result<Option<(DirectoryEntry<'_>, usize)>> {
    let Some(header) = part(rest, 0, ENTRY_BYTES) else { return Ok(None) };
    if !header.starts_with(ENTRY) {
        return malformed(format!("entry {position} of the directory has no header"));
    }
    let lengths = [28, 30, 32].map(|at| usize::from(u16_at(header, at)));
    let length = ENTRY_BYTES + lengths.iter().sum::<usize>();
    let (Some(name), true) = (part(rest, ENTRY_BYTES, lengths[0]), rest.len() >= length) else { return Ok(None) };
    let Ok(name) = std::str::from_utf8(name) else {
        return malformed(format!("the name of entry {position} of the directory is not UTF-8"));
    };
    let (flags, method) = (u16_at(header, 8), u16_at(header, 10));
    let (compressed, size) = (u32_at(header, 20), u32_at(header, 24));
    if method != 0 || compressed != size {
        return malformed(format!("record {name:?} is compressed; torch does not compress: save it again"));
    }
    if flags & !(SIZES_BEHIND | UTF_8) != 0 {
        return malformed(format!(
            "record {name:?} is encrypted, or has other flags that torch does not use: {flags:#06x}"
        ));
    }
    let (checksum, size, start) = (u32_at(header, 16), size as usize, u32_at(header, 42) as usize);
    Ok(Some((DirectoryEntry { name, flags, checksum, size, start }, length)))
}

/// Returns `length` bytes at `start`, or `None` if they are not there.
fn part(bytes: &[u8], start: usize, length: usize) -> Option<&[u8]> {
    bytes.get(start..start.checked_add(length)?)
}

fn array_at<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    header[at..at + N].try_into().expect("headers have their lengths")
}

fn u16_at(header: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(header, at))
}

fn u32_at(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(header, at))
}

fn u64_at(header: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(header, at))
}
