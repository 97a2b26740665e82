import json
from datetime import datetime

readings = []
with open("readings.txt") as file:
    for number, line in enumerate(file, 1):
        if line.startswith("#"):
            continue
        station, time, celsius = (part.strip() for part in line.split(";"))
        try:
            readings.append(
                {"station": station, "time": datetime.fromisoformat(time).isoformat(), "celsius": float(celsius)}
            )
        except ValueError as error:
            print(f"Python: line {number} is left out: {error}")
with open("readings.json", "w") as file:
    json.dump(readings, file)
print("Python:", len(readings), "readings")
