from datetime import datetime, timedelta

d = datetime(2024, 2, 29, 12)
print(d.isoformat())
print((d + timedelta(days=1)).date())
print((d - datetime(2023, 12, 31, 12)).days)
