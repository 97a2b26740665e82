import time

print(int(time.time()))
began = time.monotonic()
time.sleep(3600)
print(round(time.monotonic() - began))
print(int(time.time()))
