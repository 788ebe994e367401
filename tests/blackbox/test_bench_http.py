"""bench/http and its load generator still work, with what is installed of the peers."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from daemon import BINARY, CODEC, IS_PLAIN, PASSWORD, ROOT, USER
from dav import PATIENCE

sys.path.insert(0, str(ROOT / "bench"))

from httpbench import report  # noqa: E402

pytestmark = pytest.mark.skipif(not IS_PLAIN or CODEC is not None,
                                reason="the bench is built plain, and chooses the codecs itself")

HTTP_LOAD = BINARY.parent / "bench" / "http_load"
ROWS = ("idle", "upload-new", "upload-same", "download-cold", "range-4k", "put-small-16",
        "get-small", "propfind-named-new")  # each kind of work, once


def load(tree, path, *options, user=f"{USER}:{PASSWORD}"):
    assert HTTP_LOAD.exists(), f"{HTTP_LOAD} is missing; run make build-plain"
    done = subprocess.run([HTTP_LOAD, "--user", user, *options, tree.url().rstrip("/") + path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60 * PATIENCE)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def put(tree, *options):
    return load(tree, "/#", "--method", "PUT", "--size", "10000", "--count", "20",
                "--connections", "4", *options)


def get(tree, *options):
    return load(tree, "/#", "--size", "10000", "--count", "40", "--files", "20",
                "--connections", "4", *options)


def test_every_request_of_a_load_is_counted_and_its_bytes_are_stored(tree):
    result = put(tree)
    assert (result["requests"], result["errors"], result["bytes_sent"]) == (20, 0, 200000)
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["most_ms"]
    assert sorted(len(tree.get(str(n)).body) for n in range(20)) == [10000] * 20
    result = get(tree, "--compare")
    assert (result["requests"], result["errors"], result["bytes_received"]) == (40, 0, 400000)


def test_bytes_that_are_dropped_are_counted(tree):
    put(tree)
    assert get(tree)["bytes_received"] == 400000


def test_other_bytes_than_were_sent_are_errors(tree):
    put(tree)
    result = get(tree, "--compare", "--seed", "2")
    assert result["errors"] == 40
    assert "other bytes" in result["first_error"]


def test_text_packs_and_comes_back(tree):
    put(tree, "--text")
    assert get(tree, "--compare", "--text")["errors"] == 0
    assert get(tree, "--compare")["errors"] == 40


def test_another_length_than_was_wanted_is_an_error(tree):
    put(tree)
    result = load(tree, "/0", "--size", "9999", "--count", "1")
    assert (result["errors"], result["first_error"]) == (1, "request 0: 10000 bytes came of 9999")


def test_refused_requests_are_errors(tree):
    result = load(tree, "/nothing", "--count", "3")
    assert (result["errors"], result["requests"]) == (3, 0)
    assert result["first_error"] == "request 0: status 404"


def test_ranges_are_compared_where_they_were_taken(tree):
    load(tree, "/0", "--method", "PUT", "--size", "2M", "--count", "1")
    options = ("--range-of", "2M", "--size", "5000", "--files", "1", "--count", "50",
               "--connections", "3")
    assert load(tree, "/0", "--compare", *options)["errors"] == 0
    result = load(tree, "/0", *options)
    assert (result["errors"], result["bytes_received"]) == (0, 250000)


def test_answers_of_unknown_length_are_read_to_their_end(tree):
    put(tree)
    result = load(tree, "/", "--method", "PROPFIND", "--header", "Depth: 1", "--count", "10",
                  "--touch", tree.target("0"))
    assert (result["errors"], result["requests"]) == (0, 10)
    assert result["bytes_received"] > 10 * 20 * 100
    assert len(tree.get("0").body) == 64  # what touching writes


def run_bench(folder, *arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith("OXICLOUD_")}
    env.update(OXICLOUDD=str(BINARY), BENCH_DIR=str(folder), BENCH_REPS="1", BENCH_SCALE="0.005")
    return subprocess.run([ROOT / "bench" / "http", "--build", BINARY.parent, "--results", folder,
                           "--name", "smoke", *arguments], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300 * PATIENCE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Of one small run, and where they are."""
    folder = tmp_path_factory.mktemp("bench")
    done = run_bench(folder, "--rows", ",".join(ROWS))
    assert done.returncode == 0, done.stdout
    assert [path.name for path in folder.iterdir()] == ["smoke"], "servers' files are left"
    return json.loads((folder / "smoke" / "http.json").read_text()), folder / "smoke"


def test_each_row_has_figures_of_oxicloudd_and_of_the_peers_that_are_there(results):
    rows = results[0]["rows"]
    assert list(rows) == list(ROWS)
    for name, row in rows.items():
        for server in ("oxicloudd", "rclone"):
            assert report.column(row, server, "value")[0] > 0, (name, row)
        for server in ("nginx", "apache", "lighttpd"):
            assert (server in row["servers"]) != (server in row["failures"]), (name, row)


def test_a_full_duplicate_stores_nothing(results):
    same, new = (results[0]["rows"][name] for name in ("upload-same", "upload-new"))
    assert report.column(same, "oxicloudd", "stored_per_byte") == [0]
    assert report.column(new, "oxicloudd", "stored_per_byte")[0] > 0.9


def test_each_row_has_a_chart_and_is_in_the_tables(results):
    rows, folder = results[0]["rows"], results[1]
    text = (folder / "http.md").read_text()
    for name, row in rows.items():
        assert f"### {row['title']}" in text and f"http-{name}.svg" in text
        chart = xml.etree.ElementTree.parse(folder / f"http-{name}.svg").getroot()
        bars = [element for element in chart.iter() if element.tag.endswith("rect")]
        assert len(bars) == 1 + len(row["servers"])


def test_a_run_of_the_same_name_adds_its_rows(results):
    before, folder = results
    done = run_bench(folder.parent, "--rows", "idle,memory", "--servers", "oxicloudd")
    assert done.returncode == 0, done.stdout
    after = json.loads((folder / "http.json").read_text())["rows"]
    assert list(after) == [*ROWS, "memory"]
    assert after["upload-new"] == before["rows"]["upload-new"]
    assert list(after["idle"]["servers"]) == ["oxicloudd"]


def test_results_replace_what_stands_between_the_marks_of_a_document(results, tmp_path):
    document = tmp_path / "HTTP.md"
    document.write_text("above\n<!-- http -->\nold\n<!-- end of http -->\nbelow\n")
    report.put_into(document, results[0], "results/smoke/http-")
    text = document.read_text()
    assert text.startswith("above\n<!-- http -->\n- ") and "\nold\n" not in text
    assert text.endswith("\n<!-- end of http -->\nbelow\n")
    assert "results/smoke/http-idle.svg" in text


def test_the_document_has_the_marks_for_its_results():
    text = (ROOT / "bench" / "HTTP.md").read_text()
    assert text.count("<!-- http -->\n") == text.count("<!-- end of http -->\n") == 1


@pytest.mark.parametrize("number, of, at_most, verdict", [
    (0.8, "nginx", False, "met"), (0.9, "nginx", False, "**missed**"),
    (160, None, False, "met"), (161, None, False, "**missed**"),
    (160, None, True, "met"), (159, None, True, "**missed**"),
])
def test_a_target_is_a_number_or_a_ratio_within_repetitions(number, of, at_most, verdict):
    def server(*values):
        return {"samples": [{"value": value} for value in values]}

    row = {"unit": "MiB/s", "cpu_unit": "s/GiB",
           "servers": {"oxicloudd": server(80, 160, 320), "nginx": server(100, 200, 1000)}}
    target = {"number": number, "of": of, "field": "value", "at_most": at_most, "stretch": False}
    assert report.target_text(row, target).endswith(f", {verdict}")
