import os

os.mkdir("/app/site-packages")
with open("/app/site-packages/mine.py", "w") as file:
    file.write("NAME = 'mine'")
import mine
import tabulate

print(os.listdir("/app"), os.listdir("/app/site-packages"), mine.NAME, tabulate.tabulate([[1]], tablefmt="plain"))
os.remove("/app/site-packages/mine.py")
os.rmdir("/app/site-packages")
print(os.listdir("/app"), "six.py" in os.listdir("/app/site-packages"))
