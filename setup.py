"""Packaging: everything comes from settings.ini, so that nbdev and pip read one file."""

from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(here / "settings.ini", encoding="utf-8")
settings = parser["DEFAULT"]
url = settings["git_url"] % settings
# nbdev's index of names, which links back-ticked names and sources: of use where the notebooks are
INDEX = "_modidx"
checkout = (here / settings["nbs_path"]).is_dir()


class Build(build_py):
    """What a wheel holds: every module but nbdev's index."""

    def find_package_modules(self, package, package_dir):
        return [
            found
            for found in super().find_package_modules(package, package_dir)
            if found[1] != INDEX
        ]


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
    package_data={"sparse_pep": ["py.typed", "readers/*"]},
    install_requires=settings["requirements"].split(),
    extras_require={
        "dev": settings["dev_requirements"].split() + settings["notebooks_requirements"].split(),
        "tables": settings["tables_requirements"].split(),
        "distributed": settings["distributed_requirements"].split(),
        "notebooks": settings["notebooks_requirements"].split(),
    },
    cmdclass={"build_py": Build},
    # nbdev finds its index by this entry point
    entry_points={
        "console_scripts": settings["console_scripts"].split(),
        **(
            {"nbdev": [f"{settings['lib_name']}={settings['lib_name']}.{INDEX}:d"]}
            if checkout
            else {}
        ),
    },
    url=url,
    project_urls={
        "Source": url,
        "Issues": f"{url}/issues",
        "Changes": f"{url}/blob/{settings['branch']}/CHANGELOG.md",
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "License :: OSI Approved :: Apache Software License",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3 :: Only",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Mathematics",
        "Typing :: Typed",
    ],
)
