import os
import own
import six
import openpyxl

print(own.NAME, six.NAME, sorted(os.listdir("/app/site-packages")), os.listdir("/app"))
print(openpyxl.Workbook().active.title)
with open("/app/site-packages/new.py", "w") as file:
    file.write("x = 1")
import new

print(new.x)
