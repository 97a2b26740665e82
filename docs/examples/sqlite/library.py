import csv
import sqlite3

database = sqlite3.connect("library.db")
database.executescript("""
    CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE book (title TEXT, year INTEGER, copies INTEGER CHECK (copies >= 0), author REFERENCES author);
""")
with open("books.csv", newline="") as file, database:
    for row in csv.DictReader(file):
        database.execute("INSERT OR IGNORE INTO author (name) VALUES (?)", [row["author"]])
        database.execute(
            "INSERT INTO book SELECT ?, ?, ?, id FROM author WHERE name = ?",
            [row["title"], row["year"], row["copies"], row["author"]],
        )

query = """
    SELECT name, count(*), sum(copies), group_concat(title, ' / ')
    FROM (SELECT * FROM book ORDER BY year) AS book JOIN author ON author.id = book.author
    GROUP BY name ORDER BY sum(copies) DESC
"""
for name, titles, copies, list_of_titles in database.execute(query):
    print(f"{name}: {copies} copies of {titles} titles: {list_of_titles}")
try:
    with database:
        database.execute("UPDATE book SET copies = copies - 2")
except sqlite3.IntegrityError as error:
    print("rolled back:", error)
print(database.execute("SELECT sum(copies) FROM book").fetchone()[0], "copies")
database.close()
