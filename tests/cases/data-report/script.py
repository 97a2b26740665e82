import matplotlib

matplotlib.use("Agg")
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd


def load(path):
    df = pd.read_csv(path, skipinitialspace=True)
    df.columns = df.columns.str.strip().str.lower().str.replace(" ", "_")
    df["name"] = df["name"].str.strip().str.title()
    df["salary"] = pd.to_numeric(df["salary"].astype(str).str.replace(r"[$,]", "", regex=True), errors="coerce")
    df["hired"] = pd.to_datetime(df["hired"], errors="coerce", format="mixed")
    return df.drop_duplicates(subset="name").dropna(subset=["salary"])


def main():
    out = Path("output")
    out.mkdir(exist_ok=True)
    df = load("data/staff.csv")
    df.to_csv(out / "clean.csv", index=False)
    by_dept = df.groupby("dept")["salary"].agg(["count", "mean"]).round(0).astype(int)

    ax = by_dept["mean"].plot.barh(figsize=(5, 3), title="Mean salary")
    ax.figure.tight_layout()
    ax.figure.savefig(out / "salary.png")
    (out / "report.md").write_text("# Staff\n\n" + by_dept.to_markdown() + "\n", encoding="utf-8")
    print(f"{len(df)} people, {by_dept.shape[0]} departments")
    print(df["hired"].isna().sum(), sorted(p.name for p in out.iterdir()))


if __name__ == "__main__":
    main()
