"""Programs that people use: litmus, rclone, cadaver, curl."""

import os
import pathlib
import random
import re
import shutil
import subprocess
import unicodedata

import pytest

from daemon import IS_PLAIN

FILES = int(os.environ.get("OXI_RCLONE_FILES", "200" if IS_PLAIN else "60"))


def needs(program):
    return pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")


def run(*arguments, cwd, status=0, input=None, secs=170, **env):
    done = subprocess.run(
        [str(argument) for argument in arguments], cwd=cwd, input=input, timeout=secs, text=True,
        env=dict(os.environ, HOME=str(cwd), LC_ALL="C.UTF-8", **env), errors="replace",
        stdin=None if input is not None else subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    assert status is None or done.returncode == status, done.stdout[-3000:]
    return done.stdout


# --- litmus ---


@needs("litmus")
@pytest.mark.parametrize("suite", ["basic", "copymove", "props", "locks", "http"])
def test_litmus_finds_no_fault(tree, tmp_path, suite):
    output = run("litmus", "-k", tree.url(""), tree.user, tree.password, cwd=tmp_path,
                 status=None, TESTS=suite).replace("\r", "\n")
    summary = re.search(rf"summary for `{suite}': of (\d+) tests run: (\d+) passed, (\d+) failed",
                        output)
    assert summary, output
    ran, passed, failed = (int(number) for number in summary.groups())
    assert failed == 0 and passed == ran > 0, output
    assert "WARNING" not in output and "SKIPPED" not in output, output


# --- rclone ---


class Rclone:
    def __init__(self, client, folder):
        self.folder = folder
        hidden = run("rclone", "obscure", client.password, cwd=folder).strip()
        (folder / "rclone.conf").write_text(
            f"[r]\ntype = webdav\nurl = {client.url('')}\nvendor = other\n"
            f"user = {client.user}\npass = {hidden}\n")

    def __call__(self, *arguments, status=0):
        return run("rclone", "--config", self.folder / "rclone.conf", "--retries", "1",
                   "--low-level-retries", "1", "--timeout", "60s", "-q", *arguments,
                   cwd=self.folder, status=status)


ODD = ["\u00e9 \u00fc \u65e5\u672c.txt", "\U0001f389.bin", "a b+c#d%e&f.txt", "pct%41", "q?m",
       "ap'os", "semi;c,omma", "[br]{2}", "at@tilde~", "a=b$c!",
       "(p)", "back`tick^", "x:y", "<lt>", 'dq"q',
       "%", ".hidden", "trail.", " lead", "plus+plus", "100% #1", "--dash"]


def make_tree(root, count):
    """count files in odd folders under odd names, empty ones among them."""
    rand = random.Random(count)
    folders = [root] + [root / name for name in ("d \u00fc", "d#%", "deep/1/2/3", "a+b c")]
    for folder in [*folders, root / "empty folder", root / "deep" / "empty \u00e9"]:
        folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        name = ODD[number] if number < len(ODD) else f"{number} {rand.choice(ODD)}"
        size = rand.choice((0, 1, 100, 5_000, 80_000))
        (rand.choice(folders) / unicodedata.normalize("NFC", name)).write_bytes(
            rand.randbytes(size))


def content(root):
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
            for path in root.rglob("*")}


@needs("rclone")
def test_rclone_copies_a_tree_there_and_back(tree, tmp_path):
    rclone = Rclone(tree, tmp_path)
    source, back = tmp_path / "source", tmp_path / "back"
    make_tree(source, FILES)
    rclone("copy", "--create-empty-src-dirs", "--transfers", "8", source, "r:c")
    rclone("check", "--download", "--checkers", "8", source, "r:c")
    rclone("copy", "--create-empty-src-dirs", "--transfers", "8", "r:c", back)
    assert content(back) == content(source)


@needs("rclone")
def test_rclone_syncs_moves_and_removes(tree, tmp_path):
    rclone = Rclone(tree, tmp_path)
    source = tmp_path / "source"
    make_tree(source, 25)
    rclone("copy", source, "r:c")
    for path in list(source.rglob("*"))[::5]:
        if path.is_file():
            path.unlink()
    (source / "new").write_bytes(b"new" * 100)
    rclone("sync", source, "r:c")
    rclone("check", "--download", source, "r:c")
    renamed = "r:c/d \u00fc/renamed \u00e9#%.txt"
    rclone("moveto", "r:c/new", renamed)
    assert rclone("cat", renamed) == "new" * 100
    assert rclone("cat", "--offset", "3", "--count", "4", renamed) == "newn"
    rclone("moveto", "r:c/deep", "r:c/deep moved")
    assert rclone("rmdir", "r:c", status=None)
    rclone("purge", "r:c")
    assert tree.names() == []


@needs("rclone")
def test_rclone_streams_what_has_no_length(tree, tmp_path):
    rclone = Rclone(tree, tmp_path)
    run("sh", "-c", f"head -c 3000000 /dev/zero | rclone --config {tmp_path}/rclone.conf rcat r:f",
        cwd=tmp_path)
    assert tree.read("f") == bytes(3_000_000)
    assert rclone("lsf", "--format", "s", "r:f").strip() == "3000000"


# --- cadaver ---


@needs("cadaver")
def test_cadaver_works_a_while(tree, tmp_path):
    (tmp_path / ".netrc").write_text(
        f'machine 127.0.0.1 login {tree.user} password "{tree.password}"\n')
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "bin").write_bytes(random.Random(5).randbytes(200_000))
    (tmp_path / "a b+c#d%e \u00e9.txt").write_text("odd\n")
    (tmp_path / "zero").touch()

    def session(*commands):
        return run("cadaver", tree.url(""), cwd=tmp_path, input="\n".join(commands) + "\nquit\n")

    output = session("put bin", 'put "a b+c#d%e \u00e9.txt"', "put zero", "mkcol sub",
                     'mkcol "sub/d \u00e9"', "copy bin sub/copied", "move zero sub/moved",
                     "copy sub sub2", "move sub2 sub3", "propset bin colour green")
    assert "failed" not in output and output.count("succeeded") >= 9, output
    output = session("ls", "ls sub3", "get bin got", "propnames bin", "propget bin colour")
    assert "failed" not in output, output
    assert re.search(r"bin +200000", output) and "a b+c#d%e \u00e9.txt" in output
    assert "copied" in output and "moved" in output and "green" in output
    assert (tmp_path / "got").read_bytes() == (tmp_path / "bin").read_bytes()
    output = session("delete bin", "rmcol sub3", "rmcol sub", "ls nosuch")
    assert output.count("succeeded") >= 3, output
    assert tree.names() == ["a b+c#d%e \u00e9.txt"]


@needs("cadaver")
def test_cadaver_edits_under_a_lock(tree, tmp_path):
    (tmp_path / ".netrc").write_text(
        f'machine 127.0.0.1 login {tree.user} password "{tree.password}"\n')
    (tmp_path / ".netrc").chmod(0o600)
    (tmp_path / "text").write_text("new\n")
    tree.make_folder("sub")
    tree.make("sub/text", b"old")
    output = run("cadaver", tree.url("sub/"), cwd=tmp_path, input="\n".join([
        "lock text", "discover text", "put text", "lock fresh", "unlock fresh",
        "move text moved", "quit\n"]))
    assert "failed" not in output and output.count("succeeded") >= 5, output
    assert tree.tree("sub") == {"sub/moved": b"new\n", "sub/fresh": b""}
    assert tree.put("sub/moved", b"free").status == 204


# --- curl ---


class Curl:
    def __init__(self, client, folder):
        self.client, self.folder = client, folder
        (folder / "curlrc").write_text(f'user = "{client.user}:{client.password}"\n')

    def __call__(self, *arguments, **more):
        return run("curl", "-sS", "-m", "120", "-K", self.folder / "curlrc", *arguments,
                   cwd=self.folder, **more)


@needs("curl")
def test_curl_uploads_downloads_and_resumes(tree, tmp_path):
    curl = Curl(tree, tmp_path)
    source = tmp_path / "source.bin"
    source.write_bytes(os.urandom(12 << 20))
    assert curl("-w", "%{http_code}", "-o", "/dev/null", "-T", source, tree.url("f")) == "201"
    assert curl("-f", "-T", source, tree.url("")) == "", "named by the file"
    assert tree.names() == ["f", "source.bin"]
    part = tmp_path / "part"
    part.write_bytes(source.read_bytes()[:5_000_007])
    curl("-f", "-C", "-", "-o", part, tree.url("f"))
    assert part.read_bytes() == source.read_bytes()
    assert curl("-r", "100-109", "-o", "piece", "-w", "%{http_code}", tree.url("f")) == "206"
    assert (tmp_path / "piece").read_bytes() == source.read_bytes()[100:110]


@needs("curl")
def test_curl_does_not_resume_an_upload_into_the_middle_of_a_file(tree, tmp_path):
    curl = Curl(tree, tmp_path)
    (tmp_path / "source").write_bytes(b"0123456789" * 1000)
    tree.make("f", b"0123456789" * 500)
    assert curl("-C", "5000", "-w", "%{http_code}", "-o", "/dev/null", "-T", "source",
                tree.url("f")) == "400"
    assert tree.read("f") == b"0123456789" * 500


@needs("curl")
def test_curl_speaks_in_its_other_ways(tree, tmp_path):
    curl = Curl(tree, tmp_path)
    (tmp_path / "source").write_bytes(os.urandom(1_500_000))
    code = ("-w", "%{http_code}", "-o", "/dev/null")
    assert curl(*code, "-H", "Expect: 100-continue", "-T", "source", tree.url("expect")) == "201"
    assert curl(*code, "-H", "Transfer-Encoding: chunked", "-T", "source", tree.url("chunked")) \
        == "201"
    assert curl(*code, "--http1.0", "-T", "source", tree.url("old")) == "201"
    assert curl(*code, "--anyauth", "-T", "source", tree.url("anyauth")) == "201"
    data = pathlib.Path(tmp_path / "source").read_bytes()
    assert all(tree.read(name) == data for name in ("expect", "chunked", "old", "anyauth"))
    assert curl("--http1.0", "-o", "got", "-w", "%{http_code}", tree.url("old")) == "200"
    assert (tmp_path / "got").read_bytes() == data
