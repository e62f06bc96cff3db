"""`likes demo`: everything at once, on one screen."""

from cli.demo.command import demo

__all__ = ["demo"]
