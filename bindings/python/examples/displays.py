from pathlib import Path

from glovebox_sandbox import Sandbox

CHART = """
import leather
chart = leather.Chart("Sales")
chart.add_columns([("north", 3), ("south", 5)])
display(chart)
"""

with Sandbox("python") as box:
    for number, shown in enumerate(box.execute(CHART).displays):
        print(list(shown), shown.svg is not None)
        Path(f"chart-{number}.svg").write_text(shown.svg or "")
