//! The devices: files at fixed paths outside the file system.
//!
//! Devices are visible through the preopen `/`, regardless of the mounts, and are not listed in any directory.

use crate::{
    DISPLAYS_DEVICE, Errno, TEXT_DEVICE,
    memory::{guest_size, size},
    streams::{Source, held_bytes},
};

/// The space device's path in the guest. Guests reach the device in the same way as [`TOOLS_DEVICE`]. Each read returns
/// four decimal numbers, separated by spaces: the file system's quota in bytes, the used bytes, the maximum number of
/// files, directories and links, and their current number.
pub const SPACE_DEVICE: &str = "/dev/glovebox/space";

/// The directory whose entries are the open descriptors, by number.
const DESCRIPTORS: &str = "/dev/fd";
/// The alternative names of the standard streams, as in Linux.
const STREAMS: [&str; 3] = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];

/// A device. The values identify devices in saved states, where lower values identify other descriptor targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Device {
    /// [`TOOLS_DEVICE`]: writes send messages, reads return replies.
    Tools = 7,
    /// [`NULL_DEVICE`]: reads return end of file, writes are dropped.
    Null = 8,
    /// [`DISPLAYS_DEVICE`]: reads return end of file.
    Displays = 9,
    /// [`SPACE_DEVICE`]: writes are refused.
    Space = 10,
    /// [`SCRYPT_DEVICE`]: writes are requests, reads return keys.
    Scrypt = 11,
    /// [`TEXT_DEVICE`]: writes are requests, reads return text.
    Text = 12,
}

impl Device {
    const ALL: [Self; 6] = [Self::Null, Self::Tools, Self::Displays, Self::Space, Self::Scrypt, Self::Text];

    /// Returns the device's absolute path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Null => NULL_DEVICE,
            Self::Tools => TOOLS_DEVICE,
            Self::Displays => DISPLAYS_DEVICE,
            Self::Space => SPACE_DEVICE,
            Self::Scrypt => SCRYPT_DEVICE,
            Self::Text => TEXT_DEVICE,
        }
    }

    /// Returns the device at an absolute path.
    pub(crate) fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.path() == path)
    }

    /// Returns the device's number in saved states.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the device that `number` stands for in saved states.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|device| device.number() == number)
    }
}

/// Returns the absolute paths that devices and descriptors occupy.
fn claimed() -> impl Iterator<Item = &'static str> {
    Device::ALL.into_iter().map(Device::path).chain(STREAMS).chain([DESCRIPTORS])
}

/// Returns the number of the open descriptor that an absolute path refers to.
pub(crate) fn descriptor_at(path: &str) -> Option<u32> {
    if let Some(number) = path.strip_prefix(DESCRIPTORS).and_then(|rest| rest.strip_prefix('/')) {
        // Each descriptor has exactly one numeric name.
        let is_canonical = number == "0" || !number.starts_with(['0', '+']);
        return if is_canonical { number.parse().ok() } else { None };
    }
    (0..).zip(STREAMS).find_map(|(fd, stream)| (path == stream).then_some(fd))
}

/// Returns `true` if an absolute path, or a path below it, belongs to a device, a standard stream or `/dev/fd`.
pub(crate) fn is_above_one(path: &str) -> bool {
    claimed().any(|claimed| is_within(claimed, path))
}

/// Returns `true` if an absolute path, or one of its ancestors, belongs to a device, a standard stream or `/dev/fd`.
pub(crate) fn is_device_path(path: &str) -> bool {
    claimed().any(|claimed| is_within(path, claimed))
}

/// Returns `true` if an absolute path equals `above` or is below it.
fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The null device's path in the guest. Guests reach the device in the same way as [`TOOLS_DEVICE`].
pub const NULL_DEVICE: &str = "/dev/null";

/// The tools device's path in the guest. The device is visible through the preopen `/`, regardless of the mounts, and
/// is not listed in any directory.
pub const TOOLS_DEVICE: &str = "/dev/glovebox/tools";

/// The reply that the guest is reading. All descriptors of the device share one reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolsDevice {
    frame: Vec<u8>,
    position: usize,
}

impl ToolsDevice {
    /// Makes a reply available for reading, prefixed by its length in four little-endian bytes.
    pub(crate) fn put(&mut self, reply: &[u8]) -> Result<(), Errno> {
        let len = guest_size(reply.len())?;
        self.frame = [&len.to_le_bytes(), reply].concat();
        self.position = 0;
        Ok(())
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        held_bytes(&self.frame)
    }
}

impl Source for ToolsDevice {
    fn rest_bytes(&self) -> u64 {
        u64::try_from(self.frame.len().saturating_sub(self.position)).unwrap_or(u64::MAX)
    }

    fn next(&mut self, len: u32) -> &[u8] {
        let from = self.position;
        self.position = from.saturating_add(size(len)).min(self.frame.len());
        self.frame.get(from..self.position).unwrap_or_default()
    }
}

// The scrypt device: the key derivation function of RFC 7914, which would take minutes in an interpreter.

/// The scrypt device's path in the guest. Guests reach the device in the same way as
/// [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). A write is a request: five little-endian numbers of four bytes (log2 N, r, p,
/// the length of the key and the length of the password), followed by the password and the salt. The next read returns
/// the key.
///
/// A write fails with `EINVAL` for an invalid request. It fails with `E2BIG` for more than [`MAX_SCRYPT_BLOCKS`], a key
/// of more than 64 KiB, a request of more than 1 MiB, or a derivation that hashes more than 64 MiB. It fails with
/// `ENOMEM` if 128 · (N + p) · r bytes and the key do not fit into the guest's memory limit.
pub const SCRYPT_DEVICE: &str = "/dev/glovebox/scrypt";

/// Maximum of N · r · p. Mixing this many blocks takes at most a fifth of a second, during which the guest cannot be
/// stopped.
pub const MAX_SCRYPT_BLOCKS: u64 = 1 << 19;
/// Maximum number of bytes that a derivation hashes, at most a fifth of a second. [`MAX_SCRYPT_BLOCKS`] does not bound
/// the hashing: PBKDF2 hashes the whole salt for each 32 bytes of the blocks, and all blocks for each 32 bytes of the
/// key.
const MAX_HASHED_BYTES: u64 = 64 << 20;
/// The number of bytes that SHA-256 returns.
const HASH_BYTES: u64 = 32;
/// Maximum number of bytes that an HMAC hashes in addition to its input: block number, padding and outer hash.
const HMAC_BYTES: u64 = 192;
const MAX_KEY_BYTES: u32 = 64 << 10;
/// Maximum size of a request in bytes.
pub(crate) const MAX_REQUEST_BYTES: u64 = 1 << 20;
const HEADER_BYTES: usize = 20;

/// A validated request.
#[derive(Debug)]
pub(crate) struct Derivation<'a> {
    params: scrypt::Params,
    key_bytes: usize,
    password: &'a [u8],
    salt: &'a [u8],
    /// The number of blocks, N · r · p.
    pub(crate) blocks: u64,
    /// The number of bytes that the derivation hashes.
    pub(crate) hashed_bytes: u64,
    /// The memory usage of the derivation in bytes, including the key.
    pub(crate) memory_bytes: u64,
}

/// Returns the number of bytes that the two PBKDF2 steps hash: from the salt to blocks of `block_bytes`, and from the
/// blocks to the key.
fn hashed_bytes(password: &[u8], salt: &[u8], block_bytes: u64, key_bytes: u32) -> u64 {
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let step = |input_bytes: u64, output_bytes: u64| {
        output_bytes.div_ceil(HASH_BYTES).saturating_mul(input_bytes.saturating_add(HMAC_BYTES))
    };
    length(password)
        .saturating_add(step(length(salt), block_bytes))
        .saturating_add(step(block_bytes, u64::from(key_bytes)))
}

impl<'a> Derivation<'a> {
    pub(crate) fn read(request: &'a [u8]) -> Result<Self, Errno> {
        let (header, rest) = request.split_at_checked(HEADER_BYTES).ok_or(Errno::Inval)?;
        let words: Vec<u32> = header.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let &[log_n, r, p, key_bytes, password_bytes] = words.as_slice() else { return Err(Errno::Inval) };
        let (password, salt) = rest.split_at_checked(size(password_bytes)).ok_or(Errno::Inval)?;
        if log_n == 0 || r == 0 || p == 0 || key_bytes == 0 {
            return Err(Errno::Inval);
        }
        let lanes =
            1_u64.checked_shl(log_n).filter(|n| *n <= MAX_SCRYPT_BLOCKS).map(|n| n.saturating_mul(u64::from(r)));
        let lanes =
            lanes.filter(|lanes| lanes.saturating_mul(u64::from(p)) <= MAX_SCRYPT_BLOCKS).ok_or(Errno::TooBig)?;
        let block_bytes = u64::from(r).saturating_mul(u64::from(p)).saturating_mul(128);
        let hashed_bytes = hashed_bytes(password, salt, block_bytes, key_bytes);
        if key_bytes > MAX_KEY_BYTES || hashed_bytes > MAX_HASHED_BYTES {
            return Err(Errno::TooBig);
        }
        let params = u8::try_from(log_n).ok().and_then(|log_n| scrypt::Params::new(log_n, r, p).ok());
        Ok(Self {
            params: params.ok_or(Errno::Inval)?,
            key_bytes: size(key_bytes),
            password,
            salt,
            blocks: lanes.saturating_mul(u64::from(p)),
            hashed_bytes,
            memory_bytes: lanes.saturating_mul(128).saturating_add(block_bytes).saturating_add(u64::from(key_bytes)),
        })
    }

    pub(crate) fn run(&self) -> Result<Vec<u8>, Errno> {
        let mut key = vec![0; self.key_bytes];
        scrypt::scrypt(self.password, self.salt, &self.params, &mut key).map_err(|_| Errno::Inval)?;
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(numbers: [u32; 5], rest: &[u8]) -> Vec<u8> {
        let mut request = numbers.map(u32::to_le_bytes).concat();
        request.extend(rest);
        request
    }

    #[test]
    fn scrypt_matches_the_rfc() {
        // The test vector is in RFC 7914, section 12.
        let request = request([10, 8, 16, 64, 8], b"passwordNaCl");
        let derivation = Derivation::read(&request).unwrap();
        assert_eq!((derivation.blocks, derivation.memory_bytes), (1 << 17, (1 << 20) + (16 << 10) + 64));
        assert_eq!(derivation.hashed_bytes, 8 + 512 * (4 + 192) + 2 * ((16 << 10) + 192));
        let key = derivation.run().unwrap();
        assert_eq!(key[..8], [0xfd, 0xba, 0xbe, 0x1c, 0x9d, 0x34, 0x72, 0x00]);
    }

    #[test]
    fn excessive_and_malformed_scrypt_requests_are_rejected() {
        let read = |numbers| Derivation::read(&request(numbers, b"")).map(|derivation| derivation.blocks);
        assert_eq!(read([16, 8, 1, 1, 0]), Ok(MAX_SCRYPT_BLOCKS));
        for over in [[16, 8, 2, 1, 0], [16, 9, 1, 1, 0], [17, 8, 1, 1, 0], [63, 1, 1, 1, 0], [64, 1, 1, 1, 0]] {
            assert_eq!(read(over), Err(Errno::TooBig), "{over:?}");
        }
        for over in [[u32::MAX; 5], [1, u32::MAX, u32::MAX, 1, 0], [1, 1, u32::MAX, 1, 0], [1, 1, 1, (64 << 10) + 1, 0]]
        {
            let refused = read(over);
            assert!(matches!(refused, Err(Errno::TooBig | Errno::Inval)), "{over:?}: {refused:?}");
        }
        for wrong in [[0, 1, 1, 1, 0], [1, 0, 1, 1, 0], [1, 1, 0, 1, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]] {
            assert_eq!(read(wrong), Err(Errno::Inval), "{wrong:?}");
        }
        assert_eq!(Derivation::read(&[0; 19]).map(drop), Err(Errno::Inval));
    }

    #[test]
    fn long_salts_and_keys_do_not_escape_the_work_limit() {
        let read = |numbers, salt: usize| Derivation::read(&request(numbers, &vec![0; salt])).map(drop);
        // The derivation hashes the salt and 192 more bytes 2,048 times, and 64 KiB of blocks once.
        let max = (64 << 20) / 2_048 - 192 - 33;
        for (salt, expected) in [(max, Ok(())), (max + 1, Err(Errno::TooBig)), (1 << 20, Err(Errno::TooBig))] {
            assert_eq!(read([1, 1, 512, 32, 0], salt), expected, "{salt}");
        }
        // The derivation hashes all blocks 2,048 times. The salt is empty.
        for (p, expected) in [(128, Ok(())), (1 << 18, Err(Errno::TooBig))] {
            assert_eq!(read([1, 1, p, 64 << 10, 0], 0), expected, "{p}");
        }
    }
}
