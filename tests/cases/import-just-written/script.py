with open("fresh.py", "w") as f:
    f.write("VALUE = 7\n\ndef bad():\n    raise ValueError\n")
import fresh

print(fresh.VALUE)
try:
    fresh.bad()
except ValueError as error:
    print(error.__traceback__.tb_next.tb_frame.f_code.co_filename.rsplit("/", 1)[1])
