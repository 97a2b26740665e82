"""Makes and checks releases. `dist/build` and `dist/check` are its commands."""
