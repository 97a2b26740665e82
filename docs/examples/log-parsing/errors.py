import re
from collections import Counter, defaultdict
from statistics import median

LINE = re.compile(
    r'(?P<host>\S+) .*\[(?P<day>[^:]+):(?P<hour>\d\d).*\] "(?P<method>\S+) (?P<path>\S+) .*" (?P<status>\d+) (?P<ms>\d+)'
)

statuses, hours, times, skipped = Counter(), Counter(), defaultdict(list), 0
with open("access.log") as log:
    for line in log:
        found = LINE.match(line)
        if not found:
            skipped += 1
            continue
        statuses[found["status"]] += 1
        times[found["path"]].append(int(found["ms"]))
        if found["status"] >= "500":
            hours[f"{found['hour']}:00"] += 1

print("status ", *(f"{status}: {count}" for status, count in sorted(statuses.items())), sep="  ")
print("failed ", *(f"{hour}: {count}" for hour, count in sorted(hours.items())), sep="  ")
print(f"skipped  {skipped}")
for path in sorted(times, key=lambda path: -median(times[path])):
    print(
        f"{path:<16}{len(times[path]):>4} requests, median {median(times[path]):>3g} ms, longest {max(times[path]):>3} ms"
    )
