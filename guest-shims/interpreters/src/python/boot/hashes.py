"""The key derivation functions that `hashlib` otherwise takes from OpenSSL."""

hash_new = hashlib.new


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Password based key derivation function 2 (PKCS #5 v2.0) with HMAC as pseudorandom function."""
    block = hash_new(hash_name)
    password, salt = bytes(memoryview(password)), bytes(memoryview(salt))
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    if dklen is None:
        dklen = block.digest_size
    if dklen < 1:
        raise ValueError("key length must be greater than 0.")
    if len(password) > block.block_size:
        password = hash_new(hash_name, password).digest()
    password = password.ljust(block.block_size, b"\0")
    inner = hash_new(hash_name, bytes(byte ^ 0x36 for byte in password)).copy
    outer = hash_new(hash_name, bytes(byte ^ 0x5C for byte in password)).copy
    number = int.from_bytes

    def keyed(message):
        first, second = inner(), outer()
        first.update(message)
        second.update(first.digest())
        return second.digest()

    key, index = b"", 0
    while len(key) < dklen:
        index += 1
        digest = keyed(salt + index.to_bytes(4, "big"))
        total = number(digest, "big")
        for _ in range(iterations - 1):
            digest = keyed(digest)
            total ^= number(digest, "big")
        key += total.to_bytes(block.digest_size, "big")
    return key[:dklen]


def scrypt(password, *, salt, n, r, p, maxmem=0, dklen=64):
    """scrypt password-based key derivation function."""
    password, salt = bytes(memoryview(password)), bytes(memoryview(salt))
    if n < 2 or n & (n - 1):
        raise ValueError("n must be a power of 2.")
    if r < 1 or p < 1 or dklen < 1 or maxmem < 0:
        raise ValueError("r, p and dklen must be positive, and maxmem must not be negative")
    if 128 * r * (n + p + 2) > (maxmem or 32 << 20):
        raise ValueError("memory limit exceeded")
    numbers = n.bit_length() - 1, r, p, dklen, len(password)
    device = _open("/dev/glovebox/scrypt", os.O_RDWR)
    try:
        _write(device, b"".join(number.to_bytes(4, "little") for number in numbers) + password + salt)
        return _read(device, dklen)
    except (OverflowError, OSError) as error:
        if getattr(error, "errno", None) == errno.ENOMEM:
            raise MemoryError from None
        raise ValueError("n * r * p must be at most 2**19, and dklen at most 65536") from None
    finally:
        _close(device)


for _function in pbkdf2_hmac, scrypt:
    if not hasattr(hashlib, _function.__name__):
        _function.__module__ = "hashlib"
        setattr(hashlib, _function.__name__, _function)
        hashlib.__all__ += (_function.__name__,)
