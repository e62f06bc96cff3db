"""`python -m deploy.flink.local_stack [--relock] [NAME…]`: fetch the jars, or resolve and lock them afresh."""

from __future__ import annotations

import argparse
import sys

from deploy.flink.local_stack.jars import NAMES, ensure_jars, write_lock
from pipelines.errors import LikesError, of_file_system


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.flink.local_stack")
    parser.add_argument("--relock", action="store_true", help="resolve the poms afresh and write the locks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no such pom: {unknown[0]}")
    try:
        for name in options.names or NAMES:
            if options.relock:
                _tell(f"{name} jars: {write_lock(name, _tell)} locked")
            else:
                ensure_jars(name, _tell)
    except LikesError as error:
        return _failed(error)
    except OSError as error:
        if (known := of_file_system(error)) is None:
            raise
        return _failed(known)
    return 0


def _failed(error: LikesError) -> int:
    _tell(f"error: {error}")
    return error.exit_code


def _tell(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
