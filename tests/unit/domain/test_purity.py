import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
IMPORT_ALL = """
import importlib, pkgutil, sys

class OnlyStandardLibrary:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "pipelines"}:
            raise ImportError(f"{name} is not in the standard library")

sys.meta_path.insert(0, OnlyStandardLibrary())
import pipelines.domain
for module in pkgutil.iter_modules(pipelines.domain.__path__, "pipelines.domain."):
    importlib.import_module(module.name)
    print(module.name)
"""


def test_the_domain_imports_only_the_standard_library() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT_ALL],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "pipelines.domain.counting" in done.stdout.split()
