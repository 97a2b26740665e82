import leather

chart = leather.Chart("Sales")
chart.add_columns([("north", 3), ("south", 5)])
display(chart)
