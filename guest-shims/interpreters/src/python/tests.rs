//! Tests of the driver with fake guests, whose memory and results are arbitrary.

use std::collections::BTreeMap;

use glovebox_vfs::{Vfs, VfsLimits};
use glovebox_wasi::{Errno, FileAt, Host, Wasi, WasiConfig};

use super::*;
use crate::Value;

const BUFFER: u32 = 0x100;
const START: u32 = 0x400;
const SCRATCH: u32 = 0x200;
const FILES: u32 = 0x240;
const GENERATOR: u32 = 0x1000;
const SEEDED: u32 = 0x2c0;
const REPLY: u32 = 0x800;
const NONE: u32 = 0x10;
const OURS: u32 = 0x30;
const HANDLER: u32 = 0x280;
const WORDS: u32 = 0x2a0;

/// A guest without an interpreter. Each call returns the next element of `returns`, and `None` after the last one.
pub(crate) struct FakeGuest {
    pub(crate) memory: Vec<u8>,
    returns: Vec<u32>,
    pub(crate) called: Vec<Vec<Value>>,
    wasi: Wasi,
    files: BTreeMap<String, Vec<u8>>,
}

impl FakeGuest {
    pub(crate) fn new() -> Self {
        let wasi = Wasi::new(WasiConfig::new(Vfs::new(VfsLimits::default()))).unwrap();
        let mut guest =
            Self { memory: vec![0; 64 << 10], returns: Vec::new(), called: Vec::new(), wasi, files: BTreeMap::new() };
        guest.put(BUFFER + 12, 256); // ob_alloc
        guest.put(BUFFER + 20, START); // ob_start
        guest.put(HANDLER + 4, OURS);
        guest
    }

    pub(crate) fn put(&mut self, at: u32, word: u32) {
        self.write(at, &word.to_le_bytes()).unwrap();
    }

    pub(crate) fn get(&mut self, at: u32) -> u32 {
        let mut word = [0; 4];
        self.read(at, &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    /// Creates a `bytes` object at `REPLY`, which the next call returns.
    fn reply(&mut self, count: u32, bytes: &[u8]) {
        self.put(REPLY, count);
        self.put(REPLY + 8, u32::try_from(bytes.len()).unwrap());
        self.write(REPLY + 16, bytes).unwrap();
        self.returns = vec![REPLY];
    }

    fn functions(&self) -> Vec<Value> {
        self.called.iter().map(|args| *args.first().unwrap()).collect()
    }
}

impl Machine for FakeGuest {
    fn call(&mut self, _: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError> {
        self.called.push(args.to_vec());
        let value = if self.returns.is_empty() { NONE } else { self.returns.remove(0) };
        Ok(Some(Value::I32(value)))
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), MachineError> {
        let at_byte = usize::try_from(at).unwrap();
        let end = at_byte.checked_add(into.len()).unwrap();
        into.copy_from_slice(self.memory.get(at_byte..end).ok_or(MachineError::OutOfBounds(at))?);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), MachineError> {
        let at_byte = usize::try_from(at).unwrap();
        let end = at_byte.checked_add(from.len()).unwrap();
        self.memory.get_mut(at_byte..end).ok_or(MachineError::OutOfBounds(at))?.copy_from_slice(from);
        Ok(())
    }

    fn memory_bytes(&mut self) -> u64 {
        self.memory.len() as u64
    }

    fn grow(&mut self, _: u32) -> Result<u32, MachineError> {
        Ok(1)
    }

    fn set_global(&mut self, _: &str, _: u32) -> Result<(), MachineError> {
        Ok(())
    }

    fn global(&mut self, _: &str) -> Result<u32, MachineError> {
        Ok(0)
    }

    fn with_wasi(
        &mut self,
        _: &mut dyn FnMut(&mut Wasi, &mut dyn Host) -> Result<(), Stop>,
    ) -> Result<(), MachineError> {
        Ok(())
    }

    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), MachineError> {
        into.fill(7);
        Ok(())
    }

    fn file_at(&mut self, name: &str, max_bytes: u64) -> Result<Result<FileAt, Errno>, MachineError> {
        let bytes = self.files.get(name).cloned();
        Ok(Ok(match bytes {
            None => FileAt::Nothing,
            Some(bytes) if bytes.len() as u64 > max_bytes => FileAt::TooLong,
            Some(bytes) => FileAt::File(bytes),
        }))
    }

    fn replace_file(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Errno>, MachineError> {
        self.files.insert(name.to_owned(), bytes.to_vec());
        Ok(Ok(()))
    }

    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }
}

fn anchors() -> Anchors {
    let addresses = [
        ("run", 1),
        ("run_with", 2),
        ("validate", 3),
        ("flush", 4),
        ("close", 5),
        ("grow", 6),
        ("get_variable", 7),
        ("set_variable", 8),
        ("rearm", 10),
        ("renew", 11),
        ("interrupted", OURS),
        ("interrupt_reason", WORDS),
        ("interrupt_0", HANDLER),
        ("interrupt_1", WORDS + 4),
        ("interrupt_2", WORDS + 8),
        ("interrupt_3", WORDS + 12),
        ("interrupt_function", HANDLER + 4),
        ("slot", 9),
        ("true", 20),
        ("false", 21),
        ("none", NONE),
        ("buffer", BUFFER),
        ("scratch", SCRATCH),
        ("file_type", FILES),
        ("files", 0),
        ("random", GENERATOR),
        ("seeded", SEEDED),
    ];
    Anchors(addresses.into_iter().map(|(name, address)| (name.to_owned(), address)).collect())
}

fn script(source: &str) -> Script<'_> {
    Script { last: true, ..Script::plain(source, DEFAULT_NAME) }
}

fn execute(guest: &mut FakeGuest, source: &str) -> Result<Report, DriverError> {
    Python::command().execute(guest, &anchors(), &script(source))
}

#[test]
fn script_takes_one_call_with_its_source_in_the_buffer() {
    let mut guest = FakeGuest::new();
    assert_eq!(execute(&mut guest, "\u{feff}print(1)").unwrap(), Report::Completed(None));
    assert_eq!(guest.called, [[1, SCRATCH, 2, 0].map(Value::I32)]);
    assert_eq!((guest.get(BUFFER + 8), guest.get(SCRATCH), guest.get(SCRATCH + 4)), (8, 20, 21));
    assert_eq!(guest.memory.get(0x400..0x409).unwrap(), b"print(1)\0");
}

#[test]
fn streams_are_flushed_after_taking_the_lock() {
    let (mut guest, mut anchors) = (FakeGuest::new(), anchors());
    anchors.0.insert("flush_streams".to_owned(), 11);
    Python::command().flush_streams(&mut guest, &anchors).unwrap();
    assert_eq!(guest.called, [vec![], [11, SCRATCH, 0, 0].map(Value::I32).to_vec()]);
}

#[test]
fn variable_takes_one_call_with_its_name_in_the_buffer() {
    let mut guest = FakeGuest::new();
    assert_eq!(Python::command().get_variable(&mut guest, &anchors(), "name").unwrap(), Ok(None));
    assert_eq!(guest.memory.get(0x400..0x405).unwrap(), b"name\0");
    let value = [b"V".as_slice(), &framed(["None", "null"])].concat();
    guest.reply(2, &value);
    let value = GuestValue { repr: "None".to_owned(), json: Some("null".to_owned()) };
    assert_eq!(Python::command().get_variable(&mut guest, &anchors(), "name").unwrap(), Ok(Some(value)));
    assert_eq!(Python::command().set_variable(&mut guest, &anchors(), "name", "1").unwrap(), Ok(()));
    assert_eq!(guest.memory.get(0x400..0x40e).unwrap(), b"\x04\0\0\0name\x01\0\0\x001\0");
    assert_eq!(guest.functions(), [7, 7, 8].map(Value::I32));
}

#[test]
fn variable_without_memory_is_a_memory_error() {
    let mut guest = FakeGuest::new();
    guest.reply(2, b"R");
    let raised = Python::command().set_variable(&mut guest, &anchors(), "x", &"1".repeat(256)).unwrap().unwrap_err();
    assert!(Python::command().is_out_of_memory(&raised));
    let mut guest = FakeGuest::new();
    guest.reply(2, b"R");
    let raised = Python::command().get_variable(&mut guest, &anchors(), &"x".repeat(256)).unwrap().unwrap_err();
    assert!(Python::command().is_out_of_memory(&raised));
}

#[test]
fn script_inputs_are_removed_before_the_next_script() {
    let mut guest = FakeGuest::new();
    let args = ["x".to_owned()];
    let given = Script { args: &args, ..script("1") };
    for script in [&given, &given, &script("2"), &script("3")] {
        Python::command().execute(&mut guest, &anchors(), script).unwrap();
    }
    assert_eq!(guest.functions(), [2, 2, 2, 1].map(Value::I32));
}

#[test]
fn left_open_files_are_flushed() {
    let mut guest = FakeGuest::new();
    guest.put(FILES, 1);
    execute(&mut guest, "open('x')").unwrap();
    assert_eq!(guest.functions(), [1, 4].map(Value::I32));
}

#[test]
fn returned_references_are_released() {
    let reply = [b"X".as_slice(), &framed(["3"])].concat();
    for (before, after) in
        [(2, 1), (1, 1), (0, 0), (0x3fff_ffff, 0x3fff_ffff), (u32::MAX, u32::MAX), (0x3fff_fffe, 0x3fff_fffd)]
    {
        let mut guest = FakeGuest::new();
        guest.reply(before, &reply);
        assert_eq!(execute(&mut guest, "").unwrap(), Report::Exited(3));
        assert_eq!(guest.get(REPLY), after);
    }
}

#[test]
fn a_reply_that_is_missing_or_outside_memory_is_an_error() {
    for at in [0, u32::MAX, u32::MAX - 15, 0x1_0000, 0xfff8, 0xfff0] {
        let mut guest = FakeGuest::new();
        guest.returns = vec![at];
        assert!(matches!(execute(&mut guest, ""), Err(DriverError::Report(_))), "{at:#x}");
    }
}

#[test]
fn a_reply_that_claims_four_gibibytes_is_refused() {
    for size in [u32::MAX, 0x7fff_ffff, (2 << 20) + 1] {
        let mut guest = FakeGuest::new();
        guest.returns = vec![REPLY];
        guest.put(REPLY + 8, size);
        assert!(matches!(execute(&mut guest, ""), Err(DriverError::Report(_))), "{size}");
    }
}

#[test]
fn a_source_beyond_the_buffer_makes_it_grow() {
    let mut guest = FakeGuest::new();
    let source = "x".repeat(256);
    // The guest claims that the buffer has grown, but it has not.
    assert!(matches!(execute(&mut guest, &source), Err(DriverError::Report(_))));
    assert_eq!(guest.functions(), [6].map(Value::I32));
    // The guest is out of memory.
    let mut guest = FakeGuest::new();
    guest.reply(2, b"R");
    let Report::Raised(raised) = execute(&mut guest, &source).unwrap() else { panic!("not raised") };
    assert!(Python::command().is_out_of_memory(&raised));
    // A source that is one byte shorter fits.
    let mut guest = FakeGuest::new();
    execute(&mut guest, &"x".repeat(255)).unwrap();
    assert_eq!(guest.functions(), [1].map(Value::I32));
}

#[test]
fn a_buffer_that_points_outside_memory_is_an_error() {
    for start in [u32::MAX, 0x1_0000, 0xffff] {
        let mut guest = FakeGuest::new();
        guest.put(BUFFER + 20, start);
        assert!(matches!(execute(&mut guest, "print(1)"), Err(DriverError::Report(_))), "{start:#x}");
    }
}

#[test]
fn reseeded_generator_state_is_new_and_nonzero() {
    let mut guest = FakeGuest::new();
    Python::command().reseed(&mut guest, &anchors()).unwrap();
    assert_eq!(guest.get(GENERATOR - 4), 624);
    assert_eq!((guest.get(GENERATOR), guest.get(GENERATOR + 4)), (0x8000_0000, 0x0707_0707));
    assert_eq!((guest.get(GENERATOR + 623 * 4), guest.get(GENERATOR + 624 * 4)), (0x0707_0707, 0));
}

#[test]
fn numpy_generator_is_reseeded() {
    const NUMPY: u32 = 0x4000;
    let sample = [11, 22, 33, 44, 55, 66, 77, 88];
    let mut guest = FakeGuest::new();
    for (word, at) in sample.into_iter().zip((NUMPY + 40..).step_by(4)) {
        guest.put(at, word);
    }
    let mut anchors = anchors();
    let mut interpreter = Interpreter::new(&mut guest, &anchors);
    for wrong in [&[][..], &sample[..7], &[9; 8]] {
        assert!(matches!(interpreter.find_numpy(NUMPY, wrong, 7), Err(DriverError::Boot(_))), "{wrong:?}");
    }
    let found = interpreter.find_numpy(NUMPY, &sample, 7).unwrap();
    assert_eq!((found.1, guest.get(NUMPY)), (NUMPY + 40, 7));
    anchors.0.extend([found]);
    Python::reactor().reseed(&mut guest, &anchors).unwrap();
    assert_eq!(guest.get(NUMPY + 40), 0x8000_0000);
    let words: Vec<u32> = (1..624).map(|word| guest.get(NUMPY + 40 + word * 4)).collect();
    let different: std::collections::BTreeSet<_> = words.iter().collect();
    assert!(different.len() > 620 && !words.contains(&0x0707_0707), "numpy and `random` have different states");
    // The generator's index follows its 624 state words.
    assert_eq!((guest.get(NUMPY + 40 + 624 * 4), guest.get(GENERATOR - 4)), (624, 624));
}

#[test]
fn seeded_generators_keep_their_states() {
    const NUMPY: u32 = 0x4000;
    let mut anchors = anchors();
    anchors.0.insert("numpy_random".to_owned(), NUMPY);
    for flags in 0..8_u32 {
        let mut guest = FakeGuest::new();
        let [random, numpy, others] = [flags & 1, (flags >> 1) & 1, flags >> 2];
        guest.put(SEEDED, random | (numpy << 8) | (others << 16));
        Python::reactor().reseed(&mut guest, &anchors).unwrap();
        let first = |is_seeded| if is_seeded == 1 { 0 } else { 0x8000_0000 };
        assert_eq!((guest.get(GENERATOR), guest.get(NUMPY)), (first(random), first(numpy)), "{flags}");
        assert_eq!((guest.functions(), guest.get(SEEDED) >> 24), (Vec::new(), others), "{flags}");
    }
}

#[test]
fn next_call_renews_other_generators_once_despite_a_late_interrupt() {
    let (python, anchors, mut guest) = (Python::command(), anchors(), FakeGuest::new());
    [(SEEDED, 1 << 24), (HANDLER, 1), (HANDLER + 4, 0x50)].into_iter().for_each(|(at, word)| guest.put(at, word));
    python.get_variable(&mut guest, &anchors, "x").unwrap().unwrap();
    python.close(&mut guest, &anchors).unwrap();
    assert_eq!((guest.functions(), guest.get(HANDLER + 4)), ([10, 11, 7, 5].map(Value::I32).to_vec(), OURS));
    let mut guest = FakeGuest::new();
    guest.put(SEEDED, 1 << 24);
    python.set_variable(&mut guest, &anchors, "x", "1").unwrap().unwrap();
    python.close(&mut guest, &anchors).unwrap();
    assert_eq!(guest.functions(), [11, 8, 5].map(Value::I32));
}

#[test]
fn interrupt_writes_its_reason_before_the_signal_flags() {
    for (interrupt, reason) in [(Interrupt::Fuel, 1), (Interrupt::Time, 2), (Interrupt::Cancelled, 3)] {
        let writes = Python::command().interrupt(&anchors(), interrupt).unwrap();
        let words = [(WORDS, reason), (HANDLER, 1), (WORDS + 4, 1), (WORDS + 8, 1), (WORDS + 12, 1)];
        let reason = words.first().map(|(at, word)| InterruptWrite::word(*at, *word));
        let flags = words.iter().skip(1).map(|(at, _)| InterruptWrite::flag(*at));
        assert_eq!(writes, reason.into_iter().chain(flags).collect::<Vec<_>>());
    }
}

#[test]
fn late_interrupt_is_cleared_before_the_next_script() {
    let mut guest = FakeGuest::new();
    guest.put(HANDLER, 1);
    execute(&mut guest, "").unwrap();
    // The word stays set, because the fake never clears it. `rearm` is called once before the script and once after it.
    assert_eq!(guest.functions(), [10, 1, 10].map(Value::I32));
}

#[test]
fn script_signal_handler_is_reset_and_not_called() {
    // The script replaced the handler, but no signal is pending. The script's handler stays until Python itself
    // replaces it, which counts references correctly.
    let mut guest = FakeGuest::new();
    guest.put(HANDLER + 4, 0x50);
    execute(&mut guest, "").unwrap();
    assert_eq!((guest.functions(), guest.get(HANDLER + 4)), ([10, 1, 10].map(Value::I32).to_vec(), 0x50));
    // The handler was replaced and a signal is pending, so CPython would call the handler on entry to `rearm`.
    let mut guest = FakeGuest::new();
    guest.put(HANDLER, 1);
    guest.put(HANDLER + 4, 0x50);
    execute(&mut guest, "").unwrap();
    assert_eq!((guest.functions(), guest.get(HANDLER + 4)), ([10, 1, 10].map(Value::I32).to_vec(), OURS));
}

#[test]
fn an_image_without_anchors_is_refused() {
    let error = Python::command().execute(&mut FakeGuest::new(), &Anchors::default(), &script("")).unwrap_err();
    assert!(matches!(error, DriverError::Anchor(_)));
}

#[test]
fn random_memory_and_random_results_never_panic() {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 33).unwrap()
    };
    let args = ["a".to_owned(), String::new()];
    for _ in 0..300 {
        let mut guest = FakeGuest::new();
        for at in (0..0x2000).step_by(4) {
            let word = next();
            guest.put(at, if word & 1 == 0 { word % 0x1_2000 } else { word << 1 });
        }
        guest.returns = (0..4).map(|_| next() % 0x1_1000).collect();
        let given = Script { args: &args, has_stdin: true, last: false, ..script("print(1)") };
        let _ = Python::command().execute(&mut guest, &anchors(), &given);
        let _ = Python::command().validate(&mut guest, &anchors(), &given);
        let _ = Python::command().get_variable(&mut guest, &anchors(), "x");
        let _ = Python::command().set_variable(&mut guest, &anchors(), "x", "1");
        let _ = Python::command().close(&mut guest, &anchors());
        let _ = Python::command().reseed(&mut guest, &anchors());
    }
}

#[test]
fn common_indentation_is_removed() {
    for (source, expected, columns) in [
        ("", "", 0),
        ("x = 1\n", "x = 1\n", 0),
        ("  x = 1\n  y = 2\n", "x = 1\ny = 2\n", 2),
        ("\n    if x:\n\n        y\n   \n    z\n", "\nif x:\n\n    y\n\nz\n", 4),
        ("\tif x:\n\t\ty", "if x:\n\ty", 1),
        (" \tx\n  y", "\tx\n y", 1),
        ("  x\ny", "  x\ny", 0),
        ("\tx\n    y", "\tx\n    y", 0),
        ("  é\r\n  \r\n  ü", "é\r\n\nü", 2),
        ("   ", "   ", 0),
    ] {
        let (dedented, indentation) = dedented(source);
        assert_eq!((dedented.as_ref(), indentation), (expected, columns), "{source:?}");
    }
}

#[test]
fn compiled_code_is_parsed() {
    let framed = |parts: &[&[u8]]| {
        let length = |part: &[u8]| u32::try_from(part.len()).unwrap().to_le_bytes();
        parts.iter().flat_map(|part| [&length(part)[..], part].concat()).collect::<Vec<u8>>()
    };
    assert_eq!(compiled(b"").unwrap(), []);
    let whole = framed(&[b"a", b"\0\xff", b"b", b""]);
    assert_eq!(compiled(&whole).unwrap(), [("a".into(), vec![0, 255]), ("b".into(), vec![])]);
    assert!(compiled(&framed(&[b"a"])).is_err(), "a path without bytes");
    assert!(compiled(&whole[..whole.len() - 1]).is_err(), "truncated");
}

#[test]
fn bundled_packages_are_sorted() {
    assert!(EMBEDDED_PACKAGES.is_sorted_by_key(|(path, _)| *path));
}

#[test]
fn embedded_modules_fit_into_the_string_literals_of_the_boot_code() {
    for source in [
        include_str!("images/jpeg_read.py"),
        include_str!("images/jpeg_write.py"),
        include_str!("images/webp.py"),
        include_str!("images/webp_lossless.py"),
        include_str!("images/webp_lossy.py"),
        include_str!("parquet/arrow.py"),
        include_str!("parquet/codecs.py"),
        include_str!("parquet/describe.py"),
        include_str!("parquet/encodings.py"),
        include_str!("parquet/engine.py"),
        include_str!("parquet/frame.py"),
        include_str!("parquet/infer.py"),
        include_str!("parquet/labels.py"),
        include_str!("parquet/nested.py"),
        include_str!("parquet/pages.py"),
        include_str!("parquet/schema.py"),
        include_str!("parquet/shred.py"),
        include_str!("parquet/thrift.py"),
        include_str!("parquet/values.py"),
        include_str!("parquet/write.py"),
        include_str!("parquet/zstd.py"),
    ] {
        assert!(!source.contains("'''"), "it would end the literal");
        assert!(source.ends_with('\n'), "a quote at the end would become part of the delimiter");
        assert!(boot::REACTOR.contains(source));
        assert!(!boot::COMMAND.contains(source), "Python 3.12 has neither Pillow nor pandas");
    }
}
