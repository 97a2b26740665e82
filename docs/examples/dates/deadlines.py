from datetime import date, datetime

from dateutil import parser, tz
from dateutil.relativedelta import FR, relativedelta
from dateutil.rrule import DAILY, MONTHLY, MO, TU, WE, TH, rrule

for text in ["5 March 2024", "2024-03-05T17:30:00+01:00", "Mar 5, 2024 5:30 PM", "20240305"]:
    print(f"{text:<27}{parser.parse(text).isoformat()}")

print("month's end   ", date(2024, 1, 31) + relativedelta(months=1))
print("last Friday   ", date(2024, 3, 1) + relativedelta(day=31, weekday=FR(-1)))
age = relativedelta(date(2024, 3, 5), date(1990, 12, 10))
print("age           ", f"{age.years} years, {age.months} months, {age.days} days")
print(
    "second Tuesday",
    *(day.strftime("%d %b") for day in rrule(MONTHLY, byweekday=TU(2), dtstart=datetime(2024, 1, 1), count=4)),
)
print(
    "next workdays ",
    *(
        day.strftime("%a")
        for day in rrule(DAILY, byweekday=(MO, TU, WE, TH, FR), dtstart=datetime(2024, 3, 8), count=3)
    ),
)
meeting = datetime(2024, 3, 5, 9, 0, tzinfo=tz.tzoffset("here", 3600))
print("in UTC        ", meeting.astimezone(tz.UTC).isoformat())
