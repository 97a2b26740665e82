//! A guest's WASI state and the embedder's interface to it.

use std::fmt;

use glovebox_vfs::{RootId, Vfs, VfsLimits};

use crate::{
    Clock, Entropy, Host, Mount, Output, SecurityEvent, Stream, StringError, WasiConfig, WasiError, WasiLimits,
    clock::{ClockId, ClockState, Generator},
    config::Strings,
    device::ToolsDevice,
    host::EventLog,
    mounts::{check_mounts, directory},
    streams::{Capture, DisplaysDevice, Park, Stdin},
    table::{Descriptor, FdTarget, Table},
};

/// The WASI state of one guest instance: descriptor table, file system, arguments, environment, standard streams,
/// clocks, entropy and devices.
///
/// A clone is a fork: it shares file contents until either fork writes, and continues at the same positions.
#[derive(Clone)]
pub struct Wasi {
    pub(crate) vfs: Vfs,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) table: Table,
    pub(crate) args: Strings,
    pub(crate) env: Strings,
    pub(crate) stdin: Stdin,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    pub(crate) clock: ClockState,
    pub(crate) entropy: Generator,
    pub(crate) tools: ToolsDevice,
    /// The unread part of a key that the scrypt device derived.
    pub(crate) derived: Stdin,
    /// The unread part of a reply from the text device.
    pub(crate) decoded: Stdin,
    pub(crate) displays: DisplaysDevice,
    pub(crate) park: Park,
    pub(crate) events: EventLog,
    pub(crate) limits: WasiLimits,
    pub(crate) linear_memory_bytes: u64,
}

impl Wasi {
    /// Creates the state of a guest that has not started yet.
    ///
    /// # Errors
    /// Fails if a mount, an argument or a variable is invalid.
    pub fn new(config: WasiConfig) -> Result<Self, WasiError> {
        let WasiConfig { vfs, mounts, root_preopen, limits, args, env, stdin, clock, entropy } = config;
        let mut wasi = Self {
            vfs,
            args: Strings::new(args)?,
            env: environment(env)?,
            stdin: Stdin::new(stdin),
            clock: ClockState::new(clock),
            entropy: Generator::new(entropy),
            ..Self::default()
        };
        wasi.set_limits(limits);
        for mount in &mounts {
            let target = directory(&wasi.vfs, mount)?;
            wasi.preopen(target, &mount.path)?;
        }
        // `/` itself may be a mount.
        if root_preopen && !mounts.iter().any(|mount| mount.path == "/") {
            wasi.preopen(FdTarget::Virtual { path: "/".to_owned() }, "/")?;
        }
        check_mounts(&wasi.vfs, &mounts)?;
        wasi.mounts = mounts;
        Ok(wasi)
    }

    fn preopen(&mut self, target: FdTarget, path: &str) -> Result<(), WasiError> {
        let descriptor = Descriptor::preopen(target, path.to_owned());
        match self.table.insert(descriptor, self.limits.open_files) {
            Ok(_) => Ok(()),
            Err(_) => Err(WasiError::TooManyMounts(path.to_owned())),
        }
    }

    /// Returns the file system.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Returns the file system for changes between executions. The guest is not charged for these changes.
    pub fn vfs_mut(&mut self) -> &mut Vfs {
        &mut self.vfs
    }

    /// Returns the mounts.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// Returns the root mounted at exactly `path`.
    pub fn mount_root(&self, path: &str) -> Option<RootId> {
        self.mounts.iter().find(|mount| mount.path == path).map(|mount| mount.root)
    }

    /// Returns the number of the guest's open descriptors, except standard streams and preopens.
    pub fn open_files(&self) -> u32 {
        self.table.opened_by_guest()
    }

    /// Sets the arguments that `args_get` returns, beginning with the program's name.
    ///
    /// # Errors
    /// Fails if an argument contains a NUL byte.
    pub fn set_args(&mut self, args: impl IntoIterator<Item = String>) -> Result<(), StringError> {
        self.args = Strings::new(args)?;
        Ok(())
    }

    /// Sets the variables that `environ_get` returns.
    ///
    /// # Errors
    /// Fails if a name is empty or contains `=`, or a name or a value contains a NUL byte.
    pub fn set_env(&mut self, env: impl IntoIterator<Item = (String, String)>) -> Result<(), StringError> {
        self.env = environment(env)?;
        Ok(())
    }

    /// Replaces standard input. The guest reads the new bytes from the beginning.
    pub fn set_stdin(&mut self, bytes: Vec<u8>) {
        self.stdin = Stdin::new(bytes);
    }

    /// Returns the number of bytes that the guest has read from standard input.
    pub fn stdin_position(&self) -> u64 {
        self.stdin.position()
    }

    /// Returns the limits.
    pub fn limits(&self) -> &WasiLimits {
        &self.limits
    }

    /// Sets the limits. Usage that already exceeds the new limits is unaffected.
    pub fn set_limits(&mut self, limits: WasiLimits) {
        self.stdout.set_cap_bytes(limits.stdout_bytes);
        self.stderr.set_cap_bytes(limits.stderr_bytes);
        self.limits = limits;
    }

    /// Sets the source of time.
    ///
    /// With [`Clock::Host`], the guest's monotonic clock continues from its current value, without the time that the
    /// host measured. With [`Clock::Fixed`], the clock reports at least that value.
    ///
    /// Before replacing [`Clock::Host`] with [`Clock::Fixed`] in a guest that has run, call
    /// [`settle_clock`](Self::settle_clock). Otherwise, the guest's monotonic clock goes back by the time that the host
    /// measured.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock.set_source(clock);
    }

    /// Saves the current value of the monotonic clock. In another instance, whose [`Host::monotonic_ns`] starts from
    /// zero, the clock continues from this value. Call this method on the state that is saved, not on a state that
    /// continues to run.
    pub fn settle_clock<H: Host>(&mut self, host: &mut H) {
        let now = self.monotonic_ns(host);
        self.clock.set_base_ns(now);
    }

    /// Returns the value that the monotonic clock had when this instance was created, in nanoseconds. With a fixed
    /// clock, returns its current value.
    pub fn monotonic_base_ns(&self) -> u64 {
        self.clock.monotonic_base_ns()
    }

    /// Returns the guest's monotonic time in nanoseconds.
    pub fn monotonic_ns<H: Host + ?Sized>(&self, host: &mut H) -> u64 {
        self.clock.now(host, ClockId::Monotonic)
    }

    /// Returns the guest's real time in nanoseconds since 1970.
    pub fn realtime_ns<H: Host + ?Sized>(&self, host: &mut H) -> u64 {
        self.clock.now(host, ClockId::Realtime)
    }

    /// Sets the source of random bytes. A seeded generator starts at its beginning.
    pub fn set_entropy(&mut self, entropy: Entropy) {
        self.entropy = Generator::new(entropy);
    }

    /// Returns the position of the seeded generator in 32-bit words, or `None` with [`Entropy::Host`].
    pub fn entropy_position(&self) -> Option<u128> {
        self.entropy.position()
    }

    /// Sets the position of the seeded generator in 32-bit words. Has no effect with [`Entropy::Host`].
    pub fn set_entropy_position(&mut self, words: u128) {
        self.entropy.set_position(words);
    }

    /// Fills `into` from the guest's source of random bytes. The embedder uses this method to reseed an interpreter.
    pub fn fill_random<H: Host + ?Sized>(&mut self, host: &mut H, into: &mut [u8]) {
        self.entropy.fill(host, into);
    }

    /// Begins an execution. Clears output, displays, events and the unread parts of device replies, and disables
    /// parking. Restores the standard streams with all their rights, regardless of the guest's changes to them.
    pub fn begin_execution(&mut self) {
        self.stdout.take();
        self.stderr.take();
        self.displays.take();
        self.tools = ToolsDevice::default();
        self.derived = Stdin::default();
        self.decoded = Stdin::default();
        self.park = Park::default();
        self.events.take();
        for replaced in self.table.restore_stdio() {
            self.release(&replaced);
        }
    }

    /// Releases a closed descriptor's reference to its inode.
    pub(crate) fn release(&mut self, closed: &Descriptor) {
        if let Some(inode) = closed.target.inode() {
            self.vfs.release(inode);
        }
    }

    /// Returns the content of [`SPACE_DEVICE`](crate::SPACE_DEVICE).
    pub(crate) fn space(&self) -> String {
        let limits = self.vfs.limits();
        format!("{} {} {} {}\n", limits.bytes, self.vfs.bytes_used(), limits.inodes, self.vfs.inodes_used())
    }

    /// Returns the output that has been captured from a stream.
    pub fn output(&self, stream: Stream) -> &[u8] {
        match stream {
            Stream::Stdout => self.stdout.bytes(),
            Stream::Stderr => self.stderr.bytes(),
        }
    }

    /// Takes the captured output and resets the buffers.
    pub fn take_output(&mut self) -> Output {
        Output { stdout: self.stdout.take(), stderr: self.stderr.take(), displays: self.displays.take() }
    }

    /// Returns the number of bytes that the guest has written to standard error.
    pub fn stderr_bytes(&self) -> u64 {
        self.stderr.total_bytes()
    }

    /// Discards standard error after its first `total_bytes`.
    pub fn shorten_stderr(&mut self, total_bytes: u64) {
        self.stderr.shorten(total_bytes);
    }

    /// Takes the events since the last call. Call this method before [`Self::take_output`], which also clears the
    /// truncation events.
    pub fn take_events(&mut self) -> Vec<SecurityEvent> {
        let mut events = self.events.take();
        for (stream, capture) in [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)] {
            if let Some(total_bytes) = capture.take_loss() {
                events.push(SecurityEvent::OutputTruncated { stream, total_bytes });
            }
        }
        events
    }

    /// Sets whether the guest can request parking (see [`PARK_FRAME`](crate::PARK_FRAME)). Allow parking only during
    /// preparation.
    pub fn allow_parking(&mut self, allowed: bool) {
        self.park.allow(allowed);
    }

    /// Sets the total size of the guest's linear memories, which counts towards [`WasiLimits::memory_bytes`].
    pub fn set_linear_memory_bytes(&mut self, bytes: u64) {
        self.linear_memory_bytes = bytes;
    }

    /// Returns the number of bytes that the host allocates for the guest: file system with mount cache, output,
    /// displays, standard input, arguments, environment, and the replies of devices. An embedder must refuse
    /// `memory.grow` if the sum of linear memory and this value would exceed the limit.
    pub fn host_bytes(&self) -> u64 {
        self.vfs.bytes_used().saturating_add(self.buffer_bytes())
    }

    /// Returns the remaining part of [`WasiLimits::memory_bytes`].
    pub fn room_bytes(&self) -> u64 {
        self.vfs_ceiling_bytes().saturating_sub(self.vfs.bytes_used())
    }

    fn buffer_bytes(&self) -> u64 {
        [
            self.stdout.held_bytes(),
            self.stderr.held_bytes(),
            self.tools.held_bytes(),
            self.derived.held_bytes(),
            self.decoded.held_bytes(),
            self.displays.held_bytes(),
            self.stdin.held_bytes(),
            self.args.held_bytes(),
            self.env.held_bytes(),
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }

    /// Returns the number of bytes that the file system may use.
    pub(crate) fn vfs_ceiling_bytes(&self) -> u64 {
        self.limits.memory_bytes.saturating_sub(self.linear_memory_bytes).saturating_sub(self.buffer_bytes())
    }
}

impl Default for Wasi {
    /// Returns the state of a guest without files: default limits, clocks fixed at zero, and entropy from seed 0.
    fn default() -> Self {
        let WasiConfig { vfs, limits, clock, entropy, .. } = WasiConfig::new(Vfs::new(VfsLimits::default()));
        Self {
            vfs,
            mounts: Vec::new(),
            table: Table::new(),
            args: Strings::default(),
            env: Strings::default(),
            stdin: Stdin::new(Vec::new()),
            stdout: Capture::new(limits.stdout_bytes),
            stderr: Capture::new(limits.stderr_bytes),
            clock: ClockState::new(clock),
            entropy: Generator::new(entropy),
            tools: ToolsDevice::default(),
            derived: Stdin::default(),
            decoded: Stdin::default(),
            displays: DisplaysDevice::default(),
            park: Park::default(),
            events: EventLog::default(),
            limits,
            linear_memory_bytes: 0,
        }
    }
}

impl fmt::Debug for Wasi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The contents are omitted: they belong to the guest and may be large or secret.
        f.debug_struct("Wasi").field("mounts", &self.mounts).field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn environment(env: impl IntoIterator<Item = (String, String)>) -> Result<Strings, StringError> {
    let mut strings = Vec::new();
    for (name, value) in env {
        if name.is_empty() || name.contains('=') {
            return Err(StringError::Name(name));
        }
        strings.push(format!("{name}={value}"));
    }
    Strings::new(strings)
}
