from pathlib import Path

root = Path("/app")
(root / "sub").mkdir()
(root / "a.txt").write_text("A")
(root / "sub" / "b.txt").write_text("B")
print(sorted(str(p.relative_to(root)) for p in root.rglob("*.txt")))
print(Path("a.txt").read_text())
