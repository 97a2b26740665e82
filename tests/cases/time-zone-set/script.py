import os
import time
from datetime import date, datetime, timezone


def local(name):
    os.environ["TZ"] = name
    time.tzset()


def now():  # often enough for the interpreter to have specialised the call
    return [datetime.now() for _ in range(50)][-1]


now()
print(time.tzname, datetime.fromtimestamp(0))
local("Asia/Shanghai")
print(time.tzname, time.strftime("%H:%M %z", time.localtime(0)), time.timezone, time.daylight)
print(datetime.fromtimestamp(0), time.ctime(0), time.mktime(time.localtime(0)))
local("America/New_York")
moment = datetime.fromtimestamp(1_720_000_000).astimezone()
print(moment.isoformat(), time.timezone, time.daylight, time.localtime(1_720_000_000).tm_gmtoff, moment.tzname())
utc = datetime.now(timezone.utc)
print(abs((now().astimezone() - utc).total_seconds()) < 60, type(now()) is datetime, date.today() in (now().date(), moment.today().date()))
print(datetime.fromtimestamp(1.7e9).timestamp(), time.mktime(time.localtime(1.7e9)))
local("AAA2BBB,M3.2.0,M11.1.0")
print(time.tzname, time.strftime("%H:%M %Z %z", time.localtime(0)))
local("Nowhere/Land")
print(time.tzname, datetime.fromtimestamp(0))
del os.environ["TZ"]
time.tzset()
print(time.tzname, datetime.fromtimestamp(0))
