import os

open("/app/made", "w").write("x")
print("side effect")
os.system("rm -rf /")
while True:
    pass
