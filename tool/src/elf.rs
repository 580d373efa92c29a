//! The information for linkers in a program or a library: the functions that it defines and calls, and the libraries
//! that it needs. Each table of a file is read at once: names are many.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use object::elf::{Dyn64, FileHeader64, Rela64, SectionHeader64, Sym64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader, Sym};
use object::{Endianness, FileKind, ReadCache, ReadRef, SectionIndex, elf};

type Cache = ReadCache<File>;
type Section = SectionHeader64<Endianness>;

/// The tables of a 64-bit ELF file.
pub struct Elf {
    cache: Cache,
}

/// A table of symbols.
struct Symbols<'a> {
    section: SectionIndex,
    symbols: &'a [Sym64<Endianness>],
    names: &'a [u8],
    /// False for the table that only debuggers and linkers read.
    is_dynamic: bool,
}

/// The definitions and calls of some functions in a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// It defines the function.
    pub defines: bool,
    /// It defines the function where other objects find it.
    pub exports: bool,
    /// It calls the function through the dynamic linker.
    pub binds: bool,
}

/// The libraries that a file needs, and where it looks for them.
#[derive(Debug, Default)]
pub struct Needs {
    pub libraries: Vec<OsString>,
    /// Its own folders, separated by colons: before those of the environment, and after them.
    pub before: OsString,
    pub after: OsString,
}

/// Returns the dynamic loader that a binary of 32 or 64 bits names.
pub fn interpreter(program: &Path) -> Option<PathBuf> {
    let data = ReadCache::new(File::open(program).ok()?);
    match FileKind::parse(&data).ok()? {
        FileKind::Elf32 => loader::<elf::FileHeader32<Endianness>, _>(&data),
        FileKind::Elf64 => loader::<FileHeader64<Endianness>, _>(&data),
        _ => None,
    }
}

fn loader<'data, Header: FileHeader<Endian = Endianness>, R: ReadRef<'data>>(data: R) -> Option<PathBuf> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, data).ok()?;
    let name = headers.iter().find_map(|header| header.interpreter(endian, data).ok()?)?;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

impl Elf {
    /// Opens a file; `None` if it cannot be read, or is not a 64-bit ELF file.
    pub fn open(file: &Path) -> Option<Self> {
        let elf = Self { cache: ReadCache::new(File::open(file).ok()?) };
        elf.parsed().is_some().then_some(elf)
    }

    fn parsed(&self) -> Option<ElfFile64<'_, Endianness, &Cache>> {
        ElfFile64::parse(&self.cache).ok()
    }

    /// Returns whether the program is started by the dynamic loader.
    pub fn has_loader(&self) -> bool {
        loader::<FileHeader64<Endianness>, _>(&self.cache).is_some()
    }

    /// Returns whether it is a program that needs no dynamic loader.
    pub fn is_static_program(&self) -> bool {
        let is_program =
            |file: ElfFile64<'_, Endianness, &Cache>| file.elf_header().e_type(file.endian()) == elf::ET_EXEC;
        !self.has_loader() && self.parsed().is_some_and(is_program)
    }

    /// Returns its definitions and calls of each of these functions; none if its tables are malformed.
    pub fn uses<const N: usize>(&self, names: [&str; N]) -> [Uses; N] {
        self.find_uses(names).unwrap_or_else(|| [Uses::default(); N])
    }

    fn find_uses<const N: usize>(&self, names: [&str; N]) -> Option<[Uses; N]> {
        let file = self.parsed()?;
        let endian = file.endian();
        let mut uses = [Uses::default(); N];
        for table in self.symbol_tables()? {
            // For each symbol, which of the names it has.
            let named: Vec<Option<usize>> = table.symbols.iter().map(|it| table.name(endian, it, &names)).collect();
            for (symbol, at) in table.symbols.iter().zip(&named) {
                let Some(at) = *at else { continue };
                let is_defined = symbol.st_shndx(endian) != elf::SHN_UNDEF;
                uses[at].defines |= is_defined;
                uses[at].exports |= is_defined && table.is_dynamic;
            }
            for symbol in self.bound_symbols(table.section)? {
                if let Some(Some(at)) = named.get(symbol) {
                    uses[*at].binds = true;
                }
            }
        }
        Some(uses)
    }

    /// Returns whether the bytes are in its constants.
    pub fn has_text(&self, text: &[u8]) -> bool {
        let Some(file) = self.parsed() else { return false };
        let endian = file.endian();
        let is_constant = |section: &&Section| {
            section.sh_type(endian) == elf::SHT_PROGBITS && !section.sh_flags(endian).contains(elf::SHF_EXECINSTR)
        };
        let mut constants = file.elf_section_table().iter().filter(is_constant);
        constants.any(|section| section.data(endian, &self.cache).is_ok_and(|data| contains(data, text)))
    }

    /// Returns the libraries that it needs.
    pub fn needs(&self) -> Needs {
        self.find_needs().unwrap_or_default()
    }

    fn find_needs(&self) -> Option<Needs> {
        let file = self.parsed()?;
        let (endian, sections) = (file.endian(), file.elf_section_table());
        let (entries, names): (&[Dyn64<Endianness>], _) = sections.dynamic(endian, &self.cache).ok()??;
        let names = sections.section(names).ok()?.data(endian, &self.cache).ok()?;
        let text = |entry: &Dyn64<Endianness>| {
            let start = names.get(usize::try_from(entry.d_val.get(endian)).ok()?..)?;
            Some(OsString::from_vec(start.split(|&byte| byte == 0).next()?.to_vec()))
        };
        let all = |tag: elf::DynamicTag| {
            let tagged = entries.iter().filter(move |entry| entry.d_tag.get(endian) == tag);
            tagged.filter_map(text).collect::<Vec<_>>()
        };
        let [before, after] = [elf::DT_RPATH, elf::DT_RUNPATH].map(|tag| all(tag).pop().unwrap_or_default());
        // The newer one replaces the older one.
        let before = if after.is_empty() { before } else { OsString::new() };
        Some(Needs { libraries: all(elf::DT_NEEDED), before, after })
    }

    fn symbol_tables(&self) -> Option<Vec<Symbols<'_>>> {
        let file = self.parsed()?;
        let (endian, sections) = (file.endian(), file.elf_section_table());
        let mut tables = Vec::new();
        for (section, header) in sections.enumerate() {
            let is_dynamic = header.sh_type(endian) == elf::SHT_DYNSYM;
            if is_dynamic || header.sh_type(endian) == elf::SHT_SYMTAB {
                let symbols = header.data_as_array(endian, &self.cache).ok()?;
                let names = sections.section(header.link(endian)).ok()?.data(endian, &self.cache).ok()?;
                tables.push(Symbols { section, symbols, names, is_dynamic });
            }
        }
        Some(tables)
    }

    /// Returns the indices of the symbols in a table that the dynamic linker binds calls of.
    fn bound_symbols(&self, table: SectionIndex) -> Option<Vec<usize>> {
        let file = self.parsed()?;
        let endian = file.endian();
        let of_calls = match file.elf_header().e_machine(endian) {
            elf::EM_AARCH64 => [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_JUMP_SLOT],
            _ => [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_JUMP_SLOT],
        };
        let mut found = Vec::new();
        for header in file.elf_section_table().iter() {
            let relocations: Option<(&[Rela64<Endianness>], _)> = header.rela(endian, &self.cache).ok()?;
            let Some((relocations, _)) = relocations.filter(|(_, of)| *of == table) else { continue };
            let calls = relocations.iter().filter(|it| of_calls.contains(&it.r_type(endian, false)));
            found.extend(calls.filter_map(|it| usize::try_from(it.r_sym(endian, false)).ok()));
        }
        Some(found)
    }
}

impl Symbols<'_> {
    /// Returns which of `names` a symbol has.
    fn name(&self, endian: Endianness, symbol: &Sym64<Endianness>, names: &[&str]) -> Option<usize> {
        let start = self.names.get(usize::try_from(symbol.st_name(endian)).ok()?..)?;
        names.iter().position(|name| start.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)))
    }
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    data.windows(text.len()).any(|window| window == text)
}
