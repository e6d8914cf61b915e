"""Packaging: everything comes from settings.ini, so that nbdev and pip read one file."""
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(here / "settings.ini", encoding="utf-8")
settings = parser["DEFAULT"]

setup(
    name=settings["lib_name"],
    version=settings["version"],
    description=settings["description"],
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=settings["author"],
    license="Apache-2.0",
    keywords=settings["keywords"],
    python_requires=f">={settings['min_python']}",
    packages=find_packages(include=["sparse_pep", "sparse_pep.*"]),
    package_data={"sparse_pep": ["py.typed"]},
    install_requires=settings["requirements"].split(),
    extras_require={
        "dev": settings["dev_requirements"].split(),
        "tables": settings["tables_requirements"].split(),
        "distributed": settings["distributed_requirements"].split(),
    },
    # nbdev finds its index of names, which links back-ticked names and sources, by this entry point
    entry_points={
        "console_scripts": settings["console_scripts"].split(),
        "nbdev": [f"{settings['lib_name']}={settings['lib_name']}._modidx:d"],
    },
    classifiers=[
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: Apache Software License",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering",
    ],
)
