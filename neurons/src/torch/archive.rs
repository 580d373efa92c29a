//! Zip archives as torch writes them: nothing compressed, nothing encrypted.
//!
//! The directory at the end states where the records are. It is believed only where it agrees with the rest of the
//! file: names, checksums, and records that do not overlap.

use rawzip::{CompressionMethod, ErrorKind, ZipArchive, ZipFileHeaderRecord, ZipSliceArchive, crc32};

use crate::malformed::{Result, malformed};

/// The first bytes of every archive.
pub const SIGNATURE: &[u8; 4] = b"PK\x03\x04";

/// Flags that torch uses: sizes and checksum are behind the data, and those in front of it may be zero; names are
/// UTF-8.
const SIZES_BEHIND: u16 = 1 << 3;
const UTF_8: u16 = 1 << 11;

/// Bytes of the end record of an archive without a comment.
const END_BYTES: usize = 22;

/// An archive whose directory and checksums have been checked.
#[derive(Debug)]
pub struct Archive<'f> {
    records: Vec<(String, &'f [u8])>,
}

impl<'f> Archive<'f> {
    /// Reads the directory, and checks all records.
    pub fn read(file: &'f [u8]) -> Result<Self> {
        let archive = ZipArchive::from_slice(file).or_else(|error| {
            malformed(format!("it does not end as a zip archive does: is the file whole? ({error})"))
        })?;
        check_end(file, &archive)?;
        let entries = archive.entries().enumerate().map(|(number, entry)| {
            entry.or_else(|error| malformed(format!("entry {number} of the directory cannot be read: {error}")))
        });
        let mut entries: Vec<ZipFileHeaderRecord<'_>> = entries.collect::<Result<_>>()?;
        if entries.len() as u64 != archive.entries_hint() {
            let (found, stated) = (entries.len(), archive.entries_hint());
            return malformed(format!("the directory has {found} entries; {stated} are stated"));
        }
        entries.sort_by_key(ZipFileHeaderRecord::local_header_offset);
        let (mut records, mut end_before) = (Vec::new(), 0);
        for entry in &entries {
            let name = name(entry)?;
            if entry.local_header_offset() < end_before {
                return malformed(format!("record {name:?} overlaps the one before it"));
            }
            let (start, end) = checked_range(&archive, entry, name)?;
            records.push((name.to_owned(), checked_data(file, (start, end), entry.crc32(), name)?));
            end_before = end;
        }
        records.sort();
        match records.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => malformed(format!("record {:?} is there twice", pair[0].0)),
            None => Ok(Self { records }),
        }
    }

    /// Returns the folder that all records are in.
    pub fn folder(&self) -> Result<&str> {
        let mut folders = self.records.iter().map(|(name, _)| (name, name.split_once('/').map(|(folder, _)| folder)));
        let Some((_, Some(first))) = folders.next() else {
            return malformed("the archive has no folder");
        };
        match folders.find(|(_, folder)| *folder != Some(first)) {
            Some((name, _)) => malformed(format!("record {name:?} is outside of the folder {first:?}")),
            None => Ok(first),
        }
    }

    /// Returns the bytes of a record.
    pub fn record(&self, name: &str) -> Option<&'f [u8]> {
        self.records.iter().find(|(known, _)| known == name).map(|(_, bytes)| *bytes)
    }
}

/// Checks that the archive ends with the file, and is one part.
fn check_end(file: &[u8], archive: &ZipSliceArchive<&[u8]>) -> Result<()> {
    let end = &file[position(archive.eocd_offset())..];
    if end.len() != END_BYTES {
        return malformed("it does not end as a zip archive does: bytes follow the end record");
    }
    if end[4..8] != [0; 4] || end[8..10] != end[10..12] {
        return malformed("the archive has several parts");
    }
    Ok(())
}

fn name<'e>(entry: &ZipFileHeaderRecord<'e>) -> Result<&'e str> {
    let name = entry.file_path().as_bytes();
    std::str::from_utf8(name)
        .or_else(|_| malformed(format!("a name in the directory is not UTF-8: \"{}\"", name.escape_ascii())))
}

/// Returns where the data of a record is, whose own header agrees with the directory.
fn checked_range(archive: &ZipSliceArchive<&[u8]>, entry: &ZipFileHeaderRecord<'_>, name: &str) -> Result<(u64, u64)> {
    let defect = |what: &str| malformed(format!("record {name:?} {what}"));
    let (flags, size) = (entry.flags().bits(), entry.uncompressed_size_hint());
    if entry.compression_method() != CompressionMethod::STORE || entry.compressed_size_hint() != size {
        return defect("is compressed; torch does not compress: save it again");
    }
    if flags & !(SIZES_BEHIND | UTF_8) != 0 {
        return defect(&format!("is encrypted, or has other flags that torch does not use: {flags:#06x}"));
    }
    let record = match archive.get_entry(entry.wayfinder()) {
        Ok(record) if record.compressed_data_range().1 <= archive.directory_offset() => record,
        Err(error) if !matches!(error.kind(), ErrorKind::Eof) => {
            return defect(&format!("has no header at byte {}", entry.local_header_offset()));
        }
        _ => return defect("reaches beyond the records of the archive"),
    };
    let header = record.local_header();
    if header.file_path().as_bytes() != name.as_bytes() {
        return defect("has another name in its own header");
    }
    if (header.flags(), header.compression_method()) != (entry.flags(), CompressionMethod::STORE) {
        return defect("has other flags or methods in its own header");
    }
    let stated = (header.crc32(), header.compressed_size_hint(), header.uncompressed_size_hint());
    if stated != (entry.crc32(), size, size) && !(flags & SIZES_BEHIND != 0 && stated == (0, 0, 0)) {
        return defect("has another checksum or size in its own header");
    }
    Ok(record.compressed_data_range())
}

/// Returns the data of a record, whose checksum is the stated one.
fn checked_data<'f>(file: &'f [u8], range: (u64, u64), stated: u32, name: &str) -> Result<&'f [u8]> {
    let data = &file[position(range.0)..position(range.1)];
    let found = crc32(data);
    if found == stated {
        return Ok(data);
    }
    malformed(format!("record {name:?} has the checksum {found:08x}; {stated:08x} is stated: it is damaged"))
}

fn position(at: u64) -> usize {
    usize::try_from(at).expect("positions have 64 bits")
}
