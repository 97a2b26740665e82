import datetime

from dateutil import easter, parser, relativedelta, rrule, tz

print(parser.parse("3 March 2024 14:05 +0200").isoformat(), parser.isoparse("2024-W10-7").date())
start = datetime.datetime(2024, 1, 31)
print(start + relativedelta.relativedelta(months=1), relativedelta.relativedelta(start, datetime.datetime(1999, 12, 25)))
for day in rrule.rrule(rrule.MONTHLY, count=3, byweekday=rrule.FR(-1), dtstart=start):
    print(day.date())
print(easter.easter(2024), tz.gettz("Europe/Berlin").utcoffset(start), tz.UTC.utcoffset(start))
