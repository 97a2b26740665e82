import sqlite3

import pandas as pd

orders = pd.read_csv("orders.csv")
with sqlite3.connect("shop.db") as con:
    orders.to_sql("orders", con, index=False, if_exists="replace")
    con.execute("CREATE TABLE cities (name TEXT PRIMARY KEY, country TEXT)")
    con.executemany("INSERT INTO cities VALUES (?, ?)", [("Oslo", "NO"), ("Lima", "PE")])

    query = """
        SELECT c.country, COUNT(*) AS n, ROUND(SUM(o.amount), 2) AS total,
               RANK() OVER (ORDER BY SUM(o.amount) DESC) AS place
        FROM orders o LEFT JOIN cities c ON c.name = o.city
        GROUP BY c.country ORDER BY place
    """
    print(pd.read_sql(query, con).to_string())
    big = pd.read_sql_query("SELECT * FROM orders WHERE amount > ?", con, params=(10,), parse_dates=["day"])
    print(big["day"].dt.month.tolist(), list(big.columns))
    print(con.execute("SELECT json_extract('{\"a\": [1, 2]}', '$.a[1]')").fetchone())
con.close()

con = sqlite3.connect(":memory:")
pd.DataFrame({"x": range(10)}).to_sql("t", con, index=False)
print(sum(len(chunk) for chunk in pd.read_sql("SELECT * FROM t", con, chunksize=4)))
try:
    pd.read_sql("SELECT * FROM missing", con)
except Exception as error:
    print(type(error).__name__, "no such table" in str(error))
con.close()
