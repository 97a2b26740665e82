//! Reading and writing.
//!
//! Bytes of files and streams pass through a buffer of at most 64 KiB, and each chunk is charged before it is moved. A
//! message to a device is gathered as a whole. All addresses are checked when the array of regions is decoded, so a
//! bad address cannot make a call fail halfway. A partial read or write returns its length; the next call returns the
//! error, as POSIX requires.

use glovebox_vfs::InodeId;

use crate::{
    Errno, Host, Stream, Wasi,
    decoding::{self, MAX_GROWTH, MAX_TEXT_BYTES},
    device::{Derivation, Device, MAX_REQUEST_BYTES, ToolsDevice},
    host::{Call, CallFailure},
    memory::{CHUNK_BYTES, Region, check, read_array, read_iovecs, size, write_u32},
    prices,
    streams::{Source, Stdin},
    table::{self, FdTarget},
};

pub(super) fn fd_read<H: Host>(wasi: &mut Wasi, host: &mut H, fd: u32, iovs: u32, iovs_len: u32, nread: u32) -> Call {
    check(host, nread, 4)?;
    let target = readable(wasi, fd)?;
    let regions = read_iovecs(host, iovs, iovs_len)?;
    let count = match target {
        FdTarget::Stdin => {
            if wasi.stdin.rest_bytes() == 0
                && let Some(bytes) = host.stdin()?
            {
                wasi.set_stdin(bytes);
            }
            scatter(host, &regions, prices::BYTE, &mut wasi.stdin)?
        }
        FdTarget::File { inode, position } => {
            let count = read_file(wasi, host, inode, position, &regions)?;
            advance(wasi, fd, position.saturating_add(u64::from(count)))?;
            count
        }
        FdTarget::Device(Device::Null | Device::Displays) => 0,
        FdTarget::Device(Device::Tools) => read_reply(wasi, host, &regions)?,
        FdTarget::Device(Device::Scrypt) => scatter(host, &regions, prices::BYTE, &mut wasi.derived)?,
        FdTarget::Device(Device::Text) => scatter(host, &regions, prices::BYTE, &mut wasi.decoded)?,
        FdTarget::Device(Device::Space) => {
            let mut space = Stdin::new(wasi.space().into_bytes());
            scatter(host, &regions, prices::BYTE, &mut space)?
        }
        FdTarget::Stdout | FdTarget::Stderr => return Err(Errno::Badf.into()),
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } => return Err(Errno::IsDir.into()),
    };
    write_u32(host, nread, count)
}

pub(super) fn fd_pread<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    nread: u32,
) -> Call {
    check(host, nread, 4)?;
    let target = positional(wasi, fd, table::FD_READ)?;
    let regions = read_iovecs(host, iovs, iovs_len)?;
    let count = match target {
        FdTarget::File { inode, .. } => read_file(wasi, host, inode, offset, &regions)?,
        _ => 0,
    };
    write_u32(host, nread, count)
}

pub(super) fn fd_write<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    nwritten: u32,
) -> Call {
    check(host, nwritten, 4)?;
    let descriptor = wasi.table.get(fd)?;
    let append = descriptor.flags & table::APPEND != 0;
    let target = descriptor.target.clone();
    descriptor.require(table::FD_WRITE).map_err(|_| Errno::Badf)?;
    let regions = read_iovecs(host, iovs, iovs_len)?;
    let count = match target {
        FdTarget::Stdout => write_stream(wasi, host, Stream::Stdout, &regions)?,
        FdTarget::Stderr if check_park_frame(wasi, host, &regions)? => PARK_LEN,
        FdTarget::Stderr => write_stream(wasi, host, Stream::Stderr, &regions)?,
        FdTarget::File { inode, position } => {
            let start = if append { None } else { Some(position) };
            let (count, end) = write_file(wasi, host, inode, start, &regions)?;
            if count > 0 {
                advance(wasi, fd, end)?;
            }
            count
        }
        FdTarget::Device(Device::Null) => total_bytes(&regions),
        FdTarget::Device(Device::Tools) => send_message(wasi, host, &regions)?,
        FdTarget::Device(Device::Displays) => show(wasi, host, &regions)?,
        FdTarget::Device(Device::Scrypt) => derive(wasi, host, &regions)?,
        FdTarget::Device(Device::Text) => decode_text(wasi, host, &regions)?,
        FdTarget::Stdin | FdTarget::Directory { .. } | FdTarget::Virtual { .. } | FdTarget::Device(Device::Space) => {
            return Err(Errno::Badf.into());
        }
    };
    write_u32(host, nwritten, count)
}

/// Writes at `offset` even if the descriptor is in append mode, as POSIX requires (unlike Linux).
pub(super) fn fd_pwrite<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    fd: u32,
    iovs: u32,
    iovs_len: u32,
    offset: u64,
    nwritten: u32,
) -> Call {
    check(host, nwritten, 4)?;
    let target = positional(wasi, fd, table::FD_WRITE)?;
    let regions = read_iovecs(host, iovs, iovs_len)?;
    let count = match target {
        FdTarget::File { inode, .. } => write_file(wasi, host, inode, Some(offset), &regions)?.0,
        _ => total_bytes(&regions),
    };
    write_u32(host, nwritten, count)
}

/// Returns a readable descriptor's target. A missing right causes `EBADF`, as POSIX requires for a descriptor that
/// was not opened for reading.
fn readable(wasi: &Wasi, fd: u32) -> Result<FdTarget, Errno> {
    let descriptor = wasi.table.get(fd)?;
    if matches!(descriptor.target, FdTarget::Directory { .. } | FdTarget::Virtual { .. }) {
        return Err(Errno::IsDir);
    }
    descriptor.require(table::FD_READ).map_err(|_| Errno::Badf)?;
    Ok(descriptor.target.clone())
}

/// Returns a file or the null device, if the descriptor has the right to read or write at an offset.
fn positional(wasi: &Wasi, fd: u32, right: u64) -> Result<FdTarget, Errno> {
    let descriptor = wasi.table.get(fd)?;
    match descriptor.target {
        FdTarget::File { .. } | FdTarget::Device(Device::Null) => {}
        FdTarget::Stdin
        | FdTarget::Stdout
        | FdTarget::Stderr
        | FdTarget::Device(Device::Tools | Device::Displays | Device::Space | Device::Scrypt | Device::Text) => {
            return Err(Errno::Spipe);
        }
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } if right == table::FD_READ => return Err(Errno::IsDir),
        FdTarget::Directory { .. } | FdTarget::Virtual { .. } => return Err(Errno::Badf),
    }
    descriptor.require(right).map_err(|_| Errno::Badf)?;
    Ok(descriptor.target.clone())
}

fn advance(wasi: &mut Wasi, fd: u32, to: u64) -> Result<(), Errno> {
    if let FdTarget::File { position, .. } = &mut wasi.table.get_mut(fd)?.target {
        *position = to;
    }
    Ok(())
}

/// Copies bytes from a host buffer to the guest.
fn scatter<H: Host>(host: &mut H, regions: &[Region], byte_price: u64, source: &mut impl Source) -> Call<u32> {
    let mut count = 0_u32;
    for chunk in regions.iter().flat_map(|region| region.chunks()) {
        let rest = u32::try_from(source.rest_bytes()).unwrap_or(u32::MAX);
        let len = rest.min(chunk.len);
        if len == 0 {
            break;
        }
        host.charge(byte_price.saturating_mul(u64::from(len)))?;
        host.write(chunk.at, source.next(len))?;
        count = count.saturating_add(len);
    }
    Ok(count)
}

fn read_file<H: Host>(wasi: &mut Wasi, host: &mut H, inode: InodeId, mut offset: u64, regions: &[Region]) -> Call<u32> {
    // Charges only for existing bytes, because a reader's buffer is often larger than the file.
    let length = wasi.with_vfs(host, |vfs| vfs.stat(inode))?.size_bytes;
    let mut buffer = Buffer::default();
    let mut count = 0_u32;
    for chunk in regions.iter().flat_map(|region| region.chunks()) {
        let left = u32::try_from(length.saturating_sub(offset)).unwrap_or(u32::MAX);
        let mut chunk = Region { at: chunk.at, len: chunk.len.min(left) };
        if chunk.len == 0 {
            break;
        }
        host.charge(prices::bytes(u64::from(chunk.len)))?;
        // A mounted file may return short reads.
        while chunk.len > 0 {
            let bytes = buffer.of(chunk.len);
            let read = match wasi.with_vfs(host, |vfs| vfs.read_at(inode, offset, bytes)) {
                Ok(read) => read,
                Err(CallFailure::Errno(_)) if count > 0 => return Ok(count),
                Err(failure) => return Err(failure),
            };
            let read_bytes = bytes.get(..read).unwrap_or_default();
            if read_bytes.is_empty() {
                return Ok(count);
            }
            host.write(chunk.at, read_bytes)?;
            let read = u32::try_from(read).unwrap_or(chunk.len);
            offset = offset.saturating_add(u64::from(read));
            count = count.saturating_add(read);
            chunk = Region { at: chunk.at.saturating_add(read), len: chunk.len.saturating_sub(read) };
        }
    }
    Ok(count)
}

/// Writes at `start`, or at the end of the file if `start` is `None`. Returns the number of bytes written and the new
/// position.
fn write_file<H: Host>(
    wasi: &mut Wasi,
    host: &mut H,
    inode: InodeId,
    start: Option<u64>,
    regions: &[Region],
) -> Call<(u32, u64)> {
    let mut buffer = Buffer::default();
    let mut end = start.unwrap_or(0);
    let mut count = 0_u32;
    for chunk in regions.iter().flat_map(|region| region.chunks()) {
        host.charge(prices::bytes(u64::from(chunk.len)))?;
        let bytes = buffer.of(chunk.len);
        host.read(chunk.at, bytes)?;
        let written = wasi.change_vfs(host, |vfs| match start {
            None => vfs.append(inode, bytes),
            Some(_) => {
                let written = vfs.write_at(inode, end, bytes)?;
                Ok(end.saturating_add(u64::try_from(written).unwrap_or(u64::MAX)))
            }
        });
        match written {
            Ok(new_end) => end = new_end,
            Err(CallFailure::Errno(_)) if count > 0 => break,
            Err(failure) => return Err(failure),
        }
        count = count.saturating_add(chunk.len);
    }
    Ok((count, end))
}

/// The length of the frame that requests parking.
const PARK_LEN: u32 = 5;

/// Returns `true` if a write to standard error is the frame that requests parking. Always `false` if parking is not
/// allowed.
fn check_park_frame<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<bool> {
    let [region] = regions else { return Ok(false) };
    if !wasi.park.is_allowed() || region.len != PARK_LEN {
        return Ok(false);
    }
    let frame: [u8; 5] = read_array(host, region.at)?;
    Ok(wasi.park.check_frame(&frame))
}

/// Retains the bytes that fit into the limit and the memory, and only counts the remaining bytes. Long output does not
/// make a script fail.
fn write_stream<H: Host>(wasi: &mut Wasi, host: &mut H, stream: Stream, regions: &[Region]) -> Call<u32> {
    let mut buffer = Buffer::default();
    let mut count = 0_u32;
    for chunk in regions.iter().flat_map(|region| region.chunks()) {
        host.charge(prices::bytes(u64::from(chunk.len)))?;
        let room = wasi.room_bytes();
        let capture = match stream {
            Stream::Stdout => &mut wasi.stdout,
            Stream::Stderr => &mut wasi.stderr,
        };
        let retained = capture.accepts(chunk.len, room);
        if retained > 0 {
            let bytes = buffer.of(retained);
            host.read(chunk.at, bytes)?;
            capture.append(bytes, room);
            host.output(stream, bytes);
        }
        capture.count(chunk.len, retained);
        count = count.saturating_add(chunk.len);
    }
    Ok(count)
}

/// Returns the total length of all regions, which [`read_iovecs`] limits.
fn total_bytes(regions: &[Region]) -> u32 {
    regions.iter().fold(0, |sum, region| sum.saturating_add(region.len))
}

/// Sends one message to the host. A message that is too long is not sent.
fn send_message<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<u32> {
    let total = total_bytes(regions);
    if total == 0 {
        return Ok(0);
    }
    if u64::from(total) > wasi.limits.tool_bytes {
        return Err(Errno::MsgSize.into());
    }
    if u64::from(total) > wasi.room_bytes() {
        return Err(Errno::NoMem.into());
    }
    host.charge(prices::TOOL_MESSAGE.saturating_add(prices::TOOL_BYTE.saturating_mul(u64::from(total))))?;
    let message = gather(host, regions)?;
    host.tool_send(&message)?;
    Ok(total)
}

/// Derives a key, which the next read returns.
fn derive<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<u32> {
    let total = total_bytes(regions);
    if u64::from(total) > MAX_REQUEST_BYTES {
        return Err(Errno::TooBig.into());
    }
    host.charge(prices::SCRYPT_BYTE.saturating_mul(u64::from(total)))?;
    let request = gather(host, regions)?;
    let derivation = Derivation::read(&request)?;
    if derivation.memory_bytes > wasi.room_bytes() {
        return Err(Errno::NoMem.into());
    }
    host.charge(prices::SCRYPT_BLOCK.saturating_mul(derivation.blocks))?;
    host.charge(prices::SCRYPT_BYTE.saturating_mul(derivation.hashed_bytes))?;
    wasi.derived = Stdin::new(derivation.run()?);
    Ok(total)
}

/// Decodes text, which the next read returns.
fn decode_text<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<u32> {
    let total = total_bytes(regions);
    if u64::from(total) > MAX_TEXT_BYTES {
        return Err(Errno::TooBig.into());
    }
    if u64::from(total).saturating_mul(MAX_GROWTH) > wasi.room_bytes() {
        return Err(Errno::NoMem.into());
    }
    host.charge(prices::DECODED_BYTE.saturating_mul(u64::from(total)))?;
    let request = gather(host, regions)?;
    wasi.decoded = Stdin::new(decoding::decode(&request)?);
    Ok(total)
}

/// Retains a display if it fits, and only counts it otherwise. As with output, too many displays do not make a script
/// fail.
fn show<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<u32> {
    let total = total_bytes(regions);
    if total == 0 {
        return Ok(0);
    }
    host.charge(prices::DISPLAY)?;
    if !wasi.displays.accepts(u64::from(total), wasi.limits.display_bytes, wasi.room_bytes()) {
        wasi.displays.drop_one();
        return Ok(total);
    }
    // The message is moved twice: to this buffer, and to the embedder.
    host.charge(prices::bytes(u64::from(total)).saturating_mul(2))?;
    let message = gather(host, regions)?;
    host.display(&message);
    wasi.displays.keep(message);
    Ok(total)
}

/// Returns the concatenated bytes of all regions. The caller must have checked their total length.
fn gather<H: Host>(host: &mut H, regions: &[Region]) -> Result<Vec<u8>, CallFailure> {
    let mut bytes = vec![0; size(total_bytes(regions))];
    let mut rest = bytes.as_mut_slice();
    for region in regions {
        let Some((piece, after)) = rest.split_at_mut_checked(size(region.len)) else {
            break;
        };
        host.read(region.at, piece)?;
        rest = after;
    }
    Ok(bytes)
}

/// Delivers unread bytes of the current reply, or waits for the next reply. A read never extends beyond the end of a
/// reply, so a guest that has received one reply does not wait for the next.
fn read_reply<H: Host>(wasi: &mut Wasi, host: &mut H, regions: &[Region]) -> Call<u32> {
    if regions.is_empty() {
        return Ok(0);
    }
    if wasi.tools.rest_bytes() == 0 {
        host.charge(prices::TOOL_MESSAGE)?;
        let Some(reply) = host.tool_receive()? else {
            return Ok(0);
        };
        // The reply is within the memory limit. Until this call ends, the host charges the reply to the guest's
        // memory.
        wasi.tools.put(&reply)?;
    }
    let count = scatter(host, regions, prices::TOOL_BYTE, &mut wasi.tools)?;
    if wasi.tools.rest_bytes() == 0 {
        wasi.tools = ToolsDevice::default();
    }
    Ok(count)
}

/// A bounded buffer between guest and host, as large as the largest chunk.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    fn of(&mut self, len: u32) -> &mut [u8] {
        let len = size(len.min(CHUNK_BYTES));
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        self.bytes.get_mut(..len).unwrap_or_default()
    }
}
