import markdown

text = """\
# Title

* one
* **two**

name | count
-----|------
a    | 1

```python
x < 1
```
"""
print(markdown.markdown(text, extensions=["tables", "fenced_code"]))
