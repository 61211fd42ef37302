"""Write the stub of the builder methods into the package that is built or installed in place."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class BuildWithStub(build_py):
    def run(self) -> None:
        super().run()
        package = ROOT / "rlx" if self.editable_mode else Path(self.build_lib) / "rlx"
        generator = ROOT / "tools" / "generate_builders.py"
        subprocess.run([sys.executable, str(generator), str(package.resolve())], check=True)


setup(cmdclass={"build_py": BuildWithStub})
