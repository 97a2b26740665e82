import os

print(os.listdir("/app"), [name for _, names, files in os.walk("/app") for name in names + files])
print(os.path.isdir("/app/site-packages"), "six.py" in os.listdir("/app/site-packages"))
os.chdir("/app/site-packages")
print(os.path.exists("six.py"), os.path.exists("../site-packages/six.py"), os.listdir(".."))
os.chdir("/app")
with open("/app/site-packages/../mine.txt", "w") as file:
    file.write("x")
descriptor = os.open("/app", os.O_RDONLY | os.O_DIRECTORY)
print(os.stat("site-packages/six.py", dir_fd=descriptor).st_size == os.path.getsize("/app/site-packages/six.py"))
