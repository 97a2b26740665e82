# A script that displays a picture, a table and a text in addition to its printed output.
import math


class Wave:
    def _repr_svg_(self):
        points = " ".join(f"{x},{60 - 40 * math.sin(x / 24):.1f}" for x in range(0, 421, 4))
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" width="420" height="120" viewBox="0 0 420 120">'
            '<path d="M0 60H420" stroke="#ccc"/>'
            f'<polyline points="{points}" fill="none" stroke="#0b6e69" stroke-width="2.5"/></svg>'
        )


class Table:
    def __init__(self, rows):
        self.rows = rows

    def _repr_html_(self):
        rows = "".join(f"<tr><td>{name}</td><td align=right>{value}</td></tr>" for name, value in self.rows)
        return f'<table style="font: 14px sans-serif; border-spacing: 18px 4px"><tr><th>x</th><th>sine</th></tr>{rows}</table>'


display(Wave())
display(Table([(f"{x / 4:g} π", f"{math.sin(x * math.pi / 4):.3f}") for x in range(5)]))
print("Each of them is shown in the form that a reader can show best.")
