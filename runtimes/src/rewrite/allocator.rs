//! Makes CPython allocate small blocks with mimalloc, and all other blocks with the C library's `malloc`.
//!
//! The binary contains these two allocators, but not CPython's own (`pymalloc`). For small blocks, `malloc` is slower,
//! and scatters the blocks across the memory. For large blocks, mimalloc wastes memory, because it takes memory in
//! segments of 4 MiB and never returns it.
//!
//! The functions of CPython's mimalloc allocator are wrapped or changed. A table in an additional page of memory has one
//! byte for each possible segment. The byte is 1 if the segment belongs to mimalloc. A wrapper that receives a block
//! looks up which allocator the block belongs to.

use std::{borrow::Cow, collections::BTreeMap};

use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, MemorySection, ValType};
use wasmparser::{DataKind, Operator, Payload};

use super::{
    RewriteError, Splice, apply,
    function_wrappers::Wrapper,
    image::encoded_memory,
    index_of,
    sections::{SectionChange, Sections},
};

/// The size of the largest small block, in bytes. mimalloc is fastest for blocks up to this size.
const MAX_SMALL_BYTES: i32 = 512;
/// The binary logarithm of the size of a segment.
const SEGMENT_SHIFT: u32 = 22;
const SEGMENT_BYTES: i32 = 1 << SEGMENT_SHIFT;
/// The binary logarithm of the size of a page of memory.
const PAGE_SHIFT: i32 = 16;
const PAGE_BYTES: i32 = 1 << PAGE_SHIFT;

/// The function that takes memory from the system, `int (size_t size, …, void **block)`.
const TAKE: &str = "_mi_prim_alloc";
/// The function that takes memory for mimalloc's own data, `void *(size_t size, mi_memid_t *id, …)`. Memory from the
/// system would lie right after an arena and cause a gap before the next one. The caller expects zeros.
const TAKE_DATA: &str = "_mi_os_alloc";

/// The size of a `mi_memid_t` and the offsets of two of its fields, in bytes. All other fields are 0.
const MEMID_BYTES: i32 = 20;
const MEMID_COMMITTED: u64 = 13;
const MEMID_KIND: u64 = 16;
/// The kind of memory from the system. In WebAssembly, mimalloc never returns it, so a block of `malloc` is never passed
/// to the system.
const MEMKIND_OS: i32 = 3;

/// The address of the C library's `malloc` flags, and the flag that its memory has gaps. Without the flag, `malloc`
/// returns memory that does not extend its own when an allocation fails, for which the C library aborts.
const MALLOC_FLAGS: u64 = 28_063_124;
const NONCONTIGUOUS: i32 = 4;

/// Pairs of functions: a function of the allocator, and the C library's equivalent.
const PAIRS: [(Kind, &str, &str); 8] = [
    (Kind::Allocate, "_PyMem_MiMalloc", "_PyMem_RawMalloc"),
    (Kind::AllocateZeroed, "_PyMem_MiCalloc", "_PyMem_RawCalloc"),
    (Kind::Resize, "_PyMem_MiRealloc", "_PyMem_RawRealloc"),
    (Kind::Free, "_PyMem_MiFree", "_PyMem_RawFree"),
    (Kind::Allocate, "_PyObject_MiMalloc", "_PyMem_RawMalloc"),
    (Kind::AllocateZeroed, "_PyObject_MiCalloc", "_PyMem_RawCalloc"),
    (Kind::Resize, "_PyObject_MiRealloc", "_PyMem_RawRealloc"),
    (Kind::Free, "_PyObject_MiFree", "_PyMem_RawFree"),
];

/// Options of mimalloc: the name, the address of the value, the value in the binary, and the new value.
const OPTIONS: [(&str, u32, i32, i32); 2] = [
    // The milliseconds until unused memory is returned to the system, or -1 to never return it. WebAssembly memory does
    // not shrink, and without a delay mimalloc does not read the clock.
    ("purge_delay", 26_118_348, 10, -1),
    // The size of an arena in KiB, four times too large because WebAssembly cannot reserve memory. Arenas split up
    // `malloc`'s memory, so few large ones would be better, but a large arena may not fit under a script's limit.
    ("arena_reserve", 26_118_508, 131_072, 4 * (16 << 10)),
];

/// Adds a freed block to the list from which blocks are allocated (offset 16 in the page's data), so that the next
/// allocation uses it. mimalloc has a separate list for freed blocks (offset 28), which it uses when the first list is
/// empty. It would use every block of a page before reusing one, so each execution in a session would copy more pages.
const REUSE: Splice = Splice::new("_PyMem_MiFree", "41 1c 6a", "41 10 6a");

/// CPython's functions that call the allocator through a pointer: the name, the allocator's function, `true` for a
/// function that frees, and the pointer's address.
const CALLERS: [(&str, &str, bool, u32); 4] = [
    ("PyMem_Malloc", "_PyMem_MiMalloc", false, 26_152_948),
    ("PyMem_Free", "_PyMem_MiFree", true, 26_152_960),
    ("PyObject_Malloc", "_PyObject_MiMalloc", false, 26_152_968),
    ("PyObject_Free", "_PyObject_MiFree", true, 26_152_980),
];

/// A wrapper's purpose. The parameters of the functions are those of CPython's `PyMemAllocatorEx`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Allocate,
    AllocateZeroed,
    Resize,
    Free,
    /// Records the segments that mimalloc takes.
    Take,
    /// Allocates mimalloc's own data.
    TakeData,
    /// Calls mimalloc directly if the pointer at an address has this value. Direct calls are faster and can be inlined.
    Direct {
        frees: bool,
        pointer: u32,
        value: i32,
    },
}

/// A wrapper around a function of the allocator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    kind: Kind,
    /// The address of the table.
    table: u32,
    /// The equivalent function of the C library, or for `Direct` mimalloc's function. The wrapper itself for `Take` and
    /// `TakeData`.
    other: u32,
    /// The C library's `malloc`, and the wrapper that frees a block.
    malloc: u32,
    free: u32,
}

/// The names of all functions that the change needs.
pub(super) fn names<'a>() -> impl Iterator<Item = &'a str> {
    let callers = CALLERS.into_iter().map(|(name, ..)| name);
    PAIRS.into_iter().flat_map(|(_, own, other)| [own, other]).chain([TAKE, TAKE_DATA]).chain(callers)
}

/// Adds a page for the table to the memory, and sets mimalloc's options. Returns the table's address.
pub(super) fn prepare(module: &[u8]) -> Result<(Vec<u8>, u32), RewriteError> {
    let sections = Sections::read(module)?;
    let mut memory = encoded_memory(&sections, None)?;
    let table = memory.minimum.checked_mul(1 << PAGE_SHIFT).and_then(|bytes| u32::try_from(bytes).ok());
    let table = table.ok_or_else(|| RewriteError::Unsupported("it already has the maximum memory".to_owned()))?;
    memory.minimum = memory.minimum.saturating_add(1);
    let mut memories = MemorySection::new();
    memories.memory(memory);
    let mut bytes = sections.rebuild_all(vec![SectionChange::to(memories)]);
    for (name, address, old, new) in OPTIONS {
        let unexpected = || RewriteError::UnexpectedCode(format!("mimalloc's {name}"));
        let at = offset_of(&bytes, address)?.ok_or_else(unexpected)?;
        let value = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()).ok_or_else(unexpected)?;
        if *value != old.to_le_bytes() {
            return Err(unexpected());
        }
        *value = new.to_le_bytes();
    }
    Ok((bytes, table))
}

/// Returns where the module's bytes contain the initial value of an address.
fn offset_of(module: &[u8], address: u32) -> Result<Option<usize>, RewriteError> {
    for section in &Sections::read(module)?.0 {
        let Payload::DataSection(segments) = &section.payload else { continue };
        for segment in segments.clone() {
            let segment = segment?;
            let DataKind::Active { offset_expr, .. } = segment.kind else { continue };
            let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else { continue };
            let within = address.checked_sub(value.cast_unsigned()).and_then(|within| usize::try_from(within).ok());
            if let Some(within) = within.filter(|within| *within < segment.data.len()) {
                let start = segment.range.end.saturating_sub(segment.data.len());
                return Ok(Some(start.saturating_add(within)));
            }
        }
    }
    Ok(None)
}

/// Returns the functions to wrap. `found` contains the indices of the functions in [`names`].
pub(super) fn wrappers(
    sections: &Sections<'_>,
    table: u32,
    found: &BTreeMap<String, u32>,
) -> Result<BTreeMap<u32, Wrapper>, RewriteError> {
    let malloc = index_of(found, "_PyMem_RawMalloc")?;
    let free = index_of(found, "_PyMem_MiFree")?;
    let mut wrappers = BTreeMap::new();
    let mut all = PAIRS.to_vec();
    all.extend([(Kind::Take, TAKE, TAKE), (Kind::TakeData, TAKE_DATA, TAKE_DATA)]);
    for (name, direct, frees, pointer) in CALLERS {
        let value = sections.table_slot(index_of(found, direct)?)?;
        let value = value.ok_or_else(|| RewriteError::UnexpectedCode(direct.to_owned()))?;
        all.push((Kind::Direct { frees, pointer, value }, name, direct));
    }
    for (kind, own, other) in all {
        let replacement = Replacement { kind, table, other: index_of(found, other)?, malloc, free };
        wrappers.insert(index_of(found, own)?, Wrapper::Allocator(replacement));
    }
    Ok(wrappers)
}

impl Replacement {
    /// Returns the number of parameters.
    pub(super) fn parameters(self) -> usize {
        match self.kind {
            Kind::Direct { .. } => 1,
            Kind::Free | Kind::Allocate => 2,
            Kind::AllocateZeroed | Kind::Resize | Kind::TakeData => 3,
            Kind::Take => 7,
        }
    }

    /// Returns a wrapper around the function `old`.
    pub(super) fn body(self, old: u32) -> Function {
        let locals = match self.kind {
            Kind::Resize | Kind::TakeData => 1,
            Kind::Take => 2,
            _ => 0,
        };
        let mut function = Function::new([(locals, ValType::I32)]);
        let mut body = function.instructions();
        match self.kind {
            Kind::Allocate => {
                body.local_get(1).i32_const(MAX_SMALL_BYTES).i32_gt_u();
                self.choose(&mut body, old, BlockType::Result(ValType::I32));
            }
            Kind::AllocateZeroed => {
                body.local_get(1).i64_extend_i32_u().local_get(2).i64_extend_i32_u().i64_mul();
                body.i64_const(MAX_SMALL_BYTES.into()).i64_gt_u();
                self.choose(&mut body, old, BlockType::Result(ValType::I32));
            }
            Kind::Free => {
                self.is_small(&mut body, 1);
                body.i32_eqz();
                self.choose(&mut body, old, BlockType::Empty);
            }
            Kind::Resize => self.resize(&mut body, old),
            Kind::Take => self.take(&mut body, old),
            Kind::TakeData => self.take_data(&mut body),
            Kind::Direct { frees, pointer, value } => {
                body.i32_const(0).i32_load(field(pointer.into())).i32_const(value).i32_eq();
                let result = if frees {
                    BlockType::Empty
                } else {
                    // Larger sizes are errors.
                    body.local_get(0).i32_const(0).i32_ge_s().i32_and();
                    BlockType::Result(ValType::I32)
                };
                body.if_(result).i32_const(0).local_get(0).call(self.other).else_();
                self.forward(&mut body, old);
                body.end();
            }
        }
        body.end();
        function
    }

    /// Returns the wrapped function's body with its changes.
    pub(super) fn adapt(self, body: &[u8]) -> Result<Cow<'_, [u8]>, RewriteError> {
        match self.kind {
            Kind::Free => apply(body, &[&REUSE], &BTreeMap::new()).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(body)),
        }
    }

    /// Calls the other function if the value on the stack is true, and otherwise the wrapped function.
    fn choose(self, body: &mut InstructionSink<'_>, old: u32, result: BlockType) {
        body.if_(result);
        self.forward(body, self.other);
        body.else_();
        self.forward(body, old);
        body.end();
    }

    /// Calls a function with the wrapper's parameters.
    fn forward(self, body: &mut InstructionSink<'_>, function: u32) {
        for (parameter, _) in (0u32..).zip(0..self.parameters()) {
            body.local_get(parameter);
        }
        body.call(function);
    }

    /// Loads 1 if the block in `local` belongs to mimalloc.
    fn is_small(self, body: &mut InstructionSink<'_>, local: u32) {
        body.local_get(local).i32_const(SEGMENT_SHIFT.cast_signed()).i32_shr_u().i32_load8_u(self.entry());
    }

    fn entry(self) -> MemArg {
        MemArg { offset: self.table.into(), align: 0, memory_index: 0 }
    }

    /// Resizes the block in local 1 to the size in local 2. A small block that becomes large is copied. The copy may
    /// include bytes after the block, but none outside its segment.
    fn resize(self, body: &mut InstructionSink<'_>, old: u32) {
        let (block, size, larger) = (1, 2, 3);
        let result = BlockType::Result(ValType::I32);
        body.local_get(block).i32_eqz().if_(result);
        body.local_get(size).i32_const(MAX_SMALL_BYTES).i32_gt_u();
        self.choose(body, old, result);
        body.else_();
        self.is_small(body, block);
        body.i32_eqz();
        body.if_(result);
        self.forward(body, self.other);
        body.else_();
        body.local_get(size).i32_const(MAX_SMALL_BYTES).i32_le_u().if_(result);
        self.forward(body, old);
        body.else_();
        body.local_get(0).local_get(size).call(self.malloc).local_tee(larger).if_(BlockType::Empty);
        // The smaller one of `MAX_SMALL_BYTES` and the bytes until the end of the segment.
        let rest = |body: &mut InstructionSink<'_>| {
            body.i32_const(0).local_get(block).i32_sub().i32_const(SEGMENT_BYTES - 1).i32_and();
        };
        body.local_get(larger).local_get(block);
        body.i32_const(MAX_SMALL_BYTES);
        rest(body);
        rest(body);
        body.i32_const(1).i32_sub().i32_const(MAX_SMALL_BYTES).i32_ge_u().select().memory_copy(0, 0);
        body.local_get(0).local_get(block).call(self.free).end();
        body.local_get(larger);
        body.end().end().end();
    }

    /// Calls the wrapped function, and records the segments in the memory that it took. The bytes before the first
    /// segment become free memory of `malloc`, unless `malloc` already has that much free.
    fn take(self, body: &mut InstructionSink<'_>, old: u32) {
        let (size, address, gap, result) = (0, 6, 7, 8);
        body.i32_const(0).i32_const(0).i32_load(field(MALLOC_FLAGS)).i32_const(NONCONTIGUOUS).i32_or();
        body.i32_store(field(MALLOC_FLAGS));
        body.i32_const(0).memory_size(0).i32_const(PAGE_SHIFT).i32_shl().i32_sub();
        body.i32_const(SEGMENT_BYTES - 1).i32_and().local_tee(gap).i32_const(PAGE_BYTES).i32_gt_u();
        body.if_(BlockType::Empty);
        // `malloc` adds less than a page of its own.
        body.i32_const(0).i32_const(0).local_get(gap).i32_const(PAGE_BYTES).i32_sub().call(self.malloc);
        body.call(self.free).end();
        self.forward(body, old);
        body.local_tee(result).i32_eqz().if_(BlockType::Empty);
        // The bytes before the first whole segment.
        body.i32_const(0).local_get(address).i32_load(field(0)).i32_sub().i32_const(SEGMENT_BYTES - 1).i32_and();
        body.local_tee(gap).local_get(size).i32_le_u().if_(BlockType::Empty);
        body.local_get(address).i32_load(field(0)).local_get(gap).i32_add().i32_const(SEGMENT_SHIFT.cast_signed());
        body.i32_shr_u().i32_const(self.table.cast_signed()).i32_add().i32_const(1);
        body.local_get(size).local_get(gap).i32_sub().i32_const(SEGMENT_SHIFT.cast_signed()).i32_shr_u().memory_fill(0);
        body.end().end();
        body.local_get(result);
    }

    /// Allocates a zeroed block with `malloc`, and fills in mimalloc's `mi_memid_t`.
    fn take_data(self, body: &mut InstructionSink<'_>) {
        let (size, id, block) = (0, 1, 3);
        body.i32_const(0).local_get(size).call(self.malloc).local_tee(block).if_(BlockType::Empty);
        body.local_get(block).i32_const(0).local_get(size).memory_fill(0);
        body.local_get(id).i32_const(0).i32_const(MEMID_BYTES).memory_fill(0);
        body.local_get(id).i32_const(1).i32_store8(MemArg { align: 0, ..field(MEMID_COMMITTED) });
        body.local_get(id).i32_const(MEMKIND_OS).i32_store(field(MEMID_KIND)).end();
        body.local_get(block);
    }
}

/// A 32-bit word at an offset.
fn field(offset: u64) -> MemArg {
    MemArg { offset, align: 2, memory_index: 0 }
}
