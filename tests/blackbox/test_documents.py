"""The documents say what the program does: these need no server."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def settings(form):
    return subprocess.run(
        ["awk", "-v", f"form={form}", "-f", "docs/settings.awk", "oxicloudd.conf.example"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_the_table_of_settings_in_the_readme_is_that_of_the_example_file():
    assert settings("table") in (ROOT / "README.md").read_text(), "run `make docs`"


def test_every_setting_of_the_example_file_is_in_the_table_and_in_the_manual():
    example = (ROOT / "oxicloudd.conf.example").read_text()
    keys = re.findall(r"^#([a-z_]+) =", example, re.MULTILINE)
    assert len(keys) > 20
    assert re.findall(r"^\| `([a-z_]+)`", settings("table"), re.MULTILINE) == keys
    assert settings("manual").count(".TP\n") == len(keys)


def test_the_program_says_the_version_of_the_makefile():
    version = re.search(r"^VERSION +:= (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    said = subprocess.run(
        [os.environ.get("OXICLOUDD", ROOT / "build" / "oxicloudd"), "version"],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    assert version in said.split()


def test_links_between_the_documents_lead_somewhere():
    for document in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_folders_of_the_map_exist():
    named = re.findall(r"^    ([a-z]+/[a-z/]*)  ", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(named) > 10
    for folder in named:
        assert (ROOT / folder).is_dir(), folder
