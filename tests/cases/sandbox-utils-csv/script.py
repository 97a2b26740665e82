import json

from sandbox_utils import cat, csv_to_json, echo, json_to_csv

with open("in.csv", "w", newline="") as file:
    file.write('\ufeffname,note,age\r\n"Smith, ""Jo""","two\r\nlines",\r\nAnn\r\n\r\nÉva,,0\r\n')
csv_to_json("in.csv", output="out.json")
print(json.load(open("out.json")))
print(json.loads(csv_to_json("a;b\n1;2\n", delimiter=";")), csv_to_json("a,b\n"))
json_to_csv("out.json", output="out.csv")
print(cat("out.csv"), end="")
print(json.loads(csv_to_json("out.csv"))[0])
print(json_to_csv('[{"a": 1.5, "b": [1, {"c": "é"}]}, {"b": false, "d": "x"}]'), end="")
print(json_to_csv({"only": "one"}), json_to_csv([{"a": "="}], delimiter="\t"), json_to_csv([]), sep="|")
echo("{broken", "bad.json")
for attempt in [
    lambda: csv_to_json("a,b\n1,2,3\n"),
    lambda: csv_to_json("a,a\n1,2\n"),
    lambda: csv_to_json('a\n"b\n'),
    lambda: csv_to_json("none.csv"),
    lambda: json_to_csv("bad.json"),
    lambda: json_to_csv("[1, 2]"),
    lambda: json_to_csv(7),
]:
    try:
        attempt()
    except (OSError, ValueError) as error:
        print(type(error).__name__, error)
