"""Customers come at random, and are served by one or more tills: how long do they wait?"""

import heapq
import random
from statistics import mean, quantiles


def simulate(tills, customers=2000, between=1.0, service=1.8):
    free = [0.0] * tills  # when each till is free again
    now, waits = 0.0, []
    for _ in range(customers):
        now += random.expovariate(1 / between)
        start = max(now, heapq.heappop(free))
        waits.append(start - now)
        heapq.heappush(free, start + random.expovariate(1 / service))
    return waits


for tills in (2, 3, 4):
    waits = simulate(tills)
    print(f"{tills} tills: mean {mean(waits):5.2f} min, 95 % wait less than {quantiles(waits, n=20)[-1]:5.2f} min")
inside = sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(20_000))
print(f"pi is about {4 * inside / 20_000:.3f}")
