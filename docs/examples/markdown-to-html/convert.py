import markdown

with open("notes.md", encoding="utf-8") as file:
    body = markdown.markdown(file.read(), extensions=["tables", "fenced_code"])
with open("notes.html", "w", encoding="utf-8") as file:
    file.write(f'<!doctype html>\n<meta charset="utf-8">\n<title>Notes</title>\n{body}\n')
print(body)
