import time
from datetime import datetime, timezone

print(datetime.now(timezone.utc).replace(tzinfo=None).isoformat())
print(time.time_ns())
print(time.time() - time.time())
