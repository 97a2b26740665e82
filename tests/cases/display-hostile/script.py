import os

device = os.open("/dev/glovebox/displays", os.O_RDWR)
os.write(device, b"")
os.write(device, b"D\x0a\x00\x00\x00text/plain\x01\x00\x00\x00x")
os.write(device, b"D\xff\xff\xff\xff")
os.write(device, b"no display")
os.write(device, b"D\x04\x00\x00\x00../a\x01\x00\x00\x00x")
print(os.read(device, 10), os.path.exists("/dev/glovebox/displays"))
