import hashlib

# RFC 6070; for a password that is longer than a block, the key is of its hash.
print(hashlib.pbkdf2_hmac("sha1", b"password", b"salt", 4096).hex())
print(hashlib.pbkdf2_hmac("sha256", b"p" * 65, bytearray(b"salt"), 1, dklen=20).hex())
# RFC 7914
print(hashlib.scrypt(b"password", salt=b"NaCl", n=1024, r=8, p=16, dklen=16).hex())
for derive in (
    lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 0),
    lambda: hashlib.scrypt(b"", salt=b"", n=3, r=8, p=1),
    lambda: hashlib.scrypt(b"", salt=b"", n=2**20, r=8, p=1),
    lambda: hashlib.scrypt(b"", salt=b"", n=2**17, r=8, p=1, maxmem=2**31),
    lambda: hashlib.scrypt(b"", salt=b"", n=2, r=8, p=1, dklen=2**17),
    lambda: hashlib.scrypt(b"", salt=b"", n=2**16, r=8, p=1, maxmem=2**31) if len(bytes(80_000_000)) else None,
):
    try:
        print(derive())
    except (ValueError, MemoryError) as error:
        print(f"{type(error).__name__} {error}".strip())
