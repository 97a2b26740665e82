//! The scrypt device: the key derivation function of RFC 7914, which would take minutes in an interpreter.

use crate::Errno;

/// The guest's path of the scrypt device. It is visible like [`TOOLS_DEVICE`](crate::TOOLS_DEVICE). A write is a
/// request: five little-endian numbers of four bytes (log2 N, r, p, the length of the key and the length of the
/// password), followed by the password and the salt. The next read returns the key.
///
/// A write fails with `EINVAL` for an invalid request. It fails with `E2BIG` for more than [`MAX_SCRYPT_BLOCKS`], a key
/// of more than 64 KiB or a request of more than 1 MiB. It fails with `ENOMEM` if 128 · N · r bytes do not fit into the
/// guest's memory limit.
pub const SCRYPT_DEVICE: &str = "/dev/glovebox/scrypt";

/// Maximum of N · r · p: a fifth of a second, during which the guest cannot be stopped.
pub const MAX_SCRYPT_BLOCKS: u64 = 1 << 19;
const MAX_KEY_BYTES: u32 = 64 << 10;
/// Maximum size of a request in bytes.
pub(crate) const MAX_REQUEST_BYTES: u64 = 1 << 20;
const HEADER_BYTES: usize = 20;

/// A request within the limits.
#[derive(Debug)]
pub(crate) struct Derivation<'a> {
    params: scrypt::Params,
    key_bytes: usize,
    password: &'a [u8],
    salt: &'a [u8],
    /// The number of blocks, N · r · p.
    pub(crate) blocks: u64,
    /// Memory usage of the derivation in bytes.
    pub(crate) memory_bytes: u64,
}

impl<'a> Derivation<'a> {
    pub(crate) fn read(request: &'a [u8]) -> Result<Self, Errno> {
        let (header, rest) = request.split_at_checked(HEADER_BYTES).ok_or(Errno::Inval)?;
        let words: Vec<u32> = header.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let &[log_n, r, p, key_bytes, password_bytes] = words.as_slice() else { return Err(Errno::Inval) };
        let (password, salt) = rest.split_at_checked(crate::memory::size(password_bytes)).ok_or(Errno::Inval)?;
        if log_n == 0 || r == 0 || p == 0 || key_bytes == 0 {
            return Err(Errno::Inval);
        }
        let lanes =
            1_u64.checked_shl(log_n).filter(|n| *n <= MAX_SCRYPT_BLOCKS).map(|n| n.saturating_mul(u64::from(r)));
        let lanes =
            lanes.filter(|lanes| lanes.saturating_mul(u64::from(p)) <= MAX_SCRYPT_BLOCKS).ok_or(Errno::TooBig)?;
        if key_bytes > MAX_KEY_BYTES {
            return Err(Errno::TooBig);
        }
        let params = u8::try_from(log_n).ok().and_then(|log_n| scrypt::Params::new(log_n, r, p).ok());
        Ok(Self {
            params: params.ok_or(Errno::Inval)?,
            key_bytes: crate::memory::size(key_bytes),
            password,
            salt,
            blocks: lanes.saturating_mul(u64::from(p)),
            memory_bytes: lanes.saturating_add(u64::from(r).saturating_mul(u64::from(p))).saturating_mul(128),
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
    fn a_key_is_that_of_the_standard() {
        // RFC 7914, section 12.
        let request = request([10, 8, 16, 64, 8], b"passwordNaCl");
        let derivation = Derivation::read(&request).unwrap();
        assert_eq!((derivation.blocks, derivation.memory_bytes), (1 << 17, (1 << 20) + (16 << 10)));
        let key = derivation.run().unwrap();
        assert_eq!(key[..8], [0xfd, 0xba, 0xbe, 0x1c, 0x9d, 0x34, 0x72, 0x00]);
    }

    #[test]
    fn more_work_than_the_maximum_is_refused_and_so_is_what_is_no_request() {
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
}
