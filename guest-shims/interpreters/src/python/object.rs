//! Access to CPython objects in guest memory, and to the globals that persist.
//!
//! The layouts match 32-bit CPython 3.12 to 3.15 without debug fields (Include/object.h, Include/cpython/*.h). The
//! addresses are recorded in the prepared image. A guest that damages this memory harms only itself: every access is
//! bounds-checked, and sizes from the guest are clamped.

use super::wire::{decode_global, framed};
use crate::{
    Anchors, Callee, DriverError, Machine, MachineError, Value,
    persist::{Globals, NextGlobal, PYTHON_STATE_FILE},
};

/// The offset of `ob_type` in `PyObject`.
const OB_TYPE: u32 = 4;
/// The offset of `ob_size` in `PyVarObject`.
const OB_SIZE: u32 = 8;
/// The offset of `PyTypeObject.tp_vectorcall_offset`, after the head (12 bytes), `tp_name`, `tp_basicsize`,
/// `tp_itemsize` and `tp_dealloc`.
const TP_VECTORCALL_OFFSET: u32 = 28;
/// The offset of `PyTypeObject.tp_call`, nine slots after `tp_vectorcall_offset`.
const TP_CALL: u32 = 64;
/// The offset of the allocated size in `PyByteArrayObject`.
const BYTEARRAY_ALLOC: u32 = 12;
/// The offset of the pointer to the bytes in `PyByteArrayObject`.
const BYTEARRAY_START: u32 = 20;
/// The offset of `PyBytesObject.ob_sval`, after the head (12 bytes) and the hash.
const BYTES_START: u32 = 16;
/// `_Py_IMMORTAL_REFCNT` of 3.12 with 32-bit pointers (Include/object.h). CPython never changes this count. Later
/// versions do not change any count from `_Py_IMMORTAL_MINIMUM_REFCNT` upwards. No mortal object has that many
/// references.
pub(super) const IMMORTAL: u32 = u32::MAX >> 2;
/// `_Py_IMMORTAL_INITIAL_REFCNT` of later versions (Include/refcount.h).
pub(super) const IMMORTAL_SINCE_3_14: u32 = 5 << 28;

/// The number of words in a Mersenne Twister's state (`N` in Modules/_randommodule.c).
const TWISTER_WORDS: usize = 624;
const TWISTER_BYTES: u32 = 624 * 4;
/// The upper bound on the offset of the words in a generator object, in bytes.
const TWISTER_OFFSETS: u32 = 512;
/// The anchor of the words in numpy's generator.
const NUMPY_RANDOM: &str = "numpy_random";
/// The anchor of the flags that `boot/generators.py` sets.
const SEEDED: &str = "seeded";
/// The offset of the flag that only the host uses: the interpreter was restored, and `renew` is due.
const RENEWAL: u32 = 3;
/// The number of words in `random`'s state that `boot/settle.py` reports, to locate the state in the object.
pub(super) const TWISTER_SAMPLE: usize = 8;

/// Maximum size of a reply, in bytes. `boot/report.py` truncates message and traceback to 320 Ki characters of at most
/// six bytes each. `boot/value.py` truncates a `repr` to 64 Ki characters, and JSON to 1 MiB.
const REPLY_BYTES: u32 = 2 << 20;

/// The offset of the argument vector (two words) in the scratch area above the stack.
const ARGUMENTS: u32 = 0;
/// The offset of the mark in the scratch area (see [`Interpreter::is_marked`]).
const MARK: u32 = 8;
/// The size of the scratch area, in bytes.
pub(super) const SCRATCH_BYTES: u32 = 64;

/// A parked interpreter: a machine and the addresses recorded at boot.
pub(super) struct Interpreter<'a> {
    machine: &'a mut dyn Machine,
    anchors: &'a Anchors,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(machine: &'a mut dyn Machine, anchors: &'a Anchors) -> Self {
        Self { machine, anchors }
    }

    pub(super) fn machine(&mut self) -> &mut dyn Machine {
        self.machine
    }

    pub(super) fn anchor(&self, name: &str) -> Result<u32, DriverError> {
        self.anchors.get(name)
    }

    /// Calls a driver function without arguments. Returns `None` if the function returned Python's `None`.
    pub(super) fn call(&mut self, function: &str) -> Result<Option<Vec<u8>>, DriverError> {
        self.vectorcall(function, 0, REPLY_BYTES)
    }

    /// Like [`call`](Self::call), but allows a reply that is longer by `bytes`.
    pub(super) fn call_for(&mut self, function: &str, bytes: u32) -> Result<Option<Vec<u8>>, DriverError> {
        self.vectorcall(function, 0, REPLY_BYTES.saturating_add(bytes))
    }

    /// Calls a driver function with two Boolean arguments.
    pub(super) fn call_with(&mut self, function: &str, arguments: [bool; 2]) -> Result<Option<Vec<u8>>, DriverError> {
        let scratch = self.anchors.get("scratch")?;
        for (argument, offset) in arguments.into_iter().zip((ARGUMENTS..).step_by(4)) {
            let argument = self.anchors.get(if argument { "true" } else { "false" })?;
            self.write_word(scratch, offset, argument)?;
        }
        self.vectorcall(function, 2, REPLY_BYTES)
    }

    /// Calls the object `name`, which is not a driver function, with `tp_call(object, arguments, NULL)`. Ignores the
    /// result. Used only at boot.
    pub(super) fn call_object(&mut self, name: &str, arguments: &str) -> Result<(), DriverError> {
        let (object, arguments) = (self.anchors.get(name)?, self.anchors.get(arguments)?);
        let kind = self.word(object, OB_TYPE)?;
        let slot = Callee::Table(self.word(kind, TP_CALL)?);
        match self.machine.call(slot, &[object, arguments, 0].map(Value::I32))? {
            Some(Value::I32(result)) if result != 0 => Ok(()),
            _ => Err(DriverError::Boot(format!("the call to `{name}` failed"))),
        }
    }

    /// Takes the global interpreter lock unless the interpreter holds it. CPython releases the lock in system calls,
    /// and a call to a driver function without the lock is a fatal error.
    pub(super) fn take_lock(&mut self) -> Result<(), DriverError> {
        match self.machine.call(Callee::Export("PyGILState_Ensure"), &[]) {
            // In a runtime without this export, the streams can be flushed only if the interpreter holds its lock.
            Ok(_) | Err(MachineError::Missing(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `vectorcall(function, scratch, count, NULL)`.
    fn vectorcall(&mut self, function: &str, count: u32, max: u32) -> Result<Option<Vec<u8>>, DriverError> {
        let args = [self.anchors.get(function)?, self.anchors.get("scratch")?, count, 0].map(Value::I32);
        let slot = Callee::Table(self.anchors.get("slot")?);
        match self.machine.call(slot, &args)? {
            Some(Value::I32(result)) if result == self.anchors.get("none")? => Ok(None),
            Some(Value::I32(0)) => Err(DriverError::Report(format!("`{function}` raised an exception"))),
            Some(Value::I32(result)) => self.take_bytes(result, max).map(Some),
            _ => Err(DriverError::Report(format!("`{function}` did not return an object"))),
        }
    }

    /// Copies a `bytes` object of at most `max` bytes, and releases the reference that the call returned. The driver
    /// holds another reference, so the object stays alive.
    fn take_bytes(&mut self, object: u32, max: u32) -> Result<Vec<u8>, DriverError> {
        let size = self.word(object, OB_SIZE)?;
        if size > max {
            return Err(DriverError::Report(format!("a reply of {size} bytes exceeds the limit of {max} bytes")));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        self.machine.read(at(object, BYTES_START), &mut bytes).map_err(damaged_driver)?;
        let count = self.word(object, 0)?;
        if (2..IMMORTAL).contains(&count) {
            self.write_word(object, 0, count.saturating_sub(1))?;
        }
        Ok(bytes)
    }

    /// Copies `bytes` into the driver's bytearray. Returns `false` if the guest is out of memory.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<bool, DriverError> {
        let Ok(length) = u32::try_from(bytes.len()) else { return Ok(false) };
        // CPython requires a zero after the bytes.
        let Some(needed) = length.checked_add(1) else { return Ok(false) };
        let buffer = self.anchors.get("buffer")?;
        if self.word(buffer, BYTEARRAY_ALLOC)? < needed {
            self.put(buffer, needed.to_string().as_bytes())?;
            if self.call("grow")?.is_some() {
                return Ok(false);
            }
            if self.word(buffer, BYTEARRAY_ALLOC)? < needed {
                return Err(DriverError::Report("the driver's buffer did not grow".to_owned()));
            }
        }
        self.put(buffer, bytes)?;
        Ok(true)
    }

    /// Overwrites the content of a bytearray whose allocation is large enough, as CPython does.
    fn put(&mut self, buffer: u32, bytes: &[u8]) -> Result<(), DriverError> {
        let start = self.word(buffer, BYTEARRAY_START)?;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.machine.write(start, bytes).map_err(damaged_driver)?;
        self.machine.write(at(start, length), &[0]).map_err(damaged_driver)?;
        self.write_word(buffer, OB_SIZE, length)
    }

    /// Returns the address of a bytearray's bytes.
    pub(super) fn bytes_of(&mut self, bytearray: u32) -> Result<u32, DriverError> {
        self.word(bytearray, BYTEARRAY_START)
    }

    /// Returns a copy of the whole memory. Used only at boot.
    pub(super) fn memory(&mut self) -> Result<Vec<u8>, DriverError> {
        let mut bytes = vec![0; usize::try_from(self.machine.memory_bytes()).unwrap_or(0)];
        self.machine.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns `true` if the mark is set: the last script in this instance had arguments, an environment, standard
    /// input or a name.
    pub(super) fn is_marked(&mut self) -> Result<bool, DriverError> {
        let scratch = self.anchors.get("scratch")?;
        Ok(self.word(scratch, MARK)? != 0)
    }

    /// Records whether the last script in this instance had arguments, an environment, standard input or a name. The
    /// mark is in guest memory, so it is saved and forked with all other state.
    pub(super) fn set_mark(&mut self, marked: bool) -> Result<(), DriverError> {
        let scratch = self.anchors.get("scratch")?;
        self.write_word(scratch, MARK, u32::from(marked))
    }

    /// Returns the reference count of Python's `FileIO` type: one reference for each open or leaked file, plus a
    /// constant. Does not charge the guest.
    pub(super) fn files(&mut self) -> Result<u32, DriverError> {
        let kind = self.anchors.get("file_type")?;
        self.word(kind, 0)
    }

    /// Writes a new state to `random`'s generator, and to numpy's if the image has one, like `random.setstate`. Leaves
    /// out a generator that a script has seeded. If scripts have created generators without a seed, the next call
    /// reseeds them ([`renew_if_due`](Self::renew_if_due)).
    pub(super) fn reseed(&mut self) -> Result<(), DriverError> {
        let state = self.anchors.get("random")?;
        let mut flags = [0; 3];
        self.machine.read(self.anchors.get(SEEDED)?, &mut flags).map_err(damaged_driver)?;
        let [is_random_seeded, is_numpy_seeded, has_others] = flags.map(|flag| flag != 0);
        // Reads the same number of random bytes in every case.
        let mut words = [0; TWISTER_WORDS * 4];
        self.machine.fill_random(&mut words)?;
        if !is_random_seeded {
            // In `random`'s generator, the index precedes the words.
            self.write_twister(state, state.wrapping_sub(4), words)?;
        }
        if let (Ok(state), false) = (self.anchors.get(NUMPY_RANDOM), is_numpy_seeded) {
            // In numpy's generator, the index follows the words.
            self.write_twister(state, at(state, TWISTER_BYTES), scattered(&words))?;
        }
        if has_others {
            self.machine.write(at(self.anchors.get(SEEDED)?, RENEWAL), &[1]).map_err(damaged_driver)?;
        }
        Ok(())
    }

    /// Reseeds the generators that scripts have created without a seed, if the interpreter was restored since the last
    /// call. Called at the start of a call, so that the call's limits apply to code that scripts left behind, such as
    /// finalizers.
    pub(super) fn renew_if_due(&mut self) -> Result<(), DriverError> {
        let flag = at(self.anchors.get(SEEDED)?, RENEWAL);
        let mut is_due = [0];
        self.machine.read(flag, &mut is_due).map_err(damaged_driver)?;
        if is_due == [0] {
            return Ok(());
        }
        self.machine.write(flag, &[0]).map_err(damaged_driver)?;
        // A handler of the script could otherwise end the call with an exception.
        self.settle_interrupts()?;
        self.call("renew").map(drop)
    }

    fn write_twister(
        &mut self,
        state: u32,
        index_at: u32,
        mut words: [u8; TWISTER_WORDS * 4],
    ) -> Result<(), DriverError> {
        // The first word is the same as after seeding (`init_by_array`), because the state must not be all zero.
        if let Some(first) = words.first_chunk_mut() {
            *first = 0x8000_0000_u32.to_le_bytes();
        }
        self.machine.write(state, &words).map_err(damaged_driver)?;
        // An index equal to the number of words makes the next draw generate new words.
        self.machine.write(index_at, &(TWISTER_BYTES / 4).to_le_bytes()).map_err(damaged_driver)
    }

    /// Locates the state of numpy's generator. `sample` is the first words of the state.
    pub(super) fn find_numpy(
        &mut self,
        generator: u32,
        sample: &[u32],
        immortal: u32,
    ) -> Result<(String, u32), DriverError> {
        self.immortalise(generator, immortal)?;
        let state = self.find_state(generator, sample)?.ok_or_else(|| {
            DriverError::Boot("`numpy.random` does not keep its state at the expected address".to_owned())
        })?;
        Ok((NUMPY_RANDOM.to_owned(), state))
    }

    /// Returns the table slot through which `function` is called.
    pub(super) fn vectorcall_slot(&mut self, function: u32) -> Result<u32, DriverError> {
        let kind = self.word(function, OB_TYPE)?;
        let offset = self.word(kind, TP_VECTORCALL_OFFSET)?;
        self.word(function, offset)
    }

    /// Keeps `object` alive forever, even though no Python object refers to it.
    pub(super) fn immortalise(&mut self, object: u32, count: u32) -> Result<(), DriverError> {
        self.write_word(object, 0, count)
    }

    /// Returns the address of the words in the generator `object`, identified by their first values.
    pub(super) fn find_state(&mut self, object: u32, sample: &[u32]) -> Result<Option<u32>, DriverError> {
        // An instance consists of a header, other fields, and the words.
        for offset in (8..TWISTER_OFFSETS).step_by(4) {
            let mut found = true;
            for (word, place) in sample.iter().zip((offset..).step_by(4)) {
                found = found && self.word(object, place)? == *word;
            }
            if found && sample.len() == TWISTER_SAMPLE {
                return Ok(Some(at(object, offset)));
            }
        }
        Ok(None)
    }

    pub(super) fn word(&mut self, base: u32, offset: u32) -> Result<u32, DriverError> {
        let mut word = [0; 4];
        self.machine.read(at(base, offset), &mut word).map_err(damaged_driver)?;
        Ok(u32::from_le_bytes(word))
    }

    pub(super) fn write_word(&mut self, base: u32, offset: u32, word: u32) -> Result<(), DriverError> {
        self.machine.write(at(base, offset), &word.to_le_bytes()).map_err(damaged_driver)
    }
}

/// Derives another set of random words from `words`. Images with and without numpy therefore read the same number of
/// random bytes, so a script sees the same random numbers in both.
fn scattered(words: &[u8; TWISTER_WORDS * 4]) -> [u8; TWISTER_WORDS * 4] {
    // FNV-1a derives the seed, and SplitMix64 (Steele, Lea, Flood 2014) generates the words.
    let mut seed = words
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mut scattered = [0; TWISTER_WORDS * 4];
    for eight in scattered.as_chunks_mut::<8>().0 {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *eight = (mixed ^ (mixed >> 31)).to_le_bytes();
    }
    scattered
}

/// Adds with wrapping, like the guest's own address arithmetic. The memory's bounds check rejects a wrong address.
fn at(base: u32, offset: u32) -> u32 {
    base.wrapping_add(offset)
}

/// Converts an access outside the guest's memory to the error for a guest that has damaged its driver.
fn damaged_driver(error: MachineError) -> DriverError {
    match error {
        MachineError::OutOfBounds(at) => DriverError::Report(format!("address {at:#x} is outside the guest's memory")),
        error => DriverError::Machine(error),
    }
}

impl Globals for Interpreter<'_> {
    const FILE: &'static str = PYTHON_STATE_FILE;

    fn machine(&mut self) -> &mut dyn Machine {
        Interpreter::machine(self)
    }

    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError> {
        let request = framed([max_bytes.to_string().as_str(), json.unwrap_or_default()]);
        Ok(self.send(&request)? && self.call("restore_globals")?.is_none())
    }

    fn next(&mut self, max_bytes: u64) -> Result<NextGlobal, DriverError> {
        let bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        self.call_for("next_global", bytes)?.map_or(Ok(NextGlobal::End), |reply| decode_global(&reply))
    }

    fn print_error(&mut self, line: &str) -> Result<(), DriverError> {
        // If the guest has no memory for the line, the line is skipped.
        if self.send(line.as_bytes())? {
            self.call("complain")?;
        }
        Ok(())
    }
}
