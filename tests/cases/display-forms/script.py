class A:
    def __repr__(self):
        return "<A>"

    def _repr_html_(self):
        return "<b>a</b>"

    def _repr_svg_(self):
        return "<svg/>"

    def _repr_markdown_(self):
        raise ValueError("no form")

    def _repr_latex_(self):
        return None


class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": "*m*", "application/json": {"n": [1, None]}, "image/png": b"\x89PNG"}, {}


display([1, "é"], A())
display(Bundle(), exclude=["text/plain"])
display({"text/html": "<i>"}, raw=True)
print("done")
