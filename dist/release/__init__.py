"""Builds and checks releases. The commands `dist/build` and `dist/check` use this package."""
