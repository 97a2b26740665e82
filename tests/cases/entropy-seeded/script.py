import os
import random
import secrets
import uuid

print(random.random())
print(random.randrange(10 ** 9))
print(os.urandom(8).hex())
print(secrets.token_hex(4))
print(uuid.uuid4())
