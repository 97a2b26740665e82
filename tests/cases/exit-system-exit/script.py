raise SystemExit(4)
