//! Runs modules before and after `glovebox-runtimes` changes their functions.

use glovebox_runtimes::{ExportList, rewrite};
use wasmtime::{Config, Engine, Instance, Module, Store, Val};

/// Instantiates a module after the changes in `list`.
fn instance(text: &str, list: &ExportList) -> (Store<()>, Instance) {
    let rewritten = rewrite::with_exports(&wat::parse_str(text).unwrap(), list).unwrap();
    let engine = Engine::new(Config::new().wasm_exceptions(true)).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &Module::new(&engine, &rewritten.bytes).unwrap(), &[]).unwrap();
    (store, instance)
}

/// Calls an export that returns one number. Returns `None` if it traps.
fn call((store, instance): &mut (Store<()>, Instance), name: &str, arguments: &[i32]) -> Option<i32> {
    let arguments: Vec<_> = arguments.iter().map(|argument| Val::I32(*argument)).collect();
    let mut results = [Val::I32(0)];
    let function = instance.get_func(&mut *store, name).unwrap();
    function.call(&mut *store, &arguments, &mut results).ok()?;
    results[0].i32()
}

/// Each exported function calls functions that can be inlined.
const CALLS: &str = r#"(module
    (memory (export "memory") 1)
    (table 2 funcref) (elem (i32.const 0) $in_table)
    (func $in_table (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
    ;; A parameter that is set, and a return from nested blocks.
    (func $countdown (param $n i32) (result i32) (local $steps i32)
        (loop $again
            (block $on
                (br_if $on (local.get $n))
                (return (local.get $steps)))
            (local.set $n (i32.sub (local.get $n) (i32.const 1)))
            (local.set $steps (i32.add (local.get $steps) (i32.const 2)))
            (br $again))
        (unreachable))
    (func (export "countdowns") (param i32) (result i32) (local $sum i32)
        (loop $again
            (local.set $sum (i32.add (local.get $sum) (call $countdown (local.get 0))))
            (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
            (br_if $again (local.get 0)))
        (local.get $sum))
    ;; Locals of all types, which are read before they are set, in a loop.
    (func $mixed (param i32) (result i32) (local i64 f32 f64 v128 i32)
        (if (i32.and (local.get 0) (i32.const 1)) (then
            (local.set 1 (i64.const 5)) (local.set 2 (f32.const 2)) (local.set 3 (f64.const 3))
            (local.set 4 (i32x4.splat (i32.const 4))) (local.set 5 (i32.const 9))))
        (i32.add (i32.wrap_i64 (local.get 1)) (i32.add (i32.trunc_f32_s (local.get 2))
            (i32.add (i32.trunc_f64_s (local.get 3)) (i32.add (i32x4.extract_lane 2 (local.get 4)) (local.get 5))))))
    (func (export "mixed") (param i32) (result i32) (local $sum i32)
        (loop $again
            (local.set $sum (i32.add (i32.mul (local.get $sum) (i32.const 2)) (call $mixed (local.get 0))))
            (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))
            (br_if $again))
        (local.get $sum))
    ;; A `br_table` whose targets include the function itself.
    (func $select (param i32) (result i32)
        (block $one (result i32)
            (i32.const 10) (br_table $one 1 $one (local.get 0)))
        (i32.add (i32.const 5)))
    (func (export "select") (param i32) (result i32)
        (i32.add (call $select (local.get 0)) (call $select (i32.const 1))))
    ;; The order of parameters, in nested calls.
    (func $minus (param i32 i32) (result i32) (i32.sub (local.get 0) (local.get 1)))
    (func $twice (param i32 i32) (result i32) (call $minus (call $minus (local.get 0) (i32.const 1)) (call $minus (local.get 1) (local.get 0))))
    (func (export "nested") (param i32) (result i32)
        (call $minus (call $twice (local.get 0) (i32.const 7)) (call $twice (call $minus (i32.const 2) (local.get 0)) (i32.const 3))))
    ;; Recursion.
    (func $even (param i32) (result i32)
        (if (result i32) (local.get 0) (then (call $odd (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 1))))
    (func $odd (param i32) (result i32)
        (if (result i32) (local.get 0) (then (call $even (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 0))))
    (func $sum (param i32) (result i32)
        (if (result i32) (local.get 0)
            (then (i32.add (local.get 0) (call $sum (i32.sub (local.get 0) (i32.const 1))))) (else (i32.const 0))))
    (func (export "recursive") (param i32) (result i32)
        (i32.add (call $sum (local.get 0)) (i32.mul (call $even (local.get 0)) (i32.const 1000))))
    ;; A call within a block that catches exceptions, and functions that cannot be inlined.
    (tag $error (param i32))
    (func $throw (param i32) (if (i32.gt_s (local.get 0) (i32.const 2)) (then (throw $error (local.get 0)))))
    (func $tail (param i32) (result i32) (return_call $minus (local.get 0) (i32.const 4)))
    (func $both (param i32) (result i32 i32) (local.get 0) (i32.const 6))
    (func (export "other") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $error $caught) (call $throw (local.get 0)))
            (i32.add (call $tail (local.get 0)) (i32.mul (call $both (local.get 0)))))
        (i32.add (call $in_table (local.get 0)))
        (i32.add (call_indirect (param i32) (result i32) (local.get 0) (i32.const 0))))
    ;; A function without a result, and a trap.
    (func $store (param i32 i32)
        (if (i32.eqz (local.get 1)) (then (return)))
        (i32.store (local.get 0) (local.get 1)))
    (func (export "stores") (param i32) (result i32)
        (call $store (i32.const 8) (local.get 0)) (call $store (i32.const 12) (i32.const 0)) (i32.load (i32.const 8)))
    (func $fail (result i32) (unreachable))
    (func (export "fail") (param i32) (result i32) (if (local.get 0) (then (return (i32.const 3)))) (call $fail)))"#;

#[test]
fn inlined_functions_return_what_they_returned_before() {
    let inlined = ExportList { inlined: vec![(0, u32::MAX)], ..ExportList::default() };
    let (mut before, mut after) = (instance(CALLS, &ExportList::default()), instance(CALLS, &inlined));
    for name in ["countdowns", "mixed", "select", "nested", "recursive", "other", "stores", "fail"] {
        for argument in 0..9 {
            // Zero would count down for a long time.
            if argument > 0 || !["countdowns", "mixed"].contains(&name) {
                let expected = call(&mut before, name, &[argument]);
                assert_eq!(call(&mut after, name, &[argument]), expected, "{name}({argument})");
            }
        }
    }
    assert_eq!(call(&mut after, "countdowns", &[3]), Some(12));
}

/// Stand-ins for the functions of CPython's allocators. `malloc` returns addresses from 1 MiB, and mimalloc returns
/// addresses from a segment. `log` returns the number of the function that was called last.
const ALLOCATORS: &str = r#"(module
    (memory (export "memory") 512)
    (data (i32.const 26118348) "\0a\00\00\00") (data (i32.const 26118508) "\00\00\02\00")
    (table 5 funcref)
    (elem (i32.const 1) $_PyMem_MiMalloc $_PyMem_MiFree $_PyObject_MiMalloc $_PyObject_MiFree)
    (global $log (mut i32) (i32.const 0)) (global $freed (mut i32) (i32.const 0))
    (global $asked (mut i32) (i32.const 0)) (global $list (mut i32) (i32.const 0))
    (func (export "log") (result i32) (global.get $log))
    (func (export "freed") (result i32) (global.get $freed))
    (func (export "asked") (result i32) (global.get $asked))
    (func (export "list") (result i32) (global.get $list))
    (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
    (func $_PyMem_RawMalloc (export "raw_malloc") (param i32 i32) (result i32)
        (global.set $log (i32.const 1)) (global.set $asked (local.get 1)) (i32.const 0x100000))
    (func $_PyMem_RawCalloc (param i32 i32 i32) (result i32) (global.set $log (i32.const 2)) (i32.const 0x100000))
    (func $_PyMem_RawRealloc (param i32 i32 i32) (result i32) (global.set $log (i32.const 3)) (i32.const 0x100000))
    (func $_PyMem_RawFree (param i32 i32) (global.set $log (i32.const 4)))
    (func $_PyMem_MiMalloc (export "malloc") (param i32 i32) (result i32) (global.set $log (i32.const 5)) (i32.const 0x400020))
    (func $_PyMem_MiCalloc (export "calloc") (param i32 i32 i32) (result i32) (global.set $log (i32.const 6)) (i32.const 0x400020))
    (func $_PyMem_MiRealloc (export "realloc") (param i32 i32 i32) (result i32) (global.set $log (i32.const 7)) (i32.const 0x400040))
    (func $_PyMem_MiFree (param i32 i32)
        (global.set $log (i32.const 8)) (global.set $freed (local.get 1))
        (global.set $list (i32.add (local.get 1) (i32.const 28))))
    (func (export "free") (param i32 i32) (result i32) (call $_PyMem_MiFree (local.get 0) (local.get 1)) (global.get $log))
    (func $_PyObject_MiMalloc (param i32 i32) (result i32) (i32.const 0))
    (func $_PyObject_MiCalloc (param i32 i32 i32) (result i32) (i32.const 0))
    (func $_PyObject_MiRealloc (param i32 i32 i32) (result i32) (i32.const 0))
    (func $_PyObject_MiFree (param i32 i32) (drop (i32.add (local.get 1) (i32.const 28))))
    (func $PyMem_Malloc (export "mem_malloc") (param i32) (result i32) (global.set $log (i32.const 9)) (i32.const 0))
    (func $PyMem_Free (param i32) (global.set $log (i32.const 10)))
    (func (export "mem_free") (param i32) (result i32) (call $PyMem_Free (local.get 0)) (global.get $log))
    (func $PyObject_Malloc (param i32) (result i32) (i32.const 0))
    (func $PyObject_Free (param i32))
    (func $_mi_os_alloc (export "take_data") (param i32 i32 i32) (result i32) (unreachable))
    (func $_mi_prim_alloc (param i32 i32 i32 i32 i32 i32 i32) (result i32)
        (i32.store (local.get 6) (local.get 1)) (local.get 2))
    (func (export "take") (param $address i32) (param $size i32) (param $error i32) (result i32)
        (call $_mi_prim_alloc (local.get $size) (local.get $address) (local.get $error)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16)))
    (func (export "word") (param i32) (result i32) (i32.load (local.get 0)))
    (func (export "set") (param i32 i32) (result i32) (i32.store (local.get 0) (local.get 1)) (i32.const 0)))"#;

const MIB: i32 = 1 << 20;
/// The address of the table of segments: the page after the memory.
const TABLE: i32 = 512 << 16;

#[test]
fn small_blocks_belong_to_mimalloc_and_large_blocks_to_malloc() {
    let list = ExportList { two_allocators: true, ..ExportList::default() };
    let mut guest = instance(ALLOCATORS, &list);
    let mut logged = |name: &str, arguments: &[i32]| {
        call(&mut guest, name, arguments).unwrap();
        call(&mut guest, "log", &[]).unwrap()
    };
    logged("take", &[4 * MIB, 4 * MIB, 0]);
    let sizes = [0, 512, 513, -1].map(|size| logged("malloc", &[0, size]));
    assert_eq!(sizes, [5, 5, 1, 1]);
    // The last product has 33 bits.
    let products = [(8, 64), (9, 57), (0, 600), (0x1_0000, 0x1_0000)].map(|(n, size)| logged("calloc", &[0, n, size]));
    assert_eq!(products, [6, 2, 6, 2]);
    let (small, large) = (4 * MIB + 32, MIB);
    assert_eq!([small, large, 0].map(|block| logged("free", &[0, block])), [8, 4, 4]);
    let resized = [(0, 512), (0, 513), (large, 8), (large, 600), (small, 512)];
    assert_eq!(resized.map(|(block, size)| logged("realloc", &[0, block, size])), [7, 3, 3, 3, 7]);
}

#[test]
fn small_block_that_becomes_large_is_copied_and_freed() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    call(&mut guest, "take", &[4 * MIB, 4 * MIB, 0]);
    // The second block is the last one of the segment. Bytes after the segment are not copied.
    for (block, copied) in [(4 * MIB + 32, 512), (8 * MIB - 16, 16)] {
        for offset in [copied - 4, copied] {
            call(&mut guest, "set", &[block + offset, 77]);
            call(&mut guest, "set", &[MIB + offset, 0]);
        }
        assert_eq!(call(&mut guest, "realloc", &[0, block, 4000]), Some(MIB));
        assert_eq!(call(&mut guest, "freed", &[]), Some(block));
        let words = [copied - 4, copied].map(|offset| call(&mut guest, "word", &[MIB + offset]));
        assert_eq!(words, [Some(77), Some(0)]);
    }
}

/// Returns the words of the table that are not zero, with their offsets.
fn recorded(guest: &mut (Store<()>, Instance)) -> Vec<(i32, i32)> {
    let words = (0..1024).step_by(4).map(|at| (at, call(guest, "word", &[TABLE + at]).unwrap()));
    words.filter(|(_, word)| *word != 0).collect()
}

#[test]
fn only_whole_segments_that_mimalloc_took_are_recorded() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    let taken = [(3 * MIB, 4 * MIB, 0), (8 * MIB, 4 * MIB - 1, 0), (12 * MIB, 8 * MIB, 12), (-5 * MIB, 5 * MIB, 0)];
    for (address, size, error) in taken {
        assert_eq!(call(&mut guest, "take", &[address, size, error]), Some(error));
    }
    assert_eq!(recorded(&mut guest), [(1020, 1 << 24)]);
    call(&mut guest, "take", &[7 * MIB, 12 * MIB, 0]);
    assert_eq!(recorded(&mut guest), [(0, 1 << 16 | 1 << 24), (1020, 1 << 24)]);
}

#[test]
fn bytes_before_a_segment_become_memory_of_malloc() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    let page = 1 << 16;
    // The memory ends one page after the table, at 32 MiB and one page.
    for (growth, asked) in [(0, 4 * MIB - 2 * page), (61, page), (1, page)] {
        call(&mut guest, "grow", &[growth]);
        call(&mut guest, "take", &[4 * MIB, 4 * MIB, 0]);
        assert_eq!(call(&mut guest, "asked", &[]), Some(asked), "{growth}");
    }
    assert_eq!(call(&mut guest, "log", &[]), Some(4), "the block is freed");
}

#[test]
fn malloc_learns_that_its_memory_has_gaps() {
    const FLAGS: i32 = 28_063_124;
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    call(&mut guest, "set", &[FLAGS, 1]);
    call(&mut guest, "take", &[4 * MIB, 4 * MIB, 0]);
    assert_eq!(call(&mut guest, "word", &[FLAGS]), Some(5));
}

#[test]
fn memory_for_the_data_of_mimalloc_comes_from_malloc() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    let (data, last) = (MIB, MIB + 4996);
    for at in [64, 68, 72, 76, 80, data, last, last + 4] {
        call(&mut guest, "set", &[at, -1]);
    }
    assert_eq!(call(&mut guest, "take_data", &[5000, 64, 0]), Some(data));
    assert_eq!(call(&mut guest, "asked", &[]), Some(5000));
    assert_eq!([data, last, last + 4].map(|at| call(&mut guest, "word", &[at])), [Some(0), Some(0), Some(-1)]);
    // `mi_memid_t`: committed memory from the system.
    let words = [0, 4, 8, 12, 16].map(|at| call(&mut guest, "word", &[64 + at]).unwrap());
    assert_eq!(words, [0, 0, 0, 1 << 8, 3]);
}

#[test]
fn freed_block_is_the_next_one_that_mimalloc_allocates() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    call(&mut guest, "take", &[4 * MIB, 4 * MIB, 0]);
    call(&mut guest, "free", &[0, 4 * MIB + 32]);
    assert_eq!(call(&mut guest, "list", &[]), Some(4 * MIB + 32 + 16));
    let text = ALLOCATORS.replace("(i32.const 28)", "(i32.const 24)");
    let list = ExportList { two_allocators: true, ..ExportList::default() };
    let error = rewrite::with_exports(&wat::parse_str(text).unwrap(), &list).unwrap_err().to_string();
    assert!(error.contains("_PyMem_MiFree"), "{error}");
}

#[test]
fn mimalloc_is_called_directly_while_it_is_the_allocator() {
    let mut guest = instance(ALLOCATORS, &ExportList { two_allocators: true, ..ExportList::default() });
    call(&mut guest, "take", &[4 * MIB, 4 * MIB, 0]);
    let mut logged = |name: &str, argument: i32| {
        call(&mut guest, name, &[argument]).unwrap();
        call(&mut guest, "log", &[]).unwrap()
    };
    assert_eq!([logged("mem_malloc", 8), logged("mem_free", 4 * MIB)], [9, 10]);
    for (pointer, slot) in [(26_152_948, 1), (26_152_960, 2)] {
        call(&mut guest, "set", &[pointer, slot]);
    }
    let mut logged = |name: &str, argument: i32| {
        call(&mut guest, name, &[argument]).unwrap();
        call(&mut guest, "log", &[]).unwrap()
    };
    assert_eq!([0, 512, 513, i32::MAX].map(|size| logged("mem_malloc", size)), [5, 5, 1, 1]);
    assert_eq!(logged("mem_malloc", i32::MIN), 9, "CPython's function refuses the size");
    assert_eq!([4 * MIB, MIB, 0].map(|block| logged("mem_free", block)), [8, 4, 4]);
}

/// `$_Py_Dealloc` and destructors of types. Each logs its number and the stack pointer. The objects at 64, 72, 80 and 88
/// have types with the frequent destructor and with others, without and with garbage collection.
const DESTRUCTORS: &str = r#"(module
    (memory (export "memory") 1) (table 3 funcref) (elem (i32.const 1) $frequent $other)
    (data (i32.const 68) "\00\01\00\00") (data (i32.const 280) "\01")
    (data (i32.const 76) "\00\02\00\00") (data (i32.const 536) "\02") (data (i32.const 596) "\ff\bf\ff\ff")
    (data (i32.const 84) "\00\03\00\00") (data (i32.const 792) "\02") (data (i32.const 852) "\00\40\00\00")
    (data (i32.const 92) "\00\04\00\00") (data (i32.const 1048) "\01") (data (i32.const 1108) "\00\40\00\00")
    (global $__stack_pointer (mut i32) (i32.const 1024)) (global $log (mut i32) (i32.const 0))
    (func $log (param i32) (global.set $log (i32.add (local.get 0) (global.get $__stack_pointer))))
    (func $frequent (param i32) (call $log (i32.const 10000)))
    (func $other (param i32) (call $log (i32.const 20000)))
    (func $_Py_Dealloc (param i32) (call $log (i32.const 30000)))
    (func (export "dealloc") (param i32) (result i32) (call $_Py_Dealloc (local.get 0)) (global.get $log)))"#;

fn destructors(destructor: &str) -> ExportList {
    ExportList {
        framed: vec!["_Py_Dealloc".to_owned()],
        globals: [("__stack_pointer".to_owned(), 0)].into(),
        frequent_destructor: Some(destructor.to_owned()),
        ..ExportList::default()
    }
}

#[test]
fn destructors_of_types_without_garbage_collection_need_no_frame() {
    let mut guest = instance(DESTRUCTORS, &destructors("frequent"));
    let logged = [64, 72, 80, 88].map(|object| call(&mut guest, "dealloc", &[object]));
    assert_eq!(logged, [11_024, 21_024, 30_960, 11_024].map(Some));
    let error = |text: &str, destructor: &str| {
        rewrite::with_exports(&wat::parse_str(text).unwrap(), &destructors(destructor)).unwrap_err().to_string()
    };
    assert!(error(DESTRUCTORS, "log").contains("`log` is not in the table"));
    let other = DESTRUCTORS.replace("$_Py_Dealloc (local.get 0)", "$_Py_Dealloc (local.get 0) (local.get 0)");
    let other = other.replace("$_Py_Dealloc (param i32)", "$_Py_Dealloc (param i32 i32)");
    assert!(error(&other, "frequent").contains("does not have the signature of `_Py_Dealloc`"));
}

#[test]
fn unexpected_value_of_an_option_is_an_error() {
    let text = ALLOCATORS.replace(r#""\0a\00"#, r#""\0b\00"#);
    let list = ExportList { two_allocators: true, ..ExportList::default() };
    let error = rewrite::with_exports(&wat::parse_str(text).unwrap(), &list).unwrap_err().to_string();
    assert!(error.contains("mimalloc's purge_delay"), "{error}");
}
