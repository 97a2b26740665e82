import logging
import time
from datetime import date, datetime, time as clock, timezone

when = datetime(2024, 3, 5, 17, 8, 9)
for directive in "%k %l %P %q %+ %^a %#B %-m %_d %5j %Ey %Od %Ea %%k %".split():
    print(directive, when.strftime(f"<{directive}>"))
print(f"{date(2024, 3, 5):%-d %B %Q}")
print(clock(3, 4).strftime("%k:%M %P"))
record = logging.makeLogRecord({"created": when.timestamp()})
print(logging.Formatter().formatTime(record, "%k %q"))
print(when.replace(tzinfo=timezone.utc).strftime("%H:%M %P %Z %z"))
print(time.strftime("%s %", when.timetuple()))
