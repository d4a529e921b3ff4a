//! Places an ELF object for x86-64 in memory and makes it executable.
//!
//! The code and constants of an object go one after another into a single anonymous mapping, behind them a table of addresses
//! and a table of jumps:
//!
//! ```text
//!   [.text] [.rodata...] [addresses: 8 bytes a symbol] [jumps: 8 bytes a symbol]      one mapping, read and execute
//! ```
//!
//! A reference within the object is relative and needs no table. A function outside may be further than the 2 GiB that a
//! relative call can reach, so a call goes to the symbol's jump, and that goes through the symbol's address.
//!
//! Always: the mapping is written first and executable after, never both. Nothing of a damaged object is believed: offsets,
//! sizes, alignments, symbols and distances are checked, and what is not known here is refused by name. Objects with writable
//! globals are refused: a kernel has no state.
//!
//! Not here: what the outside functions are (`symbols`), the call itself (`kernel`). No unsafe code: what is in the object can
//! do harm only when it is called. Tested in `cpu/tests`, damaged objects among it.

use std::collections::BTreeMap;

use memmap2::{Mmap, MmapMut};
use object::elf;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags, SectionIndex,
    SymbolIndex, SymbolSection,
};

use super::symbols;

/// Far more than any kernel has; keeps a damaged object from asking for all memory, and all distances within 31 bits.
const CODE_BYTES_MAX: usize = 1 << 30;
/// Sections that only unwinders and debuggers read.
const SECTIONS_SKIPPED: &[&str] = &[".eh_frame", ".note.GNU-stack"];
const ADDRESS_BYTES: usize = 8;
const JUMP_BYTES: usize = 8;

/// Executable code, unmapped on drop.
#[derive(Debug)]
pub(super) struct LoadedCode {
    map: Mmap,
    entry: usize,
}

impl LoadedCode {
    /// The addresses of code and constants.
    #[cfg(feature = "guard-pages")]
    pub(super) fn addresses(&self) -> std::ops::Range<usize> {
        let begin = self.map.as_ptr().addr();
        begin..begin + self.map.len()
    }

    /// Address of the entry point, inside of the mapping that this value owns.
    pub(super) fn entry_address(&self) -> *const u8 {
        self.map[self.entry..].as_ptr()
    }
}

/// One field to be filled in, and with what.
struct Fixup {
    offset: usize,
    kind: u32,
    symbol: SymbolIndex,
    addend: i64,
}

type File<'data> = ElfFile64<'data, LittleEndian>;

/// Where everything goes, decided before memory is asked for.
struct Layout {
    /// Offset in the mapping of each section that is loaded, by its number.
    sections: BTreeMap<usize, usize>,
    fixups: Vec<Fixup>,
    /// Position in the tables of each symbol that needs one, by its number.
    slots: BTreeMap<usize, usize>,
    addresses: usize,
    jumps: usize,
    bytes: usize,
}

/// Loads an object and finds its entry point. An error is a sentence on what is wrong with the object.
pub(super) fn load(object: &[u8], entry: &str) -> Result<LoadedCode, String> {
    let file = File::parse(object).map_err(|error| format!("it is no 64-bit ELF file: {error}"))?;
    if file.architecture() != object::Architecture::X86_64 {
        return Err(format!("it is for {:?}, and this loader is for x86-64", file.architecture()));
    }
    let layout = plan(&file)?;
    let entry = find_entry(&file, &layout, entry)?;
    let mut map = MmapMut::map_anon(layout.bytes.max(1)).map_err(|error| format!("no memory for code: {error}"))?;
    for (&index, &offset) in &layout.sections {
        let data = section_data(&file, SectionIndex(index))?;
        map[offset..offset + data.len()].copy_from_slice(data);
    }
    fill_tables(&file, &layout, &mut map)?;
    for fixup in &layout.fixups {
        apply(&file, &layout, fixup, &mut map)?;
    }
    let map = map.make_exec().map_err(|error| format!("the system does not let memory become executable: {error}"))?;
    Ok(LoadedCode { map, entry })
}

fn plan(file: &File<'_>) -> Result<Layout, String> {
    let mut layout = Layout {
        sections: BTreeMap::new(),
        fixups: Vec::new(),
        slots: BTreeMap::new(),
        addresses: 0,
        jumps: 0,
        bytes: 0,
    };
    for section in file.sections() {
        let name = section.name().map_err(|error| error.to_string())?;
        let SectionFlags::Elf { sh_flags } = section.flags() else { continue };
        if sh_flags & u64::from(elf::SHF_ALLOC) == 0 || SECTIONS_SKIPPED.contains(&name) || section.size() == 0 {
            continue;
        }
        if sh_flags & u64::from(elf::SHF_WRITE) != 0 && !name.starts_with(".data.rel.ro") {
            return Err(format!("section {name} is writable; a kernel has no state of its own"));
        }
        let align = usize::try_from(section.align().max(1)).unwrap_or(usize::MAX);
        if !align.is_power_of_two() || align > 4096 {
            return Err(format!("section {name} is aligned to {align}"));
        }
        let data = section_data(file, section.index())?;
        let offset = layout.bytes.next_multiple_of(align);
        layout.bytes = offset.saturating_add(data.len());
        if layout.bytes > CODE_BYTES_MAX {
            return Err(format!("it has more than {CODE_BYTES_MAX} bytes of code and constants"));
        }
        layout.sections.insert(section.index().0, offset);
        collect_fixups(file, &section, offset, data.len(), &mut layout)?;
    }
    layout.addresses = layout.bytes.next_multiple_of(ADDRESS_BYTES);
    layout.jumps = layout.addresses + layout.slots.len() * ADDRESS_BYTES;
    layout.bytes = layout.jumps + layout.slots.len() * JUMP_BYTES;
    Ok(layout)
}

fn collect_fixups<'data>(
    file: &File<'data>,
    section: &impl ObjectSection<'data>,
    section_offset: usize,
    section_bytes: usize,
    layout: &mut Layout,
) -> Result<(), String> {
    for (offset, relocation) in section.relocations() {
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            return Err("a relocation is not of ELF".to_string());
        };
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Err(format!("relocation {r_type} has no symbol"));
        };
        let bytes = field_bytes(r_type)?;
        let in_section = usize::try_from(offset).ok().filter(|&begin| {
            begin.checked_add(bytes).is_some_and(|end| end <= section_bytes) // the whole field, not only its first byte
        });
        let offset = section_offset
            + in_section.ok_or_else(|| format!("a relocation at {offset:#x} is outside of its section"))?;
        let outside = file.symbol_by_index(symbol).map_err(|error| error.to_string())?.is_undefined();
        if outside || uses_address_table(r_type) {
            let next = layout.slots.len();
            layout.slots.entry(symbol.0).or_insert(next);
        }
        layout.fixups.push(Fixup { offset, kind: r_type, symbol, addend: relocation.addend() });
    }
    Ok(())
}

/// Bytes of the field that a relocation fills. The one list of relocations that are known.
fn field_bytes(kind: u32) -> Result<usize, String> {
    match kind {
        elf::R_X86_64_64 | elf::R_X86_64_PC64 => Ok(8),
        elf::R_X86_64_PC32
        | elf::R_X86_64_PLT32
        | elf::R_X86_64_32
        | elf::R_X86_64_32S
        | elf::R_X86_64_GOTPCREL
        | elf::R_X86_64_GOTPCRELX
        | elf::R_X86_64_REX_GOTPCRELX => Ok(4),
        _ => Err(format!("it has a relocation of type {kind}, which is not known here")),
    }
}

fn uses_address_table(kind: u32) -> bool {
    matches!(kind, elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX)
}

fn section_data<'data>(file: &File<'data>, index: SectionIndex) -> Result<&'data [u8], String> {
    let section = file.section_by_index(index).map_err(|error| error.to_string())?;
    let data = section.data().map_err(|error| error.to_string())?;
    // A section without bytes in the file would be zeroes in memory; only writable sections are so.
    if data.len() as u64 == section.size() { Ok(data) } else { Err("a section has no bytes in the file".to_string()) }
}

fn find_entry(file: &File<'_>, layout: &Layout, entry: &str) -> Result<usize, String> {
    let symbol = file
        .symbols()
        .find(|symbol| symbol.is_definition() && symbol.name() == Ok(entry))
        .ok_or_else(|| format!("it has no entry point `{entry}`"))?;
    inside_offset(file, layout, symbol.index())
}

/// Offset in the mapping of a symbol that the object defines.
fn inside_offset(file: &File<'_>, layout: &Layout, symbol: SymbolIndex) -> Result<usize, String> {
    let symbol = file.symbol_by_index(symbol).map_err(|error| error.to_string())?;
    let name = symbol.name().unwrap_or("?");
    let SymbolSection::Section(index) = symbol.section() else {
        return Err(format!("symbol `{name}` is in no section"));
    };
    let offset =
        *layout.sections.get(&index.0).ok_or_else(|| format!("symbol `{name}` is in a section that is not loaded"))?;
    let bytes = section_data(file, index)?.len();
    match usize::try_from(symbol.address()) {
        Ok(address) if address <= bytes => Ok(offset + address),
        Ok(_) | Err(_) => Err(format!("symbol `{name}` is outside of its section")),
    }
}

/// Address of a symbol at run time: inside of the mapping, or of a function that kernels may call.
fn symbol_address(file: &File<'_>, layout: &Layout, symbol: SymbolIndex, base: u64) -> Result<u64, String> {
    let found = file.symbol_by_index(symbol).map_err(|error| error.to_string())?;
    if !found.is_undefined() {
        return Ok(base + inside_offset(file, layout, symbol)? as u64);
    }
    let name = found.name().map_err(|error| error.to_string())?;
    let address = symbols::address_of(name).ok_or_else(|| {
        format!("it calls `{name}`, which kernels cannot: only what devices/src/cpu/symbols.rs lists is known")
    })?;
    Ok(address as u64)
}

fn fill_tables(file: &File<'_>, layout: &Layout, map: &mut MmapMut) -> Result<(), String> {
    let base = map.as_ptr().addr() as u64;
    for (&symbol, &slot) in &layout.slots {
        let address = symbol_address(file, layout, SymbolIndex(symbol), base)?;
        let at = layout.addresses + slot * ADDRESS_BYTES;
        map[at..at + ADDRESS_BYTES].copy_from_slice(&address.to_le_bytes());
        // jmp [rip + distance]: six bytes, the distance counted from the end of the instruction.
        let jump = layout.jumps + slot * JUMP_BYTES;
        let distance = distance_32(at as u64, (jump + 6) as u64)?;
        map[jump..jump + 2].copy_from_slice(&[0xff, 0x25]);
        map[jump + 2..jump + 6].copy_from_slice(&distance);
    }
    Ok(())
}

fn apply(file: &File<'_>, layout: &Layout, fixup: &Fixup, map: &mut MmapMut) -> Result<(), String> {
    let base = map.as_ptr().addr() as u64;
    let field = base + fixup.offset as u64;
    let slot = layout.slots.get(&fixup.symbol.0).copied();
    let outside = file.symbol_by_index(fixup.symbol).map_err(|error| error.to_string())?.is_undefined();
    let add = |address: u64| address.wrapping_add_signed(fixup.addend);
    // A relative reference to a function outside goes to its jump, which is near.
    let near = || match slot {
        Some(slot) if outside => Ok(base + (layout.jumps + slot * JUMP_BYTES) as u64),
        Some(_) | None => symbol_address(file, layout, fixup.symbol, base),
    };
    let mut write = |bytes: &[u8]| map[fixup.offset..fixup.offset + bytes.len()].copy_from_slice(bytes);
    match fixup.kind {
        elf::R_X86_64_64 => write(&add(symbol_address(file, layout, fixup.symbol, base)?).to_le_bytes()),
        elf::R_X86_64_PC64 => write(&add(near()?).wrapping_sub(field).to_le_bytes()),
        elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => write(&distance_32(add(near()?), field)?),
        elf::R_X86_64_32 => {
            let address = add(symbol_address(file, layout, fixup.symbol, base)?);
            write(&u32::try_from(address).map_err(|_| too_far())?.to_le_bytes());
        }
        elf::R_X86_64_32S => write(&distance_32(add(symbol_address(file, layout, fixup.symbol, base)?), 0)?),
        kind if uses_address_table(kind) => {
            let slot = slot.ok_or("a symbol has no slot in the table of addresses")?;
            let address = base + (layout.addresses + slot * ADDRESS_BYTES) as u64;
            write(&distance_32(add(address), field)?);
        }
        kind => return Err(format!("it has a relocation of type {kind}, which is not known here")),
    }
    Ok(())
}

/// `to - from` in 32 bits with sign.
fn distance_32(to: u64, from: u64) -> Result<[u8; 4], String> {
    let distance = to.wrapping_sub(from) as i64;
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| too_far())
}

fn too_far() -> String {
    "an address is out of the reach of its relocation".to_string()
}
