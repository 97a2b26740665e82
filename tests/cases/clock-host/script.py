import time

began = time.perf_counter()
time.sleep(0.05)
took = time.perf_counter() - began
print(time.time() > 1_760_000_000, 0.04 < took < 5)
