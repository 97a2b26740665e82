"""Adapters for agent frameworks, a module each: `from glovebox_sandbox.integrations.smolagents import GloveboxExecutor`.

A module imports its framework when it is itself imported, and this package imports none of them. `docs/frameworks.md` shows how each is used.
"""
