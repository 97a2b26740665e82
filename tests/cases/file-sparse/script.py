import os

with open("sparse", "wb") as f:
    try:
        f.truncate(1 << 40)
    except OSError as error:
        print(type(error).__name__)
os.remove("sparse")
print(len(os.listdir()))
