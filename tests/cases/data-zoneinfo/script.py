from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd
from dateutil import parser, relativedelta

oslo = ZoneInfo("Europe/Oslo")
meeting = datetime(2024, 3, 30, 12, tzinfo=oslo)
print(meeting.isoformat(), (meeting + timedelta(days=1)).isoformat())
print(meeting.astimezone(ZoneInfo("America/New_York")).strftime("%Y-%m-%d %H:%M %Z"))
print(datetime(2024, 10, 27, 2, 30, tzinfo=oslo, fold=1).astimezone(timezone.utc).isoformat())
print(datetime(2024, 7, 1, tzinfo=ZoneInfo("Asia/Kathmandu")).utcoffset(), datetime.fromtimestamp(0, timezone.utc).year)
try:
    ZoneInfo("Mars/Olympus")
except ZoneInfoNotFoundError as error:
    print("ZoneInfoNotFoundError", error)

s = pd.Series(pd.to_datetime(["2024-03-30 12:00", "2024-03-31 12:00"])).dt.tz_localize("Europe/Oslo")
print(s.dt.tz_convert("UTC").dt.strftime("%H:%M").tolist(), s.diff().iloc[1])
idx = pd.date_range("2024-11-02 22:00", periods=4, freq="3h", tz="US/Eastern")
print([t.isoformat() for t in idx])
print(pd.bdate_range("2024-05-01", "2024-05-10").size, pd.Timestamp("2024-02-29") + pd.DateOffset(years=1))
print(parser.parse("3 May 2024 5pm"), date(2024, 1, 31) + relativedelta.relativedelta(months=1))
print(pd.Timedelta("1 days 02:30:00").total_seconds(), datetime.strptime("01/02/24", "%d/%m/%y").date())
