"""The wheel has programs of one platform, and runs with each Python 3."""

from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class WithPrograms(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class OfOnePlatform(bdist_wheel):
    def get_tag(self) -> "tuple[str, str, str]":
        return "py3", "none", Path("PLATFORM").read_text().strip()


setup(distclass=WithPrograms, cmdclass={"bdist_wheel": OfOnePlatform})
