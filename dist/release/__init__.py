"""How a release is made and checked: `dist/build` and `dist/check` are its commands."""
