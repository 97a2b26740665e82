import time

print(time.timezone)
