"""Adapters for agent frameworks, one module each: `from glovebox_sandbox.integrations.smolagents import
GloveboxExecutor`.

A module imports its framework when the module is imported; this package imports no framework. `docs/frameworks.md`
shows how to use each adapter.
"""
