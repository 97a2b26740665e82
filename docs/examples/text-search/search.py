from sandbox_utils import find, grep, group_by, sort_by, tree, wc

print(tree("chapters"))
files = find("*.txt", "chapters")
for file, number, line in grep(r"\b(age|times)\b", files, ignore_case=True):
    print(f"{file}:{number}: {line}")
todo = group_by(grep("TODO", files), lambda match: match[0])
print({file: len(matches) for file, matches in todo.items()})
for file in sort_by(files, lambda file: wc(file)["words"], reverse=True):
    print(f"{wc(file)['words']:>4} words in {file.name}")
