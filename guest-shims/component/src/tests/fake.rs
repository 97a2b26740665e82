//! A fake woven module for tests. Its two guests interpret a language with one command per line. A fake driver runs
//! the guests.
//!
//! | line | effect |
//! |---|---|
//! | `print TEXT` | writes the text to standard output |
//! | `set AT BYTE`, `show AT` | writes a byte to memory; prints a byte |
//! | `grow PAGES` | grows the memory and prints the result |
//! | `fill FROM BYTE` | fills the real memory from the address to its end |
//! | `burn FUEL`, `spin` | uses this much fuel; uses all fuel |
//! | `sleep NS` | sleeps |
//! | `send TEXT`, `reply` | writes a message to the tools; prints the tools' next reply |
//! | `write FILE` | creates a file |
//! | `raise`, `exit CODE` | ends with an exception; ends with an exit code |
//! | `leave CODE` | calls `proc_exit` with the code |
//! | `abort`, `deep` | executes `unreachable`; exceeds the call depth |

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the numbers are small constants of the tests, and a wrong number fails a test"
)]

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use glovebox_interpreters::{
    Anchors, Callee, Diagnostic, Driver, DriverError, GuestValue, Interrupt, InterruptWrite, Machine, RaisedOutcome,
    Report, Script, Value,
};
use glovebox_wasi::{Errno, Host};

use crate::{
    CallOutcome, Clocks, Guests, LibraryBytes, Reading, Runtime, UnwindReason, World, machine::PAGE_BYTES,
    running_guest,
};

const SOURCE_AT: u32 = 0x8000;
/// The address of the guest's output and its `iovec`.
const SCRATCH_AT: u32 = 0x4000;
/// The address where the driver writes the seed.
pub(crate) const SEED_AT: u32 = 8;
pub(crate) const SOFT_STOP_AT: u32 = 0x100;
/// The address of the image's non-zero bytes.
pub(crate) const IMAGE_AT: u32 = 0x200;
/// The bytes at [`IMAGE_AT`].
pub(crate) const IMAGE: [u8; 4] = *b"boot";
pub(crate) const IMAGE_PAGES: u32 = 1;

#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    virtual_pages: u32,
    globals: [u64; 1],
}

pub(crate) struct Fake {
    memories: [RefCell<Memory>; 2],
    fuel: Cell<i64>,
    /// Maximum size of a real memory in pages.
    pub(crate) max_pages: Cell<u32>,
}

impl Fake {
    pub(crate) fn new() -> Rc<Self> {
        let fake = Self { memories: Default::default(), fuel: Cell::new(0), max_pages: Cell::new(256) };
        for memory in &fake.memories {
            memory.borrow_mut().bytes = vec![0; PAGE_BYTES as usize];
        }
        Rc::new(fake)
    }

    /// Returns a copy of a guest's whole real memory.
    pub(crate) fn real_memory(&self, guest: u32) -> Vec<u8> {
        self.memories[guest as usize].borrow().bytes.clone()
    }

    fn line(&self, guest: u32, line: &str) -> Result<i32, UnwindReason> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |text: &str| text.parse::<u64>().unwrap();
        let mut words = rest.split(' ');
        let mut next = || number(words.next().unwrap());
        match word {
            "" => {}
            "print" => self.print(guest, rest)?,
            "set" => {
                let (at, byte) = (next(), next());
                self.memories[guest as usize].borrow_mut().bytes[at as usize] = byte as u8;
            }
            "show" => {
                let byte = self.memories[guest as usize].borrow().bytes[next() as usize];
                self.print(guest, &byte.to_string())?;
            }
            "fill" => {
                let (from, byte) = (next(), next());
                self.memories[guest as usize].borrow_mut().bytes[from as usize..].fill(byte as u8);
            }
            "grow" => {
                let old = running_guest::grow(next() as u32);
                self.print(guest, &old.to_string())?;
            }
            "burn" => self.burn(next() as i64)?,
            "spin" => loop {
                self.burn(1000)?;
                if self.is_interrupted(guest) {
                    return Ok(3);
                }
            },
            "sleep" => {
                let duration = next();
                answered(running_guest::wasi(|_, host| host.sleep_ns(duration).map(|()| Errno::Success)))?;
                if self.is_interrupted(guest) {
                    return Ok(3);
                }
            }
            "send" => {
                answered(running_guest::wasi(|_, host| host.tool_send(rest.as_bytes()).map(|()| Errno::Success)))?;
            }
            "reply" => {
                let mut reply = None;
                answered(running_guest::wasi(|_, host| {
                    reply = host.tool_receive()?;
                    Ok(Errno::Success)
                }))?;
                self.print(guest, reply.as_deref().map_or("none", |text| std::str::from_utf8(text).unwrap()))?;
            }
            "write" => {
                self.memory_write(guest, SCRATCH_AT, rest.as_bytes());
                let len = rest.len() as u32;
                answered(running_guest::wasi(|wasi, host| {
                    wasi.path_open(host, 3, 0, SCRATCH_AT, len, 9, u64::MAX, 0, 0, SCRATCH_AT + 1024)
                }))?;
            }
            "raise" => return Ok(1),
            "exit" => return Ok(0x100 + next() as i32),
            "leave" => {
                let code = next() as u32;
                answered(running_guest::wasi(|wasi, host| wasi.proc_exit(host, code)))?;
            }
            "abort" => return Err(UnwindReason::Unreachable),
            "deep" => return Err(UnwindReason::CallDepth),
            _ => panic!("unknown command: {line}"),
        }
        Ok(0)
    }

    fn is_interrupted(&self, guest: u32) -> bool {
        self.memories[guest as usize].borrow().bytes[SOFT_STOP_AT as usize] != 0
    }

    fn burn(&self, fuel: i64) -> Result<(), UnwindReason> {
        self.fuel.set(self.fuel.get() - fuel);
        while self.fuel.get() <= 0 {
            if running_guest::refuel() != 0 {
                return Err(UnwindReason::Requested);
            }
        }
        Ok(())
    }

    fn print(&self, guest: u32, text: &str) -> Result<(), UnwindReason> {
        let line = format!("{text}\n");
        let at = SCRATCH_AT + 16;
        self.memory_write(guest, SCRATCH_AT, &at.to_le_bytes());
        self.memory_write(guest, SCRATCH_AT + 4, &(line.len() as u32).to_le_bytes());
        self.memory_write(guest, at, line.as_bytes());
        answered(running_guest::wasi(|wasi, host| wasi.fd_write(host, 1, SCRATCH_AT, 1, SCRATCH_AT + 8)))
    }
}

fn answered(errno: i32) -> Result<(), UnwindReason> {
    if errno == running_guest::UNWIND { Err(UnwindReason::Requested) } else { Ok(()) }
}

impl Guests for Fake {
    fn describe(&self) -> Vec<u8> {
        br#"{"guests":[],"weave":{"version":"0","stack_bytes":0}}"#.to_vec()
    }

    fn memory_size(&self, guest: u32) -> u32 {
        (self.memories[guest as usize].borrow().bytes.len() as u64 / PAGE_BYTES) as u32
    }

    fn memory_grow(&self, guest: u32, pages: u32) -> bool {
        let wanted = self.memory_size(guest) + pages;
        if wanted > self.max_pages.get() {
            return false;
        }
        self.memories[guest as usize].borrow_mut().bytes.resize(wanted as usize * PAGE_BYTES as usize, 0);
        true
    }

    fn virtual_size(&self, guest: u32) -> u32 {
        self.memories[guest as usize].borrow().virtual_pages
    }

    fn set_virtual_size(&self, guest: u32, pages: u32) {
        self.memories[guest as usize].borrow_mut().virtual_pages = pages;
    }

    fn memory_read(&self, guest: u32, at: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.memories[guest as usize].borrow().bytes[at as usize..][..into.len()]);
    }

    fn memory_write(&self, guest: u32, at: u32, from: &[u8]) {
        self.memories[guest as usize].borrow_mut().bytes[at as usize..][..from.len()].copy_from_slice(from);
    }

    fn memory_fill(&self, guest: u32, at: u32, byte: u8, len: u32) {
        self.memories[guest as usize].borrow_mut().bytes[at as usize..][..len as usize].fill(byte);
    }

    fn memory_equals(&self, guest: u32, at: u32, with: &[u8]) -> bool {
        self.memories[guest as usize].borrow().bytes[at as usize..][..with.len()] == *with
    }

    fn memory_is_zero(&self, guest: u32, at: u32, len: u32) -> bool {
        self.memories[guest as usize].borrow().bytes[at as usize..][..len as usize].iter().all(|byte| *byte == 0)
    }

    fn image_to_guest(&self, guest: u32, offset: u32, at: u32, len: u32) {
        self.memory_write(guest, at, &IMAGE[offset as usize..][..len as usize]);
    }

    fn image_to_shim(&self, _guest: u32, offset: u32, into: &mut [u8]) {
        into.copy_from_slice(&IMAGE[offset as usize..][..into.len()]);
    }

    fn global_get(&self, guest: u32, global: u32) -> u64 {
        self.memories[guest as usize].borrow().globals[global as usize]
    }

    fn global_set(&self, guest: u32, global: u32, bits: u64) {
        self.memories[guest as usize].borrow_mut().globals[global as usize] = bits;
    }

    fn fuel(&self) -> i64 {
        self.fuel.get()
    }

    fn set_fuel(&self, fuel: i64) {
        self.fuel.set(fuel);
    }

    fn call_export(&self, guest: u32, export: u32, args: &[u64]) -> CallOutcome {
        assert_eq!(export, 0);
        let mut source = vec![0; args[0] as usize];
        self.memory_read(guest, SOURCE_AT, &mut source);
        for line in String::from_utf8(source).unwrap().lines() {
            match self.line(guest, line) {
                Ok(0) => {}
                Ok(report) => return CallOutcome::I32(report as u32),
                Err(why) => return CallOutcome::Unwound(why),
            }
        }
        CallOutcome::I32(0)
    }

    fn call_table(&self, _guest: u32, slot: u32, _args: &[u64]) -> CallOutcome {
        if slot == 0 { CallOutcome::Missing } else { CallOutcome::Nothing }
    }
}

/// The driver for the two fake guests.
pub(crate) struct FakeDriver;

impl FakeDriver {
    fn run(machine: &mut dyn Machine, source: &str) -> Result<Report, DriverError> {
        machine.write(SOURCE_AT, source.as_bytes())?;
        let raised = || RaisedOutcome { type_name: "Stopped".into(), ..RaisedOutcome::default() };
        match machine.call(Callee::Export("run"), &[Value::I32(source.len() as u32)])? {
            Some(Value::I32(0)) => Ok(Report::Completed(None)),
            Some(Value::I32(1)) => Ok(Report::Raised(raised())),
            Some(Value::I32(3)) => Ok(Report::Interrupted(raised())),
            Some(Value::I32(code)) => Ok(Report::Exited(code as i32 - 0x100)),
            other => Err(DriverError::Report(format!("{other:?}"))),
        }
    }
}

impl Driver for FakeDriver {
    fn is_out_of_memory(&self, _raised: &RaisedOutcome) -> bool {
        true
    }

    fn reseed(&self, machine: &mut dyn Machine, _anchors: &Anchors) -> Result<(), DriverError> {
        let mut seed = [0; 8];
        machine.fill_random(&mut seed)?;
        Ok(machine.write(SEED_AT, &seed)?)
    }

    fn execute(
        &self,
        machine: &mut dyn Machine,
        _anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Report, DriverError> {
        machine.wasi().begin_execution();
        machine.write(SOFT_STOP_AT, &[0; 4])?;
        Self::run(machine, script.source)
    }

    fn interrupt(&self, _anchors: &Anchors, _interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError> {
        Ok(vec![InterruptWrite::word(SOFT_STOP_AT, 1)])
    }

    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        _anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError> {
        let Ok(at) = name.parse() else { return Ok(Ok(None)) };
        let mut byte = [0];
        machine.read(at, &mut byte)?;
        Ok(Ok(Some(GuestValue { repr: byte[0].to_string(), json: Some(byte[0].to_string()) })))
    }

    fn set_variable(
        &self,
        machine: &mut dyn Machine,
        _anchors: &Anchors,
        name: &str,
        json: &str,
    ) -> Result<Result<(), RaisedOutcome>, DriverError> {
        let (Ok(at), Ok(byte)) = (name.parse(), json.parse()) else { return Ok(Err(RaisedOutcome::default())) };
        Ok(Ok(machine.write(at, &[byte])?))
    }

    fn validate(
        &self,
        machine: &mut dyn Machine,
        _anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, DriverError> {
        Self::run(machine, script.source)?;
        Ok(Vec::new())
    }

    fn close(&self, machine: &mut dyn Machine, _anchors: &Anchors) -> Result<(), DriverError> {
        Self::run(machine, "print closed").map(drop)
    }
}

/// Returns one of the two fake guests as a runtime.
pub(crate) fn runtime(number: u32) -> Rc<Runtime> {
    let description = format!(
        r#"{{"name":"fake-{number}","aliases":["alias-{number}"],"language":"{}","driver":"cpython","version":"1.2",
            "image_sha256":"{}","memory_pages":{IMAGE_PAGES},"anchors":{{}},"exports":["run"],
            "globals":[{{"export":"__stack_pointer","kind":"i32","value":77}}],"image":[{IMAGE_AT},4]}}"#,
        if number == 0 { "python" } else { "javascript" },
        "ab".repeat(32),
    );
    let mut runtime = Runtime::new(number, serde_json::from_str(&description).unwrap(), &no_libraries()).unwrap();
    runtime.driver = Box::new(FakeDriver);
    Rc::new(runtime)
}

/// The library bytes of guests without libraries. Panics if a guest reads them.
struct NoLibraries;

impl LibraryBytes for NoLibraries {
    fn read(&self, guest: u32, _: u32, _: &mut [u8]) {
        panic!("guest {guest} has no library");
    }
}

pub(crate) fn no_libraries() -> Arc<dyn LibraryBytes> {
    Arc::new(NoLibraries)
}

/// A clock that advances by `step` with every reading, and by the duration of every sleep.
pub(crate) struct FakeClocks {
    begun: Duration,
    now: Cell<Duration>,
    step: Duration,
    /// The elapsed time after which the clock reports a cancellation.
    cancelled_after: Option<Duration>,
    readings: Cell<u64>,
}

impl FakeClocks {
    pub(crate) fn new(step: Duration) -> Rc<Self> {
        Self::cancelling(step, None)
    }

    pub(crate) fn cancelling(step: Duration, cancelled_after: Option<Duration>) -> Rc<Self> {
        let begun = Duration::from_secs(1000);
        Rc::new(Self { begun, now: Cell::new(begun), step, cancelled_after, readings: Cell::new(0) })
    }

    /// Returns the time, without advancing it.
    pub(crate) fn now(&self) -> Duration {
        self.now.get()
    }

    pub(crate) fn readings(&self) -> u64 {
        self.readings.get()
    }
}

impl Clocks for FakeClocks {
    fn read(&self) -> Reading {
        self.readings.set(self.readings.get() + 1);
        let now = self.now.get() + self.step;
        self.now.set(now);
        Reading { now, is_cancelled: self.cancelled_after.is_some_and(|after| now - self.begun >= after) }
    }

    fn realtime_ns(&self) -> u64 {
        1_700_000_000_000_000_000
    }

    fn wait(&self, duration: Duration, is_ready: &dyn Fn() -> bool) {
        let end = self.now.get() + duration;
        while self.now.get() < end && !is_ready() {
            self.now.set(end.min(self.now.get() + Duration::from_millis(1)));
        }
    }
}

/// Returns the fake and a world with its guests, without a clock.
pub(crate) fn closed_world() -> (Rc<Fake>, World) {
    let fake = Fake::new();
    (Rc::clone(&fake), World { guests: fake, libraries: no_libraries(), clocks: None, tools: None, pause: None })
}
