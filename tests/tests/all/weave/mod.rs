//! Tests that woven code executes correctly: the functions provided to the shim, and the guests' code.
//!
//! The shim of these tests (`runtimes/weave/tests/suite/shim.wat`) exports all functions that the weaver provides, so
//! that the test itself can act as the shim.

mod exceptions;

use std::collections::BTreeMap;

use glovebox_component::Description;
use glovebox_runtimes::{
    Digest,
    rewrite::{GlobalKind, MutableGlobal},
};
use glovebox_weave::{Guest, WeaveOptions, weave};
use wasmtime::{Engine, Instance, Memory, Module, Store, Val, WasmParams, WasmResults};
use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const SHIM: &str = include_str!("../../../../runtimes/weave/tests/suite/shim.wat");
const GUEST: &str = include_str!("../../../../runtimes/weave/tests/suite/guest.wat");

/// The exports that tests call by name; the index is the callee number.
const EXPORTS: [&str; 10] = ["add", "wide", "nothing", "deep", "chain", "close", "exit", "abort", "grow", "spin"];

// Statuses of a call.
const NOTHING: i32 = 0;
const I32: i32 = 1;
const I64: i32 = 2;
const UNWOUND: i32 = 3;
const MISSING: i32 = 4;

// Addresses in the shim's memory for arguments and results.
const ARGUMENTS: i32 = 1024;
const RESULT: i32 = 2048;

struct WovenInstance {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
}

impl WovenInstance {
    fn new(guests: usize) -> Self {
        Self::with(guests, &WeaveOptions::default())
    }

    fn with(guests: usize, options: &WeaveOptions) -> Self {
        let module = wat::parse_str(GUEST).unwrap();
        let exports = EXPORTS.map(str::to_owned);
        let global = |index, export: &str, kind| MutableGlobal { index, export: export.to_owned(), kind };
        let globals = [
            global(0, "__stack_pointer", GlobalKind::I32),
            global(1, "__glovebox_global_1", GlobalKind::I64),
            global(2, "__glovebox_global_2", GlobalKind::F32),
            global(3, "__glovebox_global_3", GlobalKind::F64),
        ];
        let guest = Guest {
            name: "guest",
            aliases: &[],
            language: "python",
            driver: "cpython",
            version: "3",
            module: &module,
            image_sha256: Digest::of(&module),
            anchors: &BTreeMap::new(),
            globals: &globals,
            exports: &exports,
            library: None,
        };
        Self::of(&vec![guest; guests], options)
    }

    fn of(guests: &[Guest<'_>], options: &WeaveOptions) -> Self {
        let woven = weave(&shim(), guests, options).unwrap();
        let engine = Engine::default();
        let module = Module::new(&engine, &woven.core).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "memory").unwrap();
        let mut woven = Self { store, instance, memory };
        woven.run::<_, ()>("fuel_set", 1_000_000i64);
        woven
    }

    fn try_run<P: WasmParams, R: WasmResults>(&mut self, name: &str, parameters: P) -> wasmtime::Result<R> {
        let function = self.instance.get_typed_func::<P, R>(&mut self.store, name).unwrap();
        function.call(&mut self.store, parameters)
    }

    fn run<P: WasmParams, R: WasmResults>(&mut self, name: &str, parameters: P) -> R {
        self.try_run(name, parameters).unwrap()
    }

    fn set(&mut self, global: &str, value: i32) {
        let global = self.instance.get_global(&mut self.store, global).unwrap();
        global.set(&mut self.store, Val::I32(value)).unwrap();
    }

    fn get(&mut self, global: &str) -> i32 {
        self.instance.get_global(&mut self.store, global).unwrap().get(&mut self.store).unwrap_i32()
    }

    /// Calls `call_export` or `call_table`, and returns the status and the result.
    fn call_by(&mut self, how: &str, guest: i32, callee: i32, arguments: &[u64]) -> (i32, u64) {
        let bytes: Vec<u8> = arguments.iter().flat_map(|argument| argument.to_le_bytes()).collect();
        self.memory.write(&mut self.store, usize::try_from(ARGUMENTS).unwrap(), &bytes).unwrap();
        self.memory.write(&mut self.store, usize::try_from(RESULT).unwrap(), &[0xee; 8]).unwrap();
        let count = i32::try_from(arguments.len()).unwrap();
        let status = self.run(how, (guest, callee, ARGUMENTS, count, RESULT));
        let mut result = [0; 8];
        self.memory.read(&self.store, usize::try_from(RESULT).unwrap(), &mut result).unwrap();
        (status, u64::from_le_bytes(result))
    }

    fn call(&mut self, name: &str, arguments: &[u64]) -> (i32, u64) {
        let number = EXPORTS.iter().position(|export| *export == name).unwrap();
        self.call_by("call_export", 0, i32::try_from(number).unwrap(), arguments)
    }

    /// Returns the guests' description, which the shim reads.
    fn description(&mut self) -> Vec<u8> {
        let len = usize::try_from(self.run::<_, i32>("describe_len", ())).unwrap();
        self.run::<_, ()>("describe", 8192);
        let mut json = vec![0; len + 1];
        self.memory.read(&self.store, 8192, &mut json).unwrap();
        assert_eq!(json.pop(), Some(0));
        json
    }

    /// Reads bytes from a guest's memory.
    fn peek<const N: usize>(&mut self, guest: i32, at: i32) -> [u8; N] {
        self.run::<_, ()>("memory_read", (guest, at, 4096, i32::try_from(N).unwrap()));
        let mut bytes = [0; N];
        self.memory.read(&self.store, 4096, &mut bytes).unwrap();
        bytes
    }
}

fn shim() -> Vec<u8> {
    let mut shim = wat::parse_str(SHIM).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("empty.wit", "package test:empty; world empty {}").unwrap();
    let world = resolve.select_world(&[package], None).unwrap();
    embed_component_metadata(&mut shim, &resolve, world, StringEncoding::UTF8).unwrap();
    shim
}

/// The contents of the result slot if a call did not write a result.
const UNTOUCHED: u64 = 0xeeee_eeee_eeee_eeee;

#[test]
fn exports_are_called_by_number_with_their_own_types() {
    let mut woven = WovenInstance::new(1);
    assert_eq!(woven.call("add", &[40, 2]), (I32, 42));
    // The upper half of an `i32` slot is ignored in arguments and zero in results.
    assert_eq!(woven.call("add", &[u64::MAX, 0xffff_ffff_0000_0000]), (I32, 0xffff_ffff));
    assert_eq!(woven.call("wide", &[1 << 40]), (I64, (1 << 40) + 1));
    assert_eq!(woven.call("nothing", &[]), (NOTHING, UNTOUCHED));
}

#[test]
fn missing_or_mistyped_callee_does_not_trap() {
    let mut woven = WovenInstance::new(2);
    assert_eq!(woven.call("add", &[1]), (MISSING, UNTOUCHED));
    assert_eq!(woven.call("add", &[1, 2, 3]), (MISSING, UNTOUCHED));
    for (how, guest, callee) in [
        ("call_export", 0, 10),
        ("call_export", 0, -1),
        ("call_export", 2, 0),
        // Table slots: 0 is empty, 3 has an `f32` parameter, 4 was never filled, and 5 is past the end.
        ("call_table", 0, 0),
        ("call_table", 0, 3),
        ("call_table", 0, 4),
        ("call_table", 0, 5),
        ("call_table", 0, -1),
        ("call_table", 2, 1),
    ] {
        assert_eq!(woven.call_by(how, guest, callee, &[1, 2]).0, MISSING, "{how} {guest} {callee}");
    }
}

#[test]
fn slots_are_called_by_their_own_types() {
    let mut woven = WovenInstance::new(2);
    for guest in [0, 1] {
        assert_eq!(woven.call_by("call_table", guest, 1, &[40, 2]), (I32, 42));
        assert_eq!(woven.call_by("call_table", guest, 2, &[41]), (I64, 42));
        assert_eq!(woven.call_by("call_table", guest, 1, &[41]).0, MISSING);
        assert_eq!(woven.call_by("call_table", guest, 2, &[41, 1]).0, MISSING);
    }
}

#[test]
fn wasi_result_is_an_errno_or_an_unwind() {
    let mut woven = WovenInstance::new(1);
    for errno in [0, 8, 65_535] {
        woven.set("answer", errno);
        assert_eq!(woven.call("close", &[3]), (I32, u64::try_from(errno).unwrap()));
    }
    for answer in [-1, i32::MIN] {
        woven.set("answer", answer);
        assert_eq!(woven.call("close", &[3]), (UNWOUND, UNTOUCHED));
        assert_eq!(woven.run::<_, i32>("unwound", ()), 0);
    }
    // `proc_exit` never returns, whatever the shim answers.
    for answer in [-1, 0] {
        woven.set("answer", answer);
        assert_eq!(woven.call("exit", &[3]), (UNWOUND, UNTOUCHED));
        assert_eq!(woven.get("argument"), 3);
    }
    assert_eq!(woven.call("add", &[40, 2]), (I32, 42), "the same instance answers the next call");
}

#[test]
fn unreachable_unwinds_and_is_reported() {
    let mut woven = WovenInstance::new(1);
    assert_eq!(woven.call("abort", &[]), (UNWOUND, UNTOUCHED));
    assert_eq!(woven.run::<_, i32>("unwound", ()), 1);
    assert_eq!(woven.call("add", &[40, 2]), (I32, 42));
}

#[test]
fn too_deep_calls_unwind_and_release_the_stack() {
    let mut woven = WovenInstance::new(1);
    // Bisects to find the deepest call that returns, in order to test at, below and above the limit.
    let (mut returns, mut unwinds) = (1, 1 << 20);
    while unwinds - returns > 1 {
        let middle = u64::midpoint(returns, unwinds);
        match woven.call("deep", &[middle]) {
            (I64, depth) => {
                assert_eq!(depth, middle);
                returns = middle;
            }
            other => {
                assert_eq!(other, (UNWOUND, UNTOUCHED));
                assert_eq!(woven.run::<_, i32>("unwound", ()), 2);
                unwinds = middle;
            }
        }
    }
    // A call uses 112 bytes, plus 8 bytes for the parameter and for each of three operands. The entry also uses some of
    // the stack.
    let stack = u64::from(WeaveOptions::default().stack_bytes);
    assert!((stack / 144 - 10..=stack / 144).contains(&returns), "{returns}");
    // The depth stays the same over repeated calls, because an unwound call releases its stack.
    for _ in 0..3 {
        assert_eq!(woven.call("deep", &[unwinds]).0, UNWOUND);
        assert_eq!(woven.call("deep", &[returns]), (I64, returns));
    }
    let mut shallow = WeaveOptions::default();
    shallow.stack_bytes = 10_000;
    assert_eq!(WovenInstance::with(1, &shallow).call("deep", &[100]).0, UNWOUND);
}

#[test]
fn shim_is_called_when_fuel_runs_out() {
    let mut woven = WovenInstance::new(1);
    let used = |woven: &mut WovenInstance, fuel: i64, name: &str, arguments: &[u64]| {
        woven.run::<_, ()>("fuel_set", fuel);
        let (status, _) = woven.call(name, arguments);
        (status, fuel - woven.run::<_, i64>("fuel_get", ()))
    };
    // The entry, the two `local.get` and the `i32.add` cost 1 unit each.
    assert_eq!(used(&mut woven, 100, "add", &[1, 2]), (I32, 4));
    let (_, spun) = used(&mut woven, 1_000_000, "spin", &[1000]);
    woven.set("refuels", 1);
    assert_eq!(used(&mut woven, spun + 1, "spin", &[1000]), (NOTHING, spun));
    // The last check precedes the last operators, so slightly less fuel than the total can be enough.
    assert_eq!(used(&mut woven, spun / 2, "spin", &[1000]).0, UNWOUND);
    assert_eq!(woven.run::<_, i32>("unwound", ()), 0);
    assert_eq!(woven.get("asked"), 1);
    // The shim returns 0 after refilling the counter, and the guest continues.
    woven.set("refuels", 0);
    woven.set("slice", 100);
    woven.run::<_, ()>("fuel_set", 1i64);
    assert_eq!(woven.call("spin", &[1000]).0, NOTHING);
    assert!(i64::from(woven.get("asked")) > spun / 110, "{}", woven.get("asked"));
}

#[test]
fn without_metering_no_fuel_is_counted() {
    let mut options = WeaveOptions::default();
    options.metered = false;
    let mut woven = WovenInstance::with(1, &options);
    woven.run::<_, ()>("fuel_set", 1i64);
    assert_eq!(woven.call("spin", &[1000]).0, NOTHING);
    assert_eq!(woven.run::<_, i64>("fuel_get", ()), 1);
    assert_eq!(woven.call("abort", &[]).0, UNWOUND);
}

#[test]
fn guest_memory_growth_is_decided_by_the_shim() {
    let mut woven = WovenInstance::new(2);
    assert_eq!(woven.run::<_, i32>("virtual_size", 1), 1);
    assert_eq!(woven.run::<_, i32>("memory_grow", (0, 2)), 1, "growing returns the old size");
    assert_eq!(woven.run::<_, i32>("memory_size", 0), 3);
    assert_eq!(woven.run::<_, i32>("memory_size", 1), 1, "the other guest is unchanged");
    assert_eq!(woven.run::<_, i32>("memory_grow", (0, 65_536)), -1);
    woven.run::<_, ()>("set_virtual_size", (0, 2));
    // The guest returns 1000 times the result of `memory.grow` plus the result of `memory.size`.
    woven.set("grown", 7);
    assert_eq!(woven.call("grow", &[5]), (I32, 7002));
    assert_eq!(woven.get("argument"), 5);
    woven.set("grown", -1);
    assert_eq!(woven.call("grow", &[5]).1 as u32, (-998i32).cast_unsigned());
    assert_eq!(woven.run::<_, i32>("memory_size", 0), 3, "only the shim grows the real memory");
}

#[test]
fn memory_is_copied_filled_and_compared() {
    let mut woven = WovenInstance::new(2);
    for guest in [0, 1] {
        let text = b"0123456789";
        woven.memory.write(&mut woven.store, 100, text).unwrap();
        woven.run::<_, ()>("memory_write", (guest, 500, 100, 10));
        assert_eq!(&woven.peek::<12>(guest, 499), b"\x000123456789\0");
        woven.run::<_, ()>("memory_fill", (guest, 502, i32::from(b'x'), 3));
        assert_eq!(&woven.peek::<10>(guest, 500), b"01xxx56789");
    }
    woven.run::<_, ()>("memory_fill", (1, 0, 1, 65_536));
    assert_eq!(&woven.peek::<2>(0, 500), b"01", "the other guest is unchanged");
}

#[test]
fn memory_comparison_finds_differences_in_range_only() {
    let mut woven = WovenInstance::new(1);
    let bytes: Vec<u8> = (0..200u8).map(|byte| byte | 1).collect();
    woven.memory.write(&mut woven.store, 8192, &bytes).unwrap();
    // Lengths near multiples of the 64-byte stride, and odd lengths.
    for len in [0, 1, 7, 63, 64, 65, 127, 128, 129, 200] {
        woven.run::<_, ()>("memory_fill", (0, 0, 0xff, 400));
        woven.run::<_, ()>("memory_write", (0, 3, 8192, len));
        assert_eq!(woven.run::<_, i32>("memory_equals", (0, 3, 8192, len)), 1, "{len}");
        assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 3, len)), i32::from(len == 0), "{len}");
        woven.run::<_, ()>("memory_fill", (0, 3, 0, len));
        assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 3, len)), 1, "{len}");
        assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 2, len + 1)), 0, "{len}");
        assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 3, len + 1)), 0, "{len}");
        for place in 0..len {
            woven.run::<_, ()>("memory_write", (0, 3, 8192, len));
            woven.run::<_, ()>("memory_fill", (0, 3 + place, 0, 1));
            assert_eq!(woven.run::<_, i32>("memory_equals", (0, 3, 8192, len)), 0, "{len} {place}");
            woven.run::<_, ()>("memory_fill", (0, 3, 0, len));
            woven.run::<_, ()>("memory_fill", (0, 3 + place, 0x80, 1));
            assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 3, len)), 0, "{len} {place}");
        }
    }
    // Checks a range that ends at the end of the memory, and then one that ends a byte past it.
    woven.run::<_, ()>("memory_fill", (0, 0, 0, 65_536));
    assert_eq!(woven.run::<_, i32>("memory_is_zero", (0, 65_536 - 130, 130)), 1);
    assert!(woven.try_run::<_, i32>("memory_is_zero", (0, 65_536 - 130, 131)).is_err());
}

#[test]
fn image_is_stored_beside_the_guest_and_copied() {
    let mut woven = WovenInstance::new(2);
    assert_eq!(woven.peek::<5>(0, 8), [0; 5], "guest memory stays empty until the shim fills it");
    for guest in [0, 1] {
        woven.run::<_, ()>("image_to_guest", (guest, 0, 8, 5));
        assert_eq!(&woven.peek::<6>(guest, 8), b"image\0");
        woven.run::<_, ()>("image_to_guest", (guest, 7, 100, 2));
        assert_eq!(&woven.peek::<4>(guest, 100), b"ro\0\0");
        woven.run::<_, ()>("image_to_shim", (guest, 1, 6000, 4));
        let mut bytes = [0; 5];
        woven.memory.read(&woven.store, 6000, &mut bytes).unwrap();
        assert_eq!(&bytes, b"mage\0");
    }
    // Invalid calls by the shim fail: an address past the end, and a guest that does not exist.
    woven.run::<_, ()>("image_to_guest", (0, 8, 8, 1));
    assert!(woven.try_run::<_, ()>("image_to_guest", (0, 8, 8, 2)).is_err());
    assert!(woven.try_run::<_, ()>("image_to_guest", (2, 0, 8, 1)).is_err());
}

#[test]
fn globals_are_accessed_as_bits() {
    let mut woven = WovenInstance::new(2);
    let image = [1024, 0xffff_ffff_ffff_fffe, u64::from(1.5f32.to_bits()), (-2.5f64).to_bits()];
    for guest in [0, 1] {
        for (number, bits) in (0i32..).zip(image) {
            assert_eq!(woven.run::<_, i64>("global_get", (guest, number)).cast_unsigned(), bits, "{number}");
        }
    }
    for (number, bits) in (0i32..).zip([u64::from(u32::MAX), u64::MAX, 0x7fc0_0001, 0x7ff8_0000_0000_0001]) {
        woven.run::<_, ()>("global_set", (1, number, bits.cast_signed()));
        assert_eq!(woven.run::<_, i64>("global_get", (1, number)).cast_unsigned(), bits, "{number}");
    }
    assert_eq!(woven.run::<_, i64>("global_get", (0, 0)), 1024, "the other guest is unchanged");
    assert!(woven.try_run::<_, i64>("global_get", (0, 4)).is_err());
    assert!(woven.try_run::<_, i64>("global_get", (2, 0)).is_err());
}

#[test]
fn shim_reads_the_woven_description() {
    let mut woven = WovenInstance::new(2);
    let description: Description = serde_json::from_slice(&woven.description()).unwrap();
    let [one, other] = description.guests.as_slice() else { panic!("{description:?}") };
    assert_eq!(other.image, [8, 5, 2000 - 13, 4]);
    assert_eq!(other.exports, EXPORTS);
    assert_eq!(one.globals[1].value, 0xffff_ffff_ffff_fffe);
}

#[test]
fn a_guest_that_traps_ends_the_instance() {
    let mut woven = WovenInstance::new(1);
    let number = i32::try_from(EXPORTS.iter().position(|export| *export == "wide").unwrap()).unwrap();
    assert!(
        woven.try_run::<_, i32>("call_export", (0, number, -1, 1, RESULT)).is_err(),
        "arguments outside the memory are rejected"
    );
}
